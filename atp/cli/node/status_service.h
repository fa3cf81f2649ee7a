#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/cli/node/loop_desk.h"
#include "atp/cli/status/status_dialogue.h"
#include "atp/core/topology/upstream.h"
#include "atp/driver/tcp/talk_server.h"
#include "atp/driver/udp/waker.h"

// Answers `atp status` on a TCP socket with the port number of the node's UDP socket. TCP, because
// its sender addresses cannot be forged; and only for this host, or the networks of --status-from,
// because an answer reveals who trains what.
//
// status_dialogue.h defines the dialogue. Asking the node to drain changes what it does. So on this
// host only root and the node's own user may (connection_owner.h), and from other hosts only the
// networks of --drain-from.
//
// A separate thread serves the clients (talk_server.h). The node's loop only collects its status on
// request: is_asked(), then answer().

namespace atp {

// Whether a client at `peer` is on this host, which it reached at `own`: its address is `own`'s,
// another address of this machine, or loopback. No other host can use one of these, because the
// replies never leave this machine.
bool is_same_host(const Endpoint& own, const Endpoint& peer);

// Whether a process of user `of` may make a node that runs as `node` drain. Nothing: the user is
// unknown.
bool may_drain_here(std::optional<uid_t> of, uid_t node);

// The networks whose hosts may ask, besides this host.
struct StatusAllowed {
  std::vector<Prefix> status;
  std::vector<Prefix> drain;  // may ask for the status, too
};

class StatusService {
 public:
  // A client's time.
  static constexpr std::chrono::seconds kPatience{2};

  static Result<std::unique_ptr<StatusService>> start(const Endpoint& at, StatusAllowed allowed,
                                                      Waker& loop);
  ~StatusService();
  StatusService(const StatusService&) = delete;
  StatusService& operator=(const StatusService&) = delete;

  // Called on the loop's thread.
  bool is_asked() { return desk_.is_asked(); }
  // Whether somebody who is allowed to has asked the node to drain.
  bool is_drain_asked() const { return drain_asked_.load(std::memory_order_relaxed); }
  void answer(NodeStatus status) { desk_.answer(std::move(status)); }

 private:
  StatusService(StatusAllowed allowed, Waker& loop) : allowed_(std::move(allowed)), desk_(loop) {}
  TalkServer::Heard hear(const TalkServer::Client& client);
  std::optional<std::string> reply_to(StatusRequest::Kind kind, const TcpSocket& connection);
  bool may_ask(const TcpSocket& connection) const;
  bool may_drain(const TcpSocket& connection);
  void tell_refusal(const std::string& from, const std::string& user);

  const StatusAllowed allowed_;
  std::atomic<bool> drain_asked_{false};
  LoopDesk desk_;
  std::optional<SteadyTime> told_refusal_at_;
  std::uint64_t refused_drains_ = 0;    // since then
  std::unique_ptr<TalkServer> server_;  // last, because its thread uses the others
};

}  // namespace atp
