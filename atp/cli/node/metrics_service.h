#pragma once

#include <memory>
#include <string>

#include "atp/cli/node/loop_desk.h"
#include "atp/driver/http/http_service.h"

// Serves the page /metrics for --metrics (docs/operate/metrics.md). `names`: see is_own_host().

namespace atp {

class MetricsService {
 public:
  static Result<std::unique_ptr<MetricsService>> start(const Endpoint& at,
                                                       std::vector<std::string> names, Waker& loop);
  ~MetricsService() { desk_.close(); }
  MetricsService(const MetricsService&) = delete;
  MetricsService& operator=(const MetricsService&) = delete;

  const Endpoint& address() const { return http_->address(); }
  // Called on the loop's thread.
  bool is_asked() { return desk_.is_asked(); }
  void answer(NodeStatus status) { desk_.answer(std::move(status)); }

 private:
  explicit MetricsService(Waker& loop) : desk_(loop) {}
  std::optional<HttpPage> page(const std::string& path);

  LoopDesk desk_;
  std::unique_ptr<HttpService> http_;  // last, because its thread uses the desk
};

}  // namespace atp
