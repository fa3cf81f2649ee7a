#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "atp/driver/tcp/acceptor.h"
#include "atp/driver/tcp/hello.h"
#include "atp/driver/tcp/poller.h"
#include "atp/driver/tcp/tcp_listener.h"

// Where connections to a rank wait, side by side, until they have said their Hello. One that says
// nothing is closed after two seconds. Nothing here waits.

namespace atp {

// Both move a Hello without waiting. read_hello() reads the rest; false: it will never come.
// write_hello() writes into the empty buffer of a new connection: all of it or nothing.
bool read_hello(const TcpSocket& socket, Hello& hello, std::size_t& got);
bool write_hello(const TcpSocket& socket, const Hello& hello);

class GuestRoom {
 public:
  // Judges what a guest has said, and takes the connection or lets it close.
  using Welcome = std::function<void(TcpSocket, const Hello&)>;

  // `whom`: for the news, e.g. "rank 3". The poller's ids of the listener and of the guests are
  // `listener_id` and from `guest_ids` on.
  GuestRoom(const TcpListener& listener, const std::string& whom, Poller& poller,
            std::uint64_t listener_id, std::uint64_t guest_ids);
  ~GuestRoom();
  GuestRoom(const GuestRoom&) = delete;
  GuestRoom& operator=(const GuestRoom&) = delete;

  void handle(std::uint64_t id, SteadyTime now, const Welcome& welcome);
  void check_time(SteadyTime now);
  std::optional<SteadyTime> next_timeout() const;
  std::optional<std::string> take_news() { return acceptor_.take_news(); }

 private:
  struct Guest {
    std::uint64_t id;
    TcpSocket socket;
    SteadyTime until;
    Hello said;
    std::size_t said_bytes = 0;
  };

  void accept(SteadyTime now, const Welcome& welcome);
  void hear(std::size_t index, const Welcome& welcome);
  void leave(const Guest& guest);
  void listen(SteadyTime now);

  Poller& poller_;
  const std::uint64_t listener_id_;
  const std::uint64_t guest_ids_;
  Acceptor acceptor_;
  bool listens_ = false;
  std::vector<Guest> guests_;  // the oldest first
  std::uint64_t next_guest_ = 0;
};

}  // namespace atp
