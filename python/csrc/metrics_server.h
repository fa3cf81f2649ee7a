#pragma once

#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atp/collective/base/closed_in_child.h"
#include "atp/driver/http/http_service.h"

// Serves a rank's metrics over HTTP. Python writes the page; but connections, of which strangers
// may open any number, never reach it.

namespace atp::pytorch {

class MetricsServer {
 public:
  // `at` is "HOST:PORT"; `names`: further names that requests may have for this host. `text` is
  // called on the server's thread. Throws std::runtime_error.
  MetricsServer(const std::string& at, const std::vector<std::string>& names,
                std::function<std::string()> text);
  ~MetricsServer() { stop(); }
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  std::string address() const;
  // Must be called without the GIL, and before the interpreter ends: the thread calls Python.
  void stop();

 private:
  const pid_t owner_ = getpid();
  std::unique_ptr<HttpService> service_;
  std::optional<ClosedInChild> closed_in_child_;
};

}  // namespace atp::pytorch
