#pragma once

#include <string>

#include "atp/wire/endpoint.h"

namespace atp {

// An endpoint without its port: "127.0.0.1", "::1".
inline std::string host_text(const Endpoint& endpoint) {
  const std::string text = to_string(endpoint);
  const std::string host = text.substr(0, text.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

}  // namespace atp
