#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/driver/http/http_request.h"
#include "atp/driver/tcp/talk_server.h"

// Serves a few pages over HTTP, for Prometheus and browsers, from a separate thread. Each
// connection is for one request.

namespace atp {

struct HttpPage {
  std::string content_type;
  std::string body;
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};  // additional ones
  bool stays_open = false;  // the body is its beginning, publish() sends more
};

class HttpService {
 public:
  struct Owner {
    // The page for a GET or HEAD; nothing: 404. Called on the service's thread.
    std::function<std::optional<HttpPage>(const std::string& path)> page;
    // Requests for other hosts than these are refused (own_host.h).
    std::vector<std::string> names;
    std::function<void(const std::string&)> tell;  // a line for the log
  };

  static Result<std::unique_ptr<HttpService>> start(const Endpoint& at, Owner owner);
  HttpService(const HttpService&) = delete;
  HttpService& operator=(const HttpService&) = delete;

  const Endpoint& address() const { return server_->address(); }
  int listener() const { return server_->listener(); }

  // Sends the text to all open pages. A page whose reader has not yet read an earlier text skips
  // this one, so each text must make sense on its own. Any thread.
  void publish(std::string text) { server_->publish(std::move(text)); }

 private:
  explicit HttpService(Owner owner) : owner_(std::move(owner)) {}
  TalkServer::Heard hear(const TalkServer::Client& client) const;
  HttpPage page_for(const HttpRequest& request) const;

  const Owner owner_;
  std::unique_ptr<TalkServer> server_;  // last, because its thread uses the owner
};

}  // namespace atp
