#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/driver/tcp/tcp_socket.h"

// Accepts connections, for every listener of a switch, a server, the view or a rank. Whoever can
// reach a port can open any number of connections, so:
//
// * Connections that nobody has checked yet are *guests*. A listener has at most most_guests(), a
//   share of the process's descriptors; one more takes the place of the oldest. So idle guests
//   neither use up the descriptors nor keep others out.
// * Those that have asked to stay (the streams of `atp view`) are bounded in the same way, by
//   most_streams(): however diligently strangers read theirs, a new one gets in.
// * When the system cannot accept (no descriptor or memory is left), the listener rests for a
//   moment. It stays readable meanwhile, so its owner must not poll it: listens(), rests_until().
// * take_news() says so, once a minute at most.

namespace atp {

class Acceptor {
 public:
  static constexpr std::chrono::milliseconds kRest{100};
  static constexpr std::chrono::seconds kBetweenNews{60};
  // How many connections to accept before the guests that are there are heard again.
  static constexpr int kAtOnce = 16;

  // Accepts without waiting: a descriptor, or -1 with errno. Another one is for tests.
  using Accept = std::function<int(int listener)>;

  // `what`: of which the news are, e.g. "the connections of 10.0.0.1:5501".
  Acceptor(int listener, std::string what, Accept accept = accept_without_waiting);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // The next pending connection, or -1: none is pending, or the listener rests.
  int take(SteadyTime now);

  int listener() const { return listener_; }
  bool listens(SteadyTime now) const { return now >= rests_until_; }
  // When it listens again; in the past if it does.
  SteadyTime rests_until() const { return rests_until_; }
  // For an owner that cannot use what it has accepted, for want of something else.
  void rest(SteadyTime now, int error);

  // Makes room for one more guest; `leave` is called with each that goes.
  template <class Guest, class Leave>
  void make_room(std::vector<Guest>& guests, SteadyTime now, Leave&& leave) {
    make_room(guests, most_guests(), crowd_, now, leave);
  }
  // The same for one more that stays.
  template <class Stream>
  void make_room_for_stream(std::vector<Stream>& streams, SteadyTime now) {
    make_room(streams, most_streams(), streams_, now, [](const Stream&) {});
  }
  std::size_t most_guests() const;
  std::size_t most_streams() const { return most_guests() / 2; }

  // A line for the log: what was in the way, how often, and what to do.
  std::optional<std::string> take_news() { return std::exchange(news_, std::nullopt); }

  static int accept_without_waiting(int listener);

 private:
  struct Trouble {
    std::uint64_t times = 0;  // since it was last told
    std::optional<SteadyTime> told_at;
  };
  template <class Each, class Leave>
  void make_room(std::vector<Each>& all, std::size_t most, Trouble& crowd, SteadyTime now,
                 Leave&& leave) {
    while (!all.empty() && all.size() >= most) {
      leave(all.front());
      all.erase(all.begin());
      note(crowd, most, now);
    }
  }
  void note(Trouble& crowd, std::size_t most, SteadyTime now);
  bool is_time_to_tell(Trouble& trouble, SteadyTime now);

  const int listener_;
  const std::string what_;
  const Accept accept_;
  SteadyTime rests_until_{};
  Trouble refused_;
  Trouble crowd_;
  Trouble streams_;
  std::optional<std::string> news_;
};

}  // namespace atp
