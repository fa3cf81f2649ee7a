#pragma once

#include <chrono>
#include <memory>
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
// status_dialogue.h defines the dialogue.
//
// A separate thread serves all clients at once, each for a bounded time, so a client that
// connects and sends nothing does not block the others. The node's loop only writes the document on
// request: is_asked(), then answer().

namespace atp {

// Whether a client at `peer` is on this host, which it reached at `own`: its address is `own`'s,
// another address of this machine, or loopback. No other host can use one of these, because the
// replies never leave this machine.
bool is_same_host(const Endpoint& own, const Endpoint& peer);

class StatusService {
 public:
  static Result<std::unique_ptr<StatusService>> start(const Endpoint& at,
                                                      std::vector<Prefix> allowed, Waker& loop);
  ~StatusService();
  StatusService(const StatusService&) = delete;
  StatusService& operator=(const StatusService&) = delete;

  // Called on the loop's thread.
  bool is_asked() const { return desk_.is_asked(); }
  void answer(std::string document) { desk_.answer(std::move(document)); }

 private:
  StatusService(TcpSocket listener, std::vector<Prefix> allowed, Waker& loop,
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
  bool may_ask(const TcpSocket& connection) const;

  TcpSocket listener_;
  std::vector<Prefix> allowed_;
  LoopDesk desk_;
  std::unique_ptr<Waker> stop_;
  std::vector<Talk> talks_;  // used by the thread; the oldest first
  std::thread thread_;       // last, because it uses the others
};

}  // namespace atp
