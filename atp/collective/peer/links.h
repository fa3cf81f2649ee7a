#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/collective/base/closed_in_child.h"
#include "atp/collective/peer/frame.h"
#include "atp/collective/recorder/flight_recorder.h"
#include "atp/driver/tcp/guest_room.h"
#include "atp/driver/tcp/tcp_listener.h"

// How two ranks get a connection: each calls the other's listener when it first needs it. If both
// calls get through at once, the lower rank's counts; if a firewall admits only one of them, that
// one does. Nothing here waits.

namespace atp {

struct PeerOptions {
  std::size_t rank = 0;
  std::size_t world_size = 1;
  // Identifies the group: other connections are refused. The same on all its ranks.
  std::uint64_t token = 0;
  Wording wording;
  // As in CommunicatorOptions.
  std::shared_ptr<RecordedGroup> recorded;
  // Called with a message about a wait, on the group's thread; null: the message goes to stderr.
  std::function<void(const std::string&)> on_warning;
  // The total time of an operation; a request may have its own.
  std::chrono::milliseconds operation_timeout = std::chrono::seconds(30);
};

// From texts "HOST:PORT".
Result<std::vector<Endpoint>> resolve_addresses(const std::vector<std::string>& texts);

class PeerLinks {
 public:
  // The poller's ids of the listener, of calls and of guests.
  static constexpr std::uint64_t kListener = 1;
  static constexpr std::uint64_t kCalls = std::uint64_t{1} << 32;   // plus the rank
  static constexpr std::uint64_t kGuests = std::uint64_t{2} << 32;  // plus a number

  struct Opened {
    std::size_t rank;
    TcpSocket socket;
  };

  PeerLinks(const PeerOptions& options, std::shared_ptr<const TcpListener> listener,
            std::vector<Endpoint> addresses, Poller& poller);

  // Makes sure that there will be a connection with this rank: calls it unless a call is in
  // progress.
  void want(std::size_t rank, SteadyTime now);
  // This is the connection with this rank.
  void open(std::size_t rank, TcpSocket socket);
  void handle(const Poller::Ready& ready, SteadyTime now);
  void check_time(SteadyTime now);
  std::optional<SteadyTime> next_timeout() const;

  // The connections opened since the last call.
  std::vector<Opened> take_opened() { return std::exchange(opened_, {}); }
  // A rank that refuses calls because nobody listens there any more; it is not called again.
  std::optional<std::size_t> take_gone() { return std::exchange(gone_, std::nullopt); }
  // Why there is no connection with this rank yet.
  std::string why_not(std::size_t rank) const;
  // Between this rank and an address of its own host there is no firewall.
  bool is_on_own_host(std::size_t rank) const {
    return addresses_[rank].address == addresses_[options_.rank].address;
  }

  std::string name(std::size_t rank) const;  // "rank 3 (10.0.0.3:4000)"

 private:
  enum class State : std::uint8_t { kNone, kWaiting, kConnecting, kGreeting, kOpen };
  struct Call {
    State state = State::kNone;
    TcpSocket socket;
    SteadyTime again_at{};  // kWaiting
    std::optional<SteadyTime> refused_since;
    Hello answer;
    std::size_t answer_bytes = 0;
    std::string why;  // the last call has failed
  };
  Hello hello(std::size_t from, std::size_t to) const;
  void call(std::size_t rank, SteadyTime now);
  bool is_refused_for_good(Call& call, std::size_t rank, SteadyTime now) const;
  void give_up_calling(Call& call, std::size_t rank);
  void call_again(std::size_t rank, const std::string& why, SteadyTime now);
  void greet(std::size_t rank, SteadyTime now);
  void hear_answer(std::size_t rank, SteadyTime now);
  void drop_call(Call& call);
  void welcome(TcpSocket socket, const Hello& said);

  const PeerOptions& options_;
  const std::shared_ptr<const TcpListener> listener_;
  const ClosedInChild closed_in_child_;
  const std::vector<Endpoint> addresses_;
  Poller& poller_;
  GuestRoom room_;
  std::vector<Call> calls_;  // by rank
  std::vector<Opened> opened_;
  std::optional<std::size_t> gone_;
};

}  // namespace atp
