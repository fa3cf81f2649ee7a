#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"

// Measures how late each rank of a job is with its operations: its first packet of an operation,
// and its last, compared with the median over all ranks that send here. A server and a switch keep
// one per job, so that a slow rank can be named before anything fails.
//
// A packet's fingerprint identifies its operation. A rank's last packet is recognised when its next
// operation begins. With block exponents (docs/inside/protocol §5), late first packets show a rank
// that calls late; with values, late last packets show one that sends slowly.
//
// The cost is a few instructions per packet and a few per rank and operation; memory is allocated
// once.

namespace atp {

// A histogram of durations with buckets at powers of two of a microsecond. The last 8,192 count in
// full; older ones fade.
class LatenessHistogram {
 public:
  static constexpr std::uint32_t kWindow = 8192;

  void add(Duration late);
  std::uint32_t count() const { return count_; }
  // This quantile (0 … 1) of the durations, within a power of two; 0 if there are none.
  Duration quantile(double part) const;

  bool operator==(const LatenessHistogram&) const = default;

 private:
  static constexpr std::size_t kBuckets = 25;  // the last one starts at 8 s

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
  // A job has two per server. A stranger's JOIN may name more; no memory is allocated for those.
  static constexpr std::size_t kMostStreams = 4;

  Lateness() = default;  // without ranks
  Lateness(std::size_t world_size, std::size_t streams);
  static constexpr std::size_t bytes_needed(std::size_t world_size, std::size_t streams);

  // Notes a packet of these ranks, at least one. False: it is their first packet of an operation,
  // so the caller must call begin().
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
  // `expected`: all ranks that send here.
  void begin(std::size_t stream, const RankSet& ranks, std::uint64_t sequence,
             std::uint32_t operation, Instant now, const RankSet& expected);

  std::span<const RankLateness> of_ranks() const { return of_ranks_; }  // by rank
  bool operator==(const Lateness&) const = default;

 private:
  static constexpr std::uint64_t kNone = std::uint64_t{1} << 32;  // no fingerprint
  // How far a rank has got in a stream. For ranks that arrive in one packet, only the lowest one's
  // entry is kept up to date.
  struct Progress {
    std::uint64_t next = 0;  // the next sequence
    Instant last{};
    std::uint64_t operation = kNone;
    bool operator==(const Progress&) const = default;
  };
  // An operation that not all ranks have begun or ended.
  struct Open {
    std::uint32_t operation = 0;
    bool in_use = false;
    bool is_judged = false;  // its first packets
    RankSet begun;
    RankSet ended;
    std::vector<Instant> first;  // by rank
    std::vector<Instant> last;
    bool operator==(const Open&) const = default;
  };
  // Ranks are rarely more operations apart than this; such operations are not measured.
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

  // First, the sizes that every packet reads.
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
