#include "atp/cli/metrics/http_service.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr int kPatienceSeconds = 5;  // per connection
constexpr std::ptrdiff_t kMostHeaderBytes = 16 * 1024;
constexpr std::ptrdiff_t kMostBodyBytes = 1024;  // requests need no body

struct FreeBase {
  void operator()(event_base* base) const { event_base_free(base); }
};
struct FreeHttp {
  void operator()(evhttp* http) const { evhttp_free(http); }
};
struct FreeEvent {
  void operator()(event* one) const { event_free(one); }
};
struct FreeBuffer {
  void operator()(evbuffer* buffer) const { evbuffer_free(buffer); }
};

std::string path_of(evhttp_request* request) {
  const char* path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
  return path == nullptr || *path == '\0' ? "/" : path;
}

std::string host_of(evhttp_request* request) {
  const char* host = evhttp_find_header(evhttp_request_get_input_headers(request), "Host");
  return host == nullptr ? "" : host;
}

}  // namespace

// In order of dependency.
struct HttpService::Loop {
  Pages pages;
  std::unique_ptr<Waker> waker;
  std::mutex mutex;
  std::optional<std::string> published;                                 // not sent yet
  std::vector<std::pair<evhttp_connection*, evhttp_request*>> streams;  // until they close
  std::unique_ptr<event_base, FreeBase> base;
  std::unique_ptr<event, FreeEvent> wake_event;
  std::unique_ptr<evhttp, FreeHttp> http;

  static void reply(evhttp_request* request, void* self);
  static void wake(evutil_socket_t, short, void* self);
  static void forget(evhttp_connection* connection, void* self);
  void keep_open(evhttp_request* request, evbuffer* beginning);
  void send_published();
};

void HttpService::Loop::reply(evhttp_request* request, void* self) {
  Loop& loop = *static_cast<Loop*>(self);
  const auto page = loop.pages({.path = path_of(request), .host = host_of(request)});
  evkeyvalq* headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Connection", "close");
  evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
  if (!page) {
    evhttp_send_error(request, HTTP_NOTFOUND, nullptr);
    return;
  }
  const bool is_whole = !page->stays_open || evhttp_request_get_command(request) == EVHTTP_REQ_HEAD;
  if (!is_whole && loop.streams.size() >= kMostStreams) {
    evhttp_send_error(request, HTTP_SERVUNAVAIL, nullptr);
    return;
  }
  evhttp_add_header(headers, "Content-Type", page->content_type.c_str());
  evhttp_add_header(headers, "Cache-Control", "no-store");
  for (const auto& [name, value] : page->headers) {
    evhttp_add_header(headers, name.c_str(), value.c_str());
  }
  if (is_whole) {
    evbuffer* body = evhttp_request_get_output_buffer(request);
    evbuffer_add(body, page->body.data(), page->body.size());
    evhttp_send_reply(request, page->status, nullptr, nullptr);
    return;
  }
  const std::unique_ptr<evbuffer, FreeBuffer> beginning(evbuffer_new());
  evbuffer_add(beginning.get(), page->body.data(), page->body.size());
  loop.keep_open(request, beginning.get());
}

void HttpService::Loop::keep_open(evhttp_request* request, evbuffer* beginning) {
  evhttp_connection* connection = evhttp_request_get_connection(request);
  evhttp_connection_set_closecb(connection, forget, this);
  streams.emplace_back(connection, request);
  evhttp_send_reply_start(request, HTTP_OK, nullptr);
  evhttp_send_reply_chunk(request, beginning);
  // A stream's reader sends nothing; one that reads nothing for this long is gone.
  bufferevent* stream = evhttp_connection_get_bufferevent(connection);
  const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
  bufferevent_set_timeouts(stream, nullptr, &patience);
  bufferevent_setwatermark(stream, EV_READ, 0, kMostHeaderBytes);
}

void HttpService::Loop::forget(evhttp_connection* connection, void* self) {
  std::erase_if(static_cast<Loop*>(self)->streams, [&](const auto& stream) {
    if (stream.first != connection) return false;
    // When a reader leaves, libevent frees the connection, and we must free the request.
    if (evhttp_request_get_connection(stream.second) == nullptr) {
      evhttp_send_reply_end(stream.second);
    }
    return true;
  });
}

void HttpService::Loop::wake(evutil_socket_t, short, void* self) {
  Loop& loop = *static_cast<Loop*>(self);
  loop.waker->drain();
  if (loop.waker->stopped()) {
    event_base_loopbreak(loop.base.get());
  } else {
    loop.send_published();
  }
}

void HttpService::Loop::send_published() {
  std::optional<std::string> text;
  {
    const std::lock_guard lock(mutex);
    text.swap(published);
  }
  if (!text) return;
  for (const auto& [connection, request] : streams) {
    bufferevent* stream = evhttp_connection_get_bufferevent(connection);
    if (evbuffer_get_length(bufferevent_get_output(stream)) > 0) continue;
    const std::unique_ptr<evbuffer, FreeBuffer> chunk(evbuffer_new());
    evbuffer_add(chunk.get(), text->data(), text->size());
    evhttp_send_reply_chunk(request, chunk.get());
  }
}

Result<std::unique_ptr<HttpService>> HttpService::start(const Endpoint& at, Pages pages) {
  const Result<TcpSocket> listener = TcpSocket::listen(at);
  if (!listener) return listener.error();
  const Result<Endpoint> address = listener.value().local();
  if (!address) return address.error();
  auto waker = Waker::create();
  if (!waker) return waker.error();
  auto loop = std::make_unique<Loop>();
  loop->pages = std::move(pages);
  loop->waker = std::move(waker).value();
  loop->base.reset(event_base_new());
  loop->http.reset(evhttp_new(loop->base.get()));
  loop->wake_event.reset(
      event_new(loop->base.get(), loop->waker->fd(), EV_READ | EV_PERSIST, Loop::wake, loop.get()));
  const int own = fcntl(listener.value().fd(), F_DUPFD_CLOEXEC, 0);  // libevent closes it
  if (own < 0 || evhttp_accept_socket(loop->http.get(), own) != 0) {
    return Error{std::string("cannot listen: ") + std::strerror(errno)};
  }
  event_add(loop->wake_event.get(), nullptr);
  evhttp* http = loop->http.get();
  evhttp_set_timeout(http, kPatienceSeconds);
  evhttp_set_max_headers_size(http, kMostHeaderBytes);
  evhttp_set_max_body_size(http, kMostBodyBytes);
  evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
  evhttp_set_gencb(http, Loop::reply, loop.get());
  return std::unique_ptr<HttpService>(new HttpService(address.value(), std::move(loop)));
}

HttpService::HttpService(const Endpoint& address, std::unique_ptr<Loop> loop)
    : address_(address), loop_(std::move(loop)), thread_([base = loop_->base.get()] {
        // A closed connection must reach libevent as an error, not as a signal that ends the
        // process.
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
        event_base_dispatch(base);
      }) {}

HttpService::~HttpService() {
  loop_->waker->stop();
  thread_.join();
}

void HttpService::publish(std::string text) {
  {
    const std::lock_guard lock(loop_->mutex);
    loop_->published = std::move(text);
  }
  loop_->waker->wake();
}

}  // namespace atp
