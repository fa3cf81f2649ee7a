#include "atp/cli/node/status_service.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "atp/cli/command/machine.h"
#include "atp/cli/node/connection_owner.h"
#include "atp/driver/udp/address.h"
#include "atp/wire/host_text.h"

namespace atp {
namespace {

constexpr std::chrono::seconds kConnectionPatience{2};  // per connection
constexpr std::size_t kMostTalks = 64;                  // one more closes the oldest
constexpr int kPauseMs = 100;                           // after a failed accept()

bool is_in(const std::vector<Prefix>& networks, const Endpoint& peer) {
  return std::any_of(networks.begin(), networks.end(),
                     [&](const Prefix& network) { return network.contains(peer); });
}

std::string refusal_to_drain() {
  const nlohmann::json refusal = {
      {"refused",
       fmt::format("on its own host, only root and the user that runs it (uid {}) may drain it; "
                   "other hosts must be in the networks of --drain-from",
                   geteuid())}};
  return refusal.dump() + "\n";
}

// The client of a node that was suspended has long since given up: its request must not count now.
bool has_gone(const TcpSocket& connection) {
  pollfd asker{connection.fd(), POLLRDHUP, 0};
  return poll(&asker, 1, 0) > 0 && (asker.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

bool is_same_host(const Endpoint& own, const Endpoint& peer) {
  if (own.address == peer.address || is_loopback(peer)) return true;
  return !interface_with(host_text(peer)).empty();
}

bool may_drain_here(std::optional<uid_t> of, uid_t node) {
  constexpr uid_t kRoot = 0;
  return of == kRoot || of == node;
}

Result<std::unique_ptr<StatusService>> StatusService::start(const Endpoint& at,
                                                            StatusAllowed allowed, Waker& loop) {
  auto stop = Waker::create();
  if (!stop) return stop.error();
  Result<TcpSocket> listener = TcpSocket::listen(at);
  if (!listener) return listener.error();
  return std::unique_ptr<StatusService>(new StatusService(
      std::move(listener).value(), std::move(allowed), loop, std::move(stop).value()));
}

StatusService::StatusService(TcpSocket listener, StatusAllowed allowed, Waker& loop,
                             std::unique_ptr<Waker> stop)
    : listener_(std::move(listener)),
      allowed_(std::move(allowed)),
      desk_(loop),
      stop_(std::move(stop)),
      thread_([this] { run(); }) {}

StatusService::~StatusService() {
  stop_->stop();
  desk_.close();
  thread_.join();
}

void StatusService::run() {
  std::vector<pollfd> waiting;
  while (!stop_->stopped()) {
    waiting = {{stop_->fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    for (const Talk& talk : talks_) {
      const auto events = static_cast<short>(talk.reply.empty() ? POLLIN : POLLOUT);
      waiting.push_back({talk.socket.fd(), events, 0});
    }
    const int timeout_ms = talks_.empty() ? -1 : kPauseMs;
    if (poll(waiting.data(), waiting.size(), timeout_ms) < 0) continue;
    for (std::size_t i = 0; i < talks_.size(); ++i) {
      if (waiting[i + 2].revents != 0) go_on(talks_[i]);
    }
    drop_old_talks();
    if (waiting[1].revents != 0) take_connection();
  }
}

void StatusService::take_connection() {
  Result<TcpSocket> connection = listener_.accept(std::chrono::steady_clock::now());
  if (!connection) {
    // If descriptors have run out, the connection is still pending: pause instead of spinning.
    pollfd stop{stop_->fd(), POLLIN, 0};
    poll(&stop, 1, kPauseMs);
    return;
  }
  if (!may_ask(connection.value())) return;
  if (talks_.size() == kMostTalks) talks_.erase(talks_.begin());
  talks_.push_back({.socket = std::move(connection).value(),
                    .end = std::chrono::steady_clock::now() + kConnectionPatience});
}

void StatusService::drop_old_talks() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(talks_, [now](const Talk& talk) { return talk.over || now >= talk.end; });
}

void StatusService::go_on(Talk& talk) {
  if (talk.reply.empty()) listen_to(talk);
  if (!talk.reply.empty()) send_reply(talk);
}

void StatusService::listen_to(Talk& talk) {
  char bytes[StatusRequest::kMaxBytes];
  const ssize_t got = recv(talk.socket.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  talk.over = got <= 0;  // after the answer: the client has read all of it
  if (talk.over || talk.answered) return;
  const auto kind = talk.request.take({bytes, static_cast<std::size_t>(got)});
  talk.over = kind == StatusRequest::Kind::kNone;
  if (talk.over || kind == StatusRequest::Kind::kIncomplete) return;
  std::optional<std::string> reply = reply_to(kind, talk.socket);
  talk.over = !reply;
  if (reply) talk.reply = std::move(*reply);
}

// Nothing if the loop does not answer.
std::optional<std::string> StatusService::reply_to(StatusRequest::Kind kind,
                                                   const TcpSocket& connection) {
  using Kind = StatusRequest::Kind;
  const bool drain = kind == Kind::kDrain || kind == Kind::kOtherDrainVersion;
  std::string reply(drain ? kDrainLine : kStatusLine);
  if (kind == Kind::kOtherVersion || kind == Kind::kOtherDrainVersion) return reply;
  if (drain) {
    if (!may_drain(connection)) return reply + refusal_to_drain();
    if (has_gone(connection)) return std::nullopt;
    drain_asked_ = true;  // before ask(), so that the status says so
  }
  const auto status = desk_.ask();
  if (!status) return std::nullopt;
  return reply + status->dump() + "\n";
}

// Once all is sent, shuts down the sending side; the client closes once it has read everything, so
// nothing is lost.
void StatusService::send_reply(Talk& talk) {
  const ssize_t put =
      send(talk.socket.fd(), talk.reply.data(), talk.reply.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (put < 0) {
    talk.over = errno != EAGAIN && errno != EINTR;
    return;
  }
  talk.reply.erase(0, static_cast<std::size_t>(put));
  if (!talk.reply.empty()) return;
  talk.answered = true;
  shutdown(talk.socket.fd(), SHUT_WR);
}

bool StatusService::may_ask(const TcpSocket& connection) const {
  const Result<Endpoint> own = connection.local();
  const Result<Endpoint> peer = connection.peer();
  if (!own || !peer) return false;
  return is_same_host(own.value(), peer.value()) || is_in(allowed_.status, peer.value()) ||
         is_in(allowed_.drain, peer.value());
}

bool StatusService::may_drain(const TcpSocket& connection) const {
  const Result<Endpoint> own = connection.local();
  const Result<Endpoint> peer = connection.peer();
  if (!own || !peer) return false;
  if (is_in(allowed_.drain, peer.value())) return true;
  return is_same_host(own.value(), peer.value()) &&
         may_drain_here(owner_of_connection(own.value(), peer.value()), geteuid());
}

}  // namespace atp
