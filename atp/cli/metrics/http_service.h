#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/waker.h"

struct event_base;
struct evhttp;
struct event;

// Serves a few pages over HTTP, for Prometheus and browsers, from a separate thread (libevent,
// linked statically).

namespace atp {

struct HttpRequest {
  std::string path;
  std::string host;  // the header of that name
};

struct HttpPage {
  std::string content_type;
  std::string body;
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};  // additional ones
  bool stays_open = false;  // the body is only its beginning; publish() sends more
};

class HttpService {
 public:
  // The maximum number of pages that stay open.
  static constexpr std::size_t kMostStreams = 32;

  // The page for a GET or HEAD; nothing: 404. Called on the service's thread.
  using Pages = std::function<std::optional<HttpPage>(const HttpRequest& request)>;

  static Result<std::unique_ptr<HttpService>> start(const Endpoint& at, Pages pages);
  ~HttpService();
  HttpService(const HttpService&) = delete;
  HttpService& operator=(const HttpService&) = delete;

  const Endpoint& address() const { return address_; }

  // Sends the text to all open pages. A page whose reader has not yet read an earlier text skips
  // this one, so each text must make sense on its own. Any thread.
  void publish(std::string text);

 private:
  struct Loop;
  HttpService(const Endpoint& address, std::unique_ptr<Loop> loop);

  Endpoint address_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace atp
