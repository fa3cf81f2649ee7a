#pragma once

#include <string>
#include <vector>

#include "atp/driver/tcp/tcp_socket.h"

// What neighbours say to each other beside the data.

namespace atp {

struct Message {
  enum class Kind : std::uint32_t {
    kAreYouThere = 1,
    kHere = 2,
    kFailure = 3,   // the ring is broken, and why
    kFarewell = 4,  // this rank has all it wanted and goes
  };
  Kind kind = Kind::kHere;
  std::string text;
};

// One end of a connection for messages. Whatever is wrong with it counts as closed.
class MessageLine {
 public:
  explicit MessageLine(const TcpSocket& socket) : socket_(socket) {}

  // Never waits: a message that finds no room closes the line, as the other side has long been
  // dead.
  void send(const Message& message);
  // What has come in since.
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
