#include "atp/cli/view/view_service.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "atp/base/system_random.h"
#include "atp/cli/command/log.h"
#include "atp/cli/view/view_page.h"

namespace atp {
namespace {

// A browser whose stream ends asks again after so long, so that more of them than streams take
// turns, and none finds its page out of date.
constexpr std::string_view kRetry = "retry: 2000\n";

// One server-sent event; the document is one line.
std::string event_of(const std::string& json) { return "data: " + json + "\n\n"; }

// Only the page's own script and style run, it connects to nobody but us, and no text can become
// markup.
HttpPage page_with_policy() {
  const std::string nonce = fmt::format("{:016x}{:016x}", random_seed(), random_seed());
  std::string body(kViewPage);
  constexpr std::string_view kPlace = "@NONCE@";
  for (std::size_t at = 0; (at = body.find(kPlace, at)) != std::string::npos;) {
    body.replace(at, kPlace.size(), nonce);
  }
  return {.content_type = "text/html; charset=utf-8",
          .body = std::move(body),
          .headers = {{"Content-Security-Policy",
                       fmt::format("default-src 'none'; script-src 'nonce-{0}'; style-src "
                                   "'nonce-{0}'; connect-src 'self'; img-src data:; base-uri "
                                   "'none'; form-action 'none'; frame-ancestors 'none'; "
                                   "require-trusted-types-for 'script'",
                                   nonce)},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cross-Origin-Opener-Policy", "same-origin"}}};
}

}  // namespace

Result<std::unique_ptr<ViewService>> ViewService::start(const Endpoint& at,
                                                        std::vector<std::string> names) {
  std::unique_ptr<ViewService> service(new ViewService);
  auto http = HttpService::start(
      at, {.page = [own = service.get()](const std::string& path) { return own->page(path); },
           .names = std::move(names),
           .tell = [](const std::string& line) { log_warning("{}", line); }});
  if (!http) return http.error();
  service->http_ = std::move(http).value();
  return service;
}

void ViewService::show(std::string json) {
  http_->publish(event_of(json));
  const std::lock_guard lock(mutex_);
  json_ = std::move(json);
}

std::optional<HttpPage> ViewService::page(const std::string& path) {
  if (path == "/") return page_with_policy();
  const std::pair<std::string, std::string> same_origin{"Cross-Origin-Resource-Policy",
                                                        "same-origin"};
  const std::lock_guard lock(mutex_);
  if (path == "/view.json") {
    return HttpPage{
        .content_type = "application/json", .body = json_ + "\n", .headers = {same_origin}};
  }
  if (path == "/events") {
    return HttpPage{.content_type = "text/event-stream",
                    .body = std::string(kRetry) + event_of(json_),
                    .headers = {same_origin},
                    .stays_open = true};
  }
  return std::nullopt;
}

}  // namespace atp
