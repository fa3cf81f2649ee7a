#include "atp/cli/metrics/http_service.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr int kPatienceSeconds = 5;  // with one connection
constexpr std::ptrdiff_t kMostHeaderBytes = 16 * 1024;
constexpr std::ptrdiff_t kMostBodyBytes = 1024;  // none is wanted

struct FreeBase {
  void operator()(event_base* base) const { event_base_free(base); }
};
struct FreeHttp {
  void operator()(evhttp* http) const { evhttp_free(http); }
};
struct FreeEvent {
  void operator()(event* one) const { event_free(one); }
};

std::string path_of(evhttp_request* request) {
  const char* path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
  return path == nullptr || *path == '\0' ? "/" : path;
}

void reply(evhttp_request* request, void* pages) {
  const auto page = (*static_cast<HttpService::Pages*>(pages))(path_of(request));
  evkeyvalq* headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Connection", "close");
  evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
  if (!page) {
    evhttp_send_error(request, HTTP_NOTFOUND, nullptr);
    return;
  }
  evhttp_add_header(headers, "Content-Type", page->content_type.c_str());
  evhttp_add_header(headers, "Cache-Control", "no-store");
  evbuffer* body = evhttp_request_get_output_buffer(request);
  evbuffer_add(body, page->body.data(), page->body.size());
  evhttp_send_reply(request, page->status, nullptr, nullptr);
}

void stop(evutil_socket_t, short, void* base) {
  event_base_loopbreak(static_cast<event_base*>(base));
}

}  // namespace

// In the order in which they need each other.
struct HttpService::Loop {
  Pages pages;
  std::unique_ptr<Waker> stop_waker;
  std::unique_ptr<event_base, FreeBase> base;
  std::unique_ptr<event, FreeEvent> stop_event;
  std::unique_ptr<evhttp, FreeHttp> http;
};

Result<std::unique_ptr<HttpService>> HttpService::start(const Endpoint& at, Pages pages) {
  const Result<TcpSocket> listener = TcpSocket::listen(at);
  if (!listener) return listener.error();
  const Result<Endpoint> address = listener.value().local();
  if (!address) return address.error();
  auto waker = Waker::create();
  if (!waker) return waker.error();
  auto loop = std::make_unique<Loop>();
  loop->pages = std::move(pages);
  loop->stop_waker = std::move(waker).value();
  loop->base.reset(event_base_new());
  loop->http.reset(evhttp_new(loop->base.get()));
  loop->stop_event.reset(
      event_new(loop->base.get(), loop->stop_waker->fd(), EV_READ, stop, loop->base.get()));
  const int own = fcntl(listener.value().fd(), F_DUPFD_CLOEXEC, 0);  // libevent closes it
  if (own < 0 || evhttp_accept_socket(loop->http.get(), own) != 0) {
    return Error{std::string("cannot listen: ") + std::strerror(errno)};
  }
  event_add(loop->stop_event.get(), nullptr);
  evhttp* http = loop->http.get();
  evhttp_set_timeout(http, kPatienceSeconds);
  evhttp_set_max_headers_size(http, kMostHeaderBytes);
  evhttp_set_max_body_size(http, kMostBodyBytes);
  evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
  evhttp_set_gencb(http, reply, &loop->pages);
  return std::unique_ptr<HttpService>(new HttpService(address.value(), std::move(loop)));
}

HttpService::HttpService(const Endpoint& address, std::unique_ptr<Loop> loop)
    : address_(address), loop_(std::move(loop)), thread_([base = loop_->base.get()] {
        // Of who has hung up libevent hears by the error, not by a signal that ends the process.
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
        event_base_dispatch(base);
      }) {}

HttpService::~HttpService() {
  loop_->stop_waker->stop();
  thread_.join();
}

}  // namespace atp
