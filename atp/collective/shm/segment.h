#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/collective/shm/network_wait.h"

// The memory that the ranks of one host share. Each rank writes its values there for the others,
// and all count their progress. It has no name in any file system, so nothing of it is left when
// the last process that has it ends, however that happens. It has no lock, so no process can die
// while it holds one. Only ranks of one job and one user write to it.
//
// Values pass through in pieces, each in a slot with a row per rank. A piece is *written* when all
// ranks have put their values into their rows, *summed* when each has replaced its share of its own
// row with the result, and *taken* when each has copied the whole result. Then the slot is free for
// a later piece. All ranks together count these three, so the last rank notices and wakes the
// others.

namespace atp {

// If the job has several hosts, a slot also has room for the exponents and the words that leave the
// host and return as the sums over all hosts (outgoing_sums.h). The piece is *scanned* when each
// rank has found the exponents of its share, *agreed* when the network has returned those of all
// hosts, *summed* when each has written the words of its share, and *reduced* when the network has
// returned their sums. A rank takes the result from there.

// How many pieces may be in progress at a time: the maximum, and with one host. With several hosts
// the network should have some while others are scanned, summed and taken.
inline constexpr std::size_t kMostSlots = 8;
inline constexpr std::size_t kSlotsOfOneHost = 2;

// The dimensions of a segment, on which all its ranks must agree.
struct SegmentShape {
  std::size_t ranks = 1;  // of this host
  std::size_t slots = kSlotsOfOneHost;
  std::size_t row_bytes = 0;
  std::size_t piece_values = 0;  // maximum; 0: as many as fit a row
  std::size_t words = 0;         // per slot, that leave the host

  // For a host with the whole job.
  static SegmentShape of_one_host(std::size_t ranks);
  // For one of several hosts, none of which has more than `most_ranks`, so that all have equal
  // pieces.
  static SegmentShape of_several_hosts(std::size_t ranks, std::size_t most_ranks);
  std::size_t bytes() const;
};

// Describes an operation. Each rank writes it with the operation's first piece, and all must agree.
struct HostOperationHeader {
  std::uint64_t number = 0;  // among the segment's
  std::uint64_t values = 0;
  std::uint8_t type = 0;
  std::uint8_t reduction = 0;
  std::uint8_t format = 0;
  std::uint8_t small = 0;
  std::uint32_t layout = 0;  // the layout's fingerprint
  std::uint32_t tag = 0;
  std::uint32_t root = 0;
  std::uint8_t collective = 0;
  std::uint8_t element = 0;       // its kind, unless it is a sum by the rule of numbers
  std::uint8_t element_type = 0;  // the caller's number, if the operation only moves data
  bool operator==(const HostOperationHeader&) const = default;
};

// One cache line per count, because different ranks write them at the same time.
struct alignas(64) SharedCount {
  std::atomic<std::uint64_t> value;
};

struct HostBoard {
  // Counts by all ranks together. With n slots, all ranks are through a phase of piece p when its
  // count in slot p mod n has reached (p / n + 1) times the number of ranks.
  struct Slot {
    SharedCount written;
    SharedCount scanned;
    SharedCount summed;
    SharedCount taken;
    // Set by the network: one more than the number of the last piece that has reached this phase.
    SharedCount agreed;
    SharedCount reduced;
  };
  enum class State : std::uint32_t { kThere, kLeft };
  enum class Verdict : std::uint32_t { kNone, kSend, kWithoutMemory };
  struct alignas(64) RankBoard {
    std::atomic<std::uint64_t> called;  // operations
    std::atomic<std::uint64_t> written;
    std::atomic<std::uint64_t> scanned;
    std::atomic<std::uint64_t> summed;
    std::atomic<std::uint64_t> taken;
    std::atomic<State> state;
    std::atomic<std::uint32_t> process;
    alignas(64) std::array<HostOperationHeader, kMostSlots> headers;
  };
  // Whether there is a failure. Until its text is written: being_told_by() the rank that found it.
  static constexpr std::uint32_t kNotFailing = 0;
  static constexpr std::uint32_t kFailed = 1;
  static constexpr std::uint32_t being_told_by(std::size_t rank) {
    return static_cast<std::uint32_t>(rank) + 2;
  }
  static constexpr Rank teller_of(std::uint32_t failing) { return static_cast<Rank>(failing - 2); }
  static constexpr std::size_t kLongestText = 1000;

  // A futex: incremented when a phase of a piece is complete, and on other events.
  alignas(64) std::atomic<std::uint32_t> events;
  // How many ranks may need waking. (A rank that dies in its sleep counts forever, which only costs
  // the others a system call per event of a failed job.)
  alignas(64) std::atomic<std::uint32_t> sleepers;
  std::array<Slot, kMostSlots> slots;
  // With several hosts: what the leaders have agreed on, and what the leader here waits for.
  std::atomic<Verdict> verdict;
  SharedNetworkWait network_wait;
  alignas(64) std::atomic<std::uint32_t> failing;
  // How many operations the reporting rank had completed; they complete on every rank.
  std::atomic<std::uint64_t> ended_before_failure;
  std::array<char, kLongestText> failure;
};

class Segment {
 public:
  static Result<Segment> create(const SegmentShape& shape);
  static Result<Segment> create(std::size_t ranks) {
    return create(SegmentShape::of_one_host(ranks));
  }
  // Opens another rank's segment; takes ownership of the descriptor.
  static Result<Segment> open(int descriptor, const SegmentShape& shape);
  static Result<Segment> open(int descriptor, std::size_t ranks) {
    return open(descriptor, SegmentShape::of_one_host(ranks));
  }
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;

  // The same memory at the same addresses, valid while this lives: for another rank that is a
  // thread of this process, so that the thread sanitizer sees what they share.
  Segment alias() const;

  // -1 once it is closed: mapped memory needs no descriptor.
  int descriptor() const { return descriptor_; }
  void close_descriptor();
  const SegmentShape& shape() const { return shape_; }
  std::size_t ranks() const { return shape_.ranks; }
  std::size_t slots() const { return shape_.slots; }
  // Whether the job has several hosts.
  bool is_of_several_hosts() const { return shape_.words > 0; }
  HostBoard& board() const { return *reinterpret_cast<HostBoard*>(memory_.data()); }
  HostBoard::RankBoard& board_of(std::size_t rank) const;
  // Bytes of a rank's row in a slot.
  std::size_t row_bytes() const { return shape_.row_bytes; }
  std::byte* row(std::size_t slot, std::size_t rank) const;
  // With several hosts: the slot's exponents, one per block, and its words.
  std::int32_t* exponents(std::size_t slot) const;
  std::int32_t* words(std::size_t slot) const;

  // Wakes ranks that may wait for what has just happened.
  void signal() const;
  // Sleeps until the next signal(), at most this long; returns at once if there was one since
  // `events` was read.
  void sleep(std::uint32_t events, std::int64_t nanoseconds) const;

 private:
  Segment(int descriptor, const SegmentShape& shape);
  Status map();

  int descriptor_;
  SegmentShape shape_;
  std::span<std::byte> memory_;
  bool is_alias_ = false;
};

// memcpy() between a tensor and a row. For pieces of this length glibc uses `rep movsb`, which on
// AMD processors is four times slower if the two addresses differ by little modulo 4096. Those of a
// row and of a tensor from malloc() do, since such a tensor begins 16 bytes into a page.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace atp
