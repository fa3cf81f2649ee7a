#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"

// How late each rank of a job comes with its operations: its first packet of an operation, and its
// last, against the median of all ranks that send here. A server and a switch keep one for each
// job, so that a slow rank has a name while nothing has failed yet.
//
// What an operation is a packet says by its fingerprint. That a rank's last packet was its last is
// known when its next operation begins. Of the exponents of blocks (docs/protocol.md §5) the first
// packets show who calls late, of the values the last ones who sends slowly.
//
// For a packet it costs a few instructions, for an operation a few for each rank, and memory is
// taken once.

namespace atp {

// Durations in powers of two of a microsecond: the last 8,192 count in full, what was before them
// less and less.
class LatenessHistogram {
 public:
  static constexpr std::uint32_t kWindow = 8192;

  void add(Duration late);
  std::uint32_t count() const { return count_; }
  // What this part of all does not exceed, within a power of two; 0 of nothing.
  Duration quantile(double part) const;

  bool operator==(const LatenessHistogram&) const = default;

 private:
  static constexpr std::size_t kBuckets = 25;  // the last one: from 8 s

  std::array<std::uint32_t, kBuckets> counts_{};
  std::uint32_t count_ = 0;
};

struct RankLateness {
  LatenessHistogram first;
  LatenessHistogram last;
  bool operator==(const RankLateness&) const = default;
};

class Lateness {
 public:
  // Jobs have two for each server; a stranger's JOIN may name more, for which no memory is taken.
  static constexpr std::size_t kMostStreams = 4;

  Lateness() = default;  // of no rank
  Lateness(std::size_t world_size, std::size_t streams);
  static constexpr std::size_t bytes_needed(std::size_t world_size, std::size_t streams);

  // A packet of these ranks, at least one, came. False: it is the first that they send of an
  // operation, and begin() is to follow.
  bool goes_on(std::size_t stream, const RankSet& ranks, std::uint64_t sequence,
               std::uint32_t operation, Instant now) {
    if (stream >= stream_count_) return true;
    Progress& progress = progress_[stream * world_size_ + ranks.lowest()];
    if (sequence < progress.next) return true;  // a repeat
    if (operation != progress.operation) [[unlikely]]
      return false;
    progress.next = sequence + 1;
    progress.last = now;
    return true;
  }
  // `expected`: all that send here.
  void begin(std::size_t stream, const RankSet& ranks, std::uint64_t sequence,
             std::uint32_t operation, Instant now, const RankSet& expected);

  std::span<const RankLateness> of_ranks() const { return of_ranks_; }  // by rank
  bool operator==(const Lateness&) const = default;

 private:
  static constexpr std::uint64_t kNone = std::uint64_t{1} << 32;  // no fingerprint
  // How far a rank is in a stream; of ranks that come together the lowest's is kept up to date.
  struct Progress {
    std::uint64_t next = 0;  // sequence
    Instant last{};
    std::uint64_t operation = kNone;
    bool operator==(const Progress&) const = default;
  };
  // An operation that not all ranks have begun, or ended.
  struct Open {
    std::uint32_t operation = 0;
    bool in_use = false;
    bool is_judged = false;  // as to its first packets
    RankSet begun;
    RankSet ended;
    std::vector<Instant> first;  // by rank
    std::vector<Instant> last;
    bool operator==(const Open&) const = default;
  };
  // Ranks are seldom further apart; of what is, nothing is learned.
  static constexpr std::size_t kOpen = 4;
  struct Stream {
    std::array<Open, kOpen> open;
    std::size_t newest = 0;
    bool operator==(const Stream&) const = default;
  };

  static Open* find(Stream& stream, std::uint64_t operation);
  static Open& make(Stream& stream, std::uint32_t operation);
  void judge(const RankSet& ranks, const std::vector<Instant>& times,
             LatenessHistogram RankLateness::* of);

  // Sizes that a packet needs.
  std::size_t world_size_ = 0;
  std::size_t stream_count_ = 0;
  std::vector<RankLateness> of_ranks_;
  std::vector<Progress> progress_;  // by stream and rank
  std::vector<Stream> streams_;
  std::vector<Instant> sorted_;  // room for judge()
};

constexpr std::size_t Lateness::bytes_needed(std::size_t world_size, std::size_t streams) {
  streams = std::min(streams, kMostStreams);
  const std::size_t of_stream = sizeof(Progress) + 2 * kOpen * sizeof(Instant);
  return world_size * (sizeof(RankLateness) + sizeof(Instant) + streams * of_stream) +
         streams * sizeof(Stream);
}

}  // namespace atp
