#include "atp/cli/node/status_service.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "atp/cli/command/log.h"
#include "atp/cli/command/machine.h"
#include "atp/cli/node/connection_owner.h"
#include "atp/cli/status/status_json.h"
#include "atp/driver/udp/address.h"
#include "atp/wire/host_text.h"

namespace atp {
namespace {

constexpr std::chrono::seconds kBetweenRefusals{60};  // lines of the log

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
  std::unique_ptr<StatusService> service(new StatusService(std::move(allowed), loop));
  StatusService* own = service.get();
  auto server = TalkServer::start(
      at, {.hear = [own](const auto& client) { return own->hear(client); },
           .admits = [own](const auto& connection) { return own->may_ask(connection); },
           .tell = [](const std::string& line) { log_warning("{}", line); },
           .most_bytes = StatusRequest::kMaxBytes,
           .patience = kPatience});
  if (!server) return server.error();
  service->server_ = std::move(server).value();
  return service;
}

// The desk first, because the thread may wait there.
StatusService::~StatusService() { desk_.close(); }

TalkServer::Heard StatusService::hear(const TalkServer::Client& client) {
  const auto kind = StatusRequest().take(client.bytes);
  if (kind == StatusRequest::Kind::kIncomplete) return {};
  if (kind == StatusRequest::Kind::kNone) return {.is_over = true, .answer = {}};
  std::optional<std::string> reply = reply_to(kind, client.socket);
  if (!reply) return {.is_over = true, .answer = {}};
  return {.answer = TalkServer::Answer{.bytes = std::move(*reply)}};
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
  auto status = desk_.ask();
  if (!status) return std::nullopt;
  return reply + to_json(*std::move(status));
}

bool StatusService::may_ask(const TcpSocket& connection) const {
  const Result<Endpoint> own = connection.local();
  const Result<Endpoint> peer = connection.peer();
  if (!own || !peer) return false;
  return is_same_host(own.value(), peer.value()) || is_in(allowed_.status, peer.value()) ||
         is_in(allowed_.drain, peer.value());
}

bool StatusService::may_drain(const TcpSocket& connection) {
  const Result<Endpoint> own = connection.local();
  const Result<Endpoint> peer = connection.peer();
  if (!own || !peer) return false;
  if (is_in(allowed_.drain, peer.value())) return true;
  std::optional<uid_t> user;
  const bool is_here = is_same_host(own.value(), peer.value());
  if (is_here) user = owner_of_connection(own.value(), peer.value());
  if (is_here && may_drain_here(user, geteuid())) return true;
  tell_refusal(to_string(peer.value()),
               user ? fmt::format("user {}", *user) : std::string("a user that is not known"));
  return false;
}

// A line per minute at most: anybody who may ask can ask again.
void StatusService::tell_refusal(const std::string& from, const std::string& user) {
  ++refused_drains_;
  const SteadyTime now = std::chrono::steady_clock::now();
  if (told_refusal_at_ && now - *told_refusal_at_ < kBetweenRefusals) return;
  told_refusal_at_ = now;
  const auto times = std::exchange(refused_drains_, 0);
  log_warning("refused {} at {}, who asked this node to drain{}: see --drain-from", user, from,
              times == 1 ? "" : fmt::format(" ({} times since the last such line)", times));
}

}  // namespace atp
