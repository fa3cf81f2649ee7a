#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "atp/collective/shm/rendezvous_door.h"
#include "atp/collective/shm/rendezvous_side.h"
#include "atp/collective/waits/wait_notice.h"

namespace atp {

// Rank 0 collects the others and hands out the segment. While it waits it says for whom, and notes
// that to the ranks that wait with it: without its notes they would take rank 0 for the one that
// holds them up.
class RendezvousLeader : private RendezvousSide {
 public:
  explicit RendezvousLeader(const HostRendezvousOptions& options)
      : RendezvousSide(options), timeout_(options.timeout), lines_(options.world_size) {}

  Result<HostRendezvousOutcome> lead();

 private:
  Status gather();
  Status hear_next();
  void take(UnixLine line);
  void heed(std::chrono::milliseconds patience);
  void check_numbers(const RendezvousHello& hello);
  Error incomplete() const;
  Result<HostPlace> make() const;
  Result<std::string> hand_out(const Result<HostPlace>& place);
  void tell_all(const std::string& text);

  void await_all();
  void has_come(std::size_t rank);
  std::string missing() const;
  std::vector<std::size_t> ranks_that(bool are_awaited) const;
  std::vector<const UnixLine*> lines_of(const std::vector<std::size_t>& ranks) const;
  Result<std::size_t> first_ready(const std::vector<const UnixLine*>& waited, Clock::time_point at);

  std::chrono::milliseconds timeout_;  // the shortest of those that it has heard of
  std::optional<RendezvousDoor> door_;
  std::vector<UnixLine> lines_;       // to each of the others that has said who it is
  std::vector<bool> awaited_;         // by rank: has not called yet, or not answered
  std::optional<WaitNotice> notice_;  // of its present wait
  Clock::time_point notes_at_{};
  std::optional<Error> other_numbers_;
};

}  // namespace atp
