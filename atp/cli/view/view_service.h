#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "atp/base/result.h"
#include "atp/cli/metrics/http_service.h"

// What `atp view` serves: the page at /, its data at /view.json, and the same as server-sent events
// at /events. Nothing can be changed through it.

namespace atp {

// Whether a request's Host header names this machine in a way that no other site can: an address,
// localhost, or one of `names`. A page of another site whose name suddenly leads here (DNS
// rebinding) sends that name.
bool is_own_host(const std::string& header, const std::vector<std::string>& names);

class ViewService {
 public:
  static Result<std::unique_ptr<ViewService>> start(const Endpoint& at,
                                                    std::vector<std::string> names);

  const Endpoint& address() const { return http_->address(); }
  // The document that readers get from now on.
  void show(std::string json);

 private:
  explicit ViewService(std::vector<std::string> names) : names_(std::move(names)) {}
  std::optional<HttpPage> page(const HttpRequest& request);

  std::vector<std::string> names_;
  std::mutex mutex_;
  std::string json_ = "null";
  std::unique_ptr<HttpService> http_;  // last: its thread uses the rest
};

}  // namespace atp
