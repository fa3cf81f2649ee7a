#pragma once

#include <string>
#include <vector>

#include "atp/driver/tcp/tcp_socket.h"

// The control messages between neighbours.

namespace atp {

struct Message {
  enum class Kind : std::uint32_t {
    kAreYouThere = 1,
    kHere = 2,
    kFailure = 3,   // the ring is broken; with the reason
    kFarewell = 4,  // this rank is done and leaves
    kLate = 5,      // a rank holds up the ring: its number, and what it does
  };
  Kind kind = Kind::kHere;
  std::string text;
};

// One end of a connection for messages. Any error on it counts as closed.
class MessageLine {
 public:
  explicit MessageLine(const TcpSocket& socket) : socket_(socket) {}

  // Never waits: if a message finds no room, the line is closed, because the peer must have been
  // dead for a long time.
  void send(const Message& message);
  // The messages received since the last call.
  std::vector<Message> receive();
  bool closed() const { return closed_; }
  int fd() const { return socket_.fd(); }

 private:
  void read();
  bool cut_message(std::vector<Message>& messages);

  const TcpSocket& socket_;
  std::string unread_;
  bool closed_ = false;
};

}  // namespace atp
