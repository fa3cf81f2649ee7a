#include "atp/driver/http/http_service.h"

#include <ctime>

#include "atp/driver/http/own_host.h"

namespace atp {
namespace {

constexpr std::chrono::seconds kPatience{5};  // per connection

HttpPage refusal(int status, std::string text = {}) {
  if (text.empty()) text = http_status_text(status);
  return {.content_type = "text/plain", .body = std::move(text) + "\n", .status = status};
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[64];
  const std::size_t length =
      std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
  return {text, length};
}

// A page that stays open ends with the connection, so it has no length.
std::string bytes_of(const HttpPage& page, bool head_only) {
  std::string bytes = "HTTP/1.1 " + http_status_text(page.status) + "\r\n";
  const auto add = [&bytes](const std::string& name, const std::string& value) {
    bytes += name + ": " + value + "\r\n";
  };
  add("Date", date());
  add("Connection", "close");
  add("X-Content-Type-Options", "nosniff");
  add("Cache-Control", "no-store");
  add("Content-Type", page.content_type);
  if (!page.stays_open) add("Content-Length", std::to_string(page.body.size()));
  for (const auto& [name, value] : page.headers) add(name, value);
  bytes += "\r\n";
  return head_only ? bytes : bytes + page.body;
}

}  // namespace

Result<std::unique_ptr<HttpService>> HttpService::start(const Endpoint& at, Owner owner) {
  std::unique_ptr<HttpService> service(new HttpService(std::move(owner)));
  auto server = TalkServer::start(
      at, {.hear = [own = service.get()](const auto& client) { return own->hear(client); },
           .admits = {},
           .tell = service->owner_.tell,
           .most_bytes = kMostRequestBytes,
           .patience = kPatience});
  if (!server) return server.error();
  service->server_ = std::move(server).value();
  return service;
}

TalkServer::Heard HttpService::hear(const TalkServer::Client& client) const {
  const auto read = read_http_request(client.bytes);
  if (!read) return {};
  const HttpPage page = read->problem == 0 ? page_for(read->request) : refusal(read->problem);
  const bool head_only = read->request.head_only;
  return {.answer = TalkServer::Answer{.bytes = bytes_of(page, head_only),
                                       .stays = page.stays_open && !head_only}};
}

// Every browser names the host, so a request that names none is none of a page of another site.
HttpPage HttpService::page_for(const HttpRequest& request) const {
  if (request.host && !is_own_host(*request.host, owner_.names)) {
    return refusal(403,
                   "request this page by the machine's address, localhost or its host's name; "
                   "--host-name NAME (ATP_METRICS=ADDR:PORT,NAME) allows another name");
  }
  auto page = owner_.page(request.path);
  if (!page) return refusal(404);
  return *std::move(page);
}

}  // namespace atp
