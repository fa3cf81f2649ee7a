#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/driver/http/http_service.h"

// What `atp view` serves: the page at /, its data at /view.json, and the same as server-sent events
// at /events. Nothing can be changed through it.

namespace atp {

class ViewService {
 public:
  // `names`: see is_own_host().
  static Result<std::unique_ptr<ViewService>> start(const Endpoint& at,
                                                    std::vector<std::string> names);

  const Endpoint& address() const { return http_->address(); }
  // The document that readers get from now on.
  void show(std::string json);

 private:
  ViewService() = default;
  std::optional<HttpPage> page(const std::string& path);

  std::mutex mutex_;
  std::string json_ = "null";
  std::unique_ptr<HttpService> http_;  // last: its thread uses the rest
};

}  // namespace atp
