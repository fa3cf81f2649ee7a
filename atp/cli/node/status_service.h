#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "atp/base/result.h"
#include "atp/core/topology/upstream.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/waker.h"

// Answers `atp status`: a TCP socket with the port of the node's UDP socket. By TCP, since nobody
// can make it answer to an address that is not his; and only to this host, or to the networks that
// --status-from names, since an answer tells who trains what.
//
// The dialogue: a line "atp-status 1" in; the same line, then one JSON document, out; and the end
// of the connection. A request in another version gets the line alone, which says what is spoken.
//
// A thread of its own talks to the network, one connection at a time and each for a bounded time.
// The node's loop only writes the document when it is asked to: is_asked(), then answer().

namespace atp {

inline constexpr std::string_view kStatusGreeting = "atp-status ";
inline constexpr std::string_view kStatusLine = "atp-status 1\n";

// Whether one who asks from `peer` is on the host whose `own` address he asks: from that very
// address, or by loopback on both ends, whose addresses no other host can use.
bool is_same_host(const Endpoint& own, const Endpoint& peer);

class StatusService {
 public:
  static Result<std::unique_ptr<StatusService>> start(const Endpoint& at,
                                                      std::vector<Prefix> allowed, Waker& loop);
  ~StatusService();
  StatusService(const StatusService&) = delete;
  StatusService& operator=(const StatusService&) = delete;

  // For the loop's thread.
  bool is_asked() const { return asked_.load(std::memory_order_relaxed); }
  void answer(std::string document);

 private:
  StatusService(TcpSocket listener, std::vector<Prefix> allowed, Waker& loop,
                std::unique_ptr<Waker> stop);
  void run();
  void talk(const TcpSocket& connection);
  bool may_ask(const TcpSocket& connection) const;
  std::optional<std::string> ask_loop();

  TcpSocket listener_;
  std::vector<Prefix> allowed_;
  Waker& loop_;
  std::unique_ptr<Waker> stop_;
  std::atomic<bool> asked_{false};
  std::mutex mutex_;
  std::condition_variable answered_;
  std::optional<std::string> document_;
  std::thread thread_;  // last, as it uses the others
};

}  // namespace atp
