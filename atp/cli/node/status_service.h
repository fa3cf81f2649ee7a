#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/cli/node/loop_desk.h"
#include "atp/cli/node/status_dialogue.h"
#include "atp/core/topology/upstream.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/waker.h"

// Answers `atp status` on a TCP socket with the port number of the node's UDP socket. TCP, because
// its sender addresses cannot be forged; and only for this host, or the networks of --status-from,
// because an answer reveals who trains what.
//
// status_dialogue.h defines the dialogue. Asking the node to drain changes what it does. So on this
// host only root and the node's own user may (connection_owner.h), and from other hosts only the
// networks of --drain-from.
//
// A separate thread serves all clients at once, each for a bounded time, so a client that
// connects and sends nothing does not block the others. The node's loop only writes the document on
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
  static Result<std::unique_ptr<StatusService>> start(const Endpoint& at, StatusAllowed allowed,
                                                      Waker& loop);
  ~StatusService();
  StatusService(const StatusService&) = delete;
  StatusService& operator=(const StatusService&) = delete;

  // Called on the loop's thread.
  bool is_asked() const { return desk_.is_asked(); }
  // Whether somebody who is allowed to has asked the node to drain.
  bool is_drain_asked() const { return drain_asked_.load(std::memory_order_relaxed); }
  void answer(StatusDocument status) { desk_.answer(std::move(status)); }

 private:
  StatusService(TcpSocket listener, StatusAllowed allowed, Waker& loop,
                std::unique_ptr<Waker> stop);
  // One client: it sends a line, gets the reply, and closes.
  struct Talk {
    TcpSocket socket;
    std::chrono::steady_clock::time_point end;
    StatusRequest request;
    std::string reply;  // the part not yet sent
    bool answered = false;
    bool over = false;
  };

  void run();
  void take_connection();
  void drop_old_talks();
  void go_on(Talk& talk);
  void listen_to(Talk& talk);
  void send_reply(Talk& talk);
  std::optional<std::string> reply_to(StatusRequest::Kind kind, const TcpSocket& connection);
  bool may_ask(const TcpSocket& connection) const;
  bool may_drain(const TcpSocket& connection) const;

  TcpSocket listener_;
  StatusAllowed allowed_;
  std::atomic<bool> drain_asked_{false};
  LoopDesk desk_;
  std::unique_ptr<Waker> stop_;
  std::vector<Talk> talks_;  // used by the thread; the oldest first
  std::thread thread_;       // last, because it uses the others
};

}  // namespace atp
