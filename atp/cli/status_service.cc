#include "atp/cli/status_service.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "atp/cli/timed_stream.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr std::chrono::seconds kPatience{2};  // with one connection
constexpr std::size_t kLongestRequest = 64;

Result<int> listen_at(const Endpoint& at) {
  const int family = at.is_ipv4() ? AF_INET : AF_INET6;
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  SocketAddress address;
  const bool listening = fd >= 0 && to_socket_address(at, family, address) &&
                         setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                         bind(fd, &address.base, address.length) == 0 && listen(fd, 8) == 0;
  if (listening) return fd;
  const Error error{
      fmt::format("cannot listen on TCP {}: {}", to_string(at), std::strerror(errno))};
  if (fd >= 0) close(fd);
  return error;
}

std::optional<Endpoint> end_of(int connection, int (*name)(int, sockaddr*, socklen_t*)) {
  SocketAddress address;
  address.length = sizeof address.ipv6;
  if (name(connection, &address.base, &address.length) != 0) return std::nullopt;
  return to_endpoint(address);
}

}  // namespace

Result<std::unique_ptr<StatusService>> StatusService::start(const Endpoint& at,
                                                            std::vector<Prefix> allowed,
                                                            Waker& loop) {
  auto stop = Waker::create();
  if (!stop) return stop.error();
  const Result<int> listener = listen_at(at);
  if (!listener) return listener.error();
  return std::unique_ptr<StatusService>(
      new StatusService(listener.value(), std::move(allowed), loop, std::move(stop).value()));
}

StatusService::StatusService(int listener, std::vector<Prefix> allowed, Waker& loop,
                             std::unique_ptr<Waker> stop)
    : listener_(listener),
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
  close(listener_);
}

void StatusService::answer(std::string document) {
  const std::lock_guard lock(mutex_);
  asked_ = false;
  document_ = std::move(document);
  answered_.notify_all();
}

void StatusService::run() {
  while (!stop_->stopped()) {
    pollfd waiting[] = {{listener_, POLLIN, 0}, {stop_->fd(), POLLIN, 0}};
    if (poll(waiting, 2, -1) <= 0 || (waiting[0].revents & POLLIN) == 0) continue;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) continue;
    if (may_ask(connection)) talk(connection);
    close(connection);
  }
}

// From this host means: from the very address that was asked.
bool StatusService::may_ask(int connection) const {
  const std::optional<Endpoint> own = end_of(connection, getsockname);
  const std::optional<Endpoint> peer = end_of(connection, getpeername);
  if (!own || !peer) return false;
  return own->address == peer->address ||
         std::any_of(allowed_.begin(), allowed_.end(),
                     [&](const Prefix& prefix) { return prefix.contains(*peer); });
}

void StatusService::talk(int connection) {
  TimedStream stream(connection, kPatience, stop_->fd());
  const std::optional<std::string> request = stream.read_line(kLongestRequest);
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
