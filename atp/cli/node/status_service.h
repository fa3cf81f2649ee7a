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

// Answers `atp status`: a TCP socket with the port of the node's UDP socket. By TCP, since nobody
// can make it answer to an address that is not his; and only to this host, or to the networks that
// --status-from names, since an answer tells who trains what.
//
// What both sides say is in status_dialogue.h.
//
// A thread of its own talks to the network, with all who ask at once and each for a bounded time,
// so that nobody who connects and says nothing stands in another's way. The node's loop only writes
// the document when it is asked to: is_asked(), then answer().

namespace atp {

// Whether one who asks from `peer` is on the host whose `own` address he asks: from that very
// address, or from another that this machine has. No other host can use one of them, nor loopback,
// as what answers it does not leave this machine.
bool is_same_host(const Endpoint& own, const Endpoint& peer);

class StatusService {
 public:
  static Result<std::unique_ptr<StatusService>> start(const Endpoint& at,
                                                      std::vector<Prefix> allowed, Waker& loop);
  ~StatusService();
  StatusService(const StatusService&) = delete;
  StatusService& operator=(const StatusService&) = delete;

  // For the loop's thread.
  bool is_asked() const { return desk_.is_asked(); }
  void answer(std::string document) { desk_.answer(std::move(document)); }

 private:
  StatusService(TcpSocket listener, std::vector<Prefix> allowed, Waker& loop,
                std::unique_ptr<Waker> stop);
  // One who asks. It sends a line, gets the reply, and closes.
  struct Talk {
    TcpSocket socket;
    std::chrono::steady_clock::time_point end;
    StatusRequest request;
    std::string reply;  // what of it is not sent yet
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
  std::vector<Talk> talks_;  // of the thread; the oldest first
  std::thread thread_;       // last, as it uses the others
};

}  // namespace atp
