#include "atp/cli/view/view_service.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "atp/cli/command/machine.h"
#include "atp/cli/view/view_page.h"

namespace atp {
namespace {

// "[::1]:80" and "host:80", without the port and the brackets.
std::string without_port(std::string_view header) {
  if (header.starts_with('[')) return std::string(header.substr(1, header.find(']') - 1));
  return std::string(header.substr(0, header.find(':')));
}

bool is_ip_address(const std::string& host) {
  in6_addr bytes{};
  return inet_pton(AF_INET, host.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

std::string in_small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

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

bool is_own_host(const std::string& header, const std::vector<std::string>& names) {
  const std::string host = in_small_letters(without_port(header));
  if (is_ip_address(host) || host == "localhost") return true;
  return !host.empty() && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return in_small_letters(name) == host;
  });
}

Result<std::unique_ptr<ViewService>> ViewService::start(const Endpoint& at,
                                                        std::vector<std::string> names) {
  std::unique_ptr<ViewService> service(new ViewService(std::move(names)));
  auto http = HttpService::start(
      at, [own = service.get()](const HttpRequest& request) { return own->page(request); });
  if (!http) return http.error();
  service->http_ = std::move(http).value();
  return service;
}

void ViewService::show(std::string json) {
  http_->publish(event_of(json));
  const std::lock_guard lock(mutex_);
  json_ = std::move(json);
}

std::optional<HttpPage> ViewService::page(const HttpRequest& request) {
  if (!is_own_host(request.host, names_)) {
    return HttpPage{.content_type = "text/plain",
                    .body =
                        "request atp view by its address, localhost or its host's name; for "
                        "another name, start it with --host-name NAME\n",
                    .status = 403};
  }
  if (request.path == "/") return page_with_policy();
  const std::pair<std::string, std::string> same_origin{"Cross-Origin-Resource-Policy",
                                                        "same-origin"};
  const std::lock_guard lock(mutex_);
  if (request.path == "/view.json") {
    return HttpPage{
        .content_type = "application/json", .body = json_ + "\n", .headers = {same_origin}};
  }
  if (request.path == "/events") {
    return HttpPage{.content_type = "text/event-stream",
                    .body = event_of(json_),
                    .headers = {same_origin},
                    .stays_open = true};
  }
  return std::nullopt;
}

}  // namespace atp
