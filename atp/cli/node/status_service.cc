#include "atp/cli/node/status_service.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "atp/cli/node/timed_stream.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr std::chrono::seconds kPatience{2};  // with one connection
constexpr std::size_t kMaxRequestBytes = 64;
constexpr int kPauseMs = 100;  // after a connection that could not be taken

}  // namespace

bool is_same_host(const Endpoint& own, const Endpoint& peer) {
  return own.address == peer.address || (is_loopback(own) && is_loopback(peer));
}

Result<std::unique_ptr<StatusService>> StatusService::start(const Endpoint& at,
                                                            std::vector<Prefix> allowed,
                                                            Waker& loop) {
  auto stop = Waker::create();
  if (!stop) return stop.error();
  Result<TcpSocket> listener = TcpSocket::listen(at);
  if (!listener) return listener.error();
  return std::unique_ptr<StatusService>(new StatusService(
      std::move(listener).value(), std::move(allowed), loop, std::move(stop).value()));
}

StatusService::StatusService(TcpSocket listener, std::vector<Prefix> allowed, Waker& loop,
                             std::unique_ptr<Waker> stop)
    : listener_(std::move(listener)),
      allowed_(std::move(allowed)),
      loop_(loop),
      stop_(std::move(stop)),
      thread_([this] { run(); }) {}

StatusService::~StatusService() {
  {
    const std::lock_guard lock(mutex_);  // not between the thread's question and its wait
    stop_->stop();
  }
  answered_.notify_all();
  thread_.join();
}

void StatusService::answer(std::string document) {
  const std::lock_guard lock(mutex_);
  asked_ = false;
  document_ = std::move(document);
  answered_.notify_all();
}

void StatusService::run() {
  while (!stop_->stopped()) {
    pollfd waiting[] = {{listener_.fd(), POLLIN, 0}, {stop_->fd(), POLLIN, 0}};
    if (poll(waiting, 2, -1) <= 0 || (waiting[0].revents & POLLIN) == 0) continue;
    const Result<TcpSocket> connection = listener_.accept(std::chrono::steady_clock::now());
    if (!connection) {
      // Out of descriptors, say, and the connection still waits: not to be asked for without end.
      poll(&waiting[1], 1, kPauseMs);
    } else if (may_ask(connection.value())) {
      talk(connection.value());
    }
  }
}

bool StatusService::may_ask(const TcpSocket& connection) const {
  const Result<Endpoint> own = connection.local();
  const Result<Endpoint> peer = connection.peer();
  if (!own || !peer) return false;
  return is_same_host(own.value(), peer.value()) ||
         std::any_of(allowed_.begin(), allowed_.end(),
                     [&](const Prefix& prefix) { return prefix.contains(peer.value()); });
}

void StatusService::talk(const TcpSocket& connection) {
  TimedStream stream(connection.fd(), kPatience, stop_->fd());
  const std::optional<std::string> request = stream.read_line(kMaxRequestBytes);
  if (!request || !request->starts_with(kStatusGreeting)) return;
  std::string reply(kStatusLine);
  if (*request == kStatusLine) {
    const std::optional<std::string> document = ask_loop();
    if (!document) return;
    reply += *document + "\n";
  }
  stream.write(reply);
  stream.finish();
}

std::optional<std::string> StatusService::ask_loop() {
  std::unique_lock lock(mutex_);
  document_.reset();
  asked_ = true;
  loop_.wake();
  answered_.wait_for(lock, kPatience, [this] { return document_ || stop_->stopped(); });
  return std::move(document_);
}

}  // namespace atp
