#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "atp/base/result.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/waker.h"

struct event_base;
struct evhttp;
struct event;

// A few pages by HTTP, for Prometheus and for browsers, from a thread of its own (libevent, whose
// archives the program takes in).

namespace atp {

struct HttpPage {
  std::string content_type;
  std::string body;
  int status = 200;
};

class HttpService {
 public:
  // What is at a path, asked for by GET or HEAD; nothing: 404. Called in the service's thread.
  using Pages = std::function<std::optional<HttpPage>(const std::string& path)>;

  static Result<std::unique_ptr<HttpService>> start(const Endpoint& at, Pages pages);
  ~HttpService();
  HttpService(const HttpService&) = delete;
  HttpService& operator=(const HttpService&) = delete;

  const Endpoint& address() const { return address_; }

 private:
  struct Loop;
  HttpService(const Endpoint& address, std::unique_ptr<Loop> loop);

  Endpoint address_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace atp
