#include "atp/cli/node/metrics_service.h"

#include <optional>
#include <utility>

#include "atp/cli/command/log.h"
#include "atp/cli/metrics/node_metrics.h"

namespace atp {

Result<std::unique_ptr<MetricsService>> MetricsService::start(const Endpoint& at,
                                                              std::vector<std::string> names,
                                                              Waker& loop) {
  std::unique_ptr<MetricsService> service(new MetricsService(loop));
  auto http = HttpService::start(
      at, {.page = [own = service.get()](const std::string& path) { return own->page(path); },
           .names = std::move(names),
           .tell = [](const std::string& line) { log_warning("{}", line); }});
  if (!http) return http.error();
  service->http_ = std::move(http).value();
  return service;
}

std::optional<HttpPage> MetricsService::page(const std::string& path) {
  if (path == "/") {
    return HttpPage{"text/html; charset=utf-8",
                    "<!doctype html><title>atp</title><a href=\"/metrics\">metrics</a>\n"};
  }
  if (path != "/metrics") return std::nullopt;
  const auto status = desk_.ask();
  if (!status) return HttpPage{"text/plain", "the node did not answer in time\n", 503};
  MetricsText metrics;
  add_node_metrics(*status, metrics);
  add_process_metrics(metrics);
  return HttpPage{MetricsText::kContentType, metrics.text()};
}

}  // namespace atp
