#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/base/rank_set.h"
#include "atp/base/result.h"

// The memory that the ranks of one host share: where each writes its values for the others, and
// where all count how far they are. It has no name in any file system, so nothing of it is left
// when the last process that has it is gone, however that came about; and no lock, so no process
// can die with one. Everything in it is written by ranks of one job and one user.
//
// Values go through in pieces, each of which takes a slot: a row of every rank. A piece is
// *written* when all ranks have put their values into their rows, *summed* when each has replaced
// its share of its own row by the result, and *taken* when each has taken the whole result out.
// Then the slot is free for the piece after next. These three are counted by all ranks together, so
// the one who comes last knows, and wakes the others.

namespace atp {

// Where the job has other hosts, too, a piece's slot also has a place for the exponents and for the
// words that leave the host, and come back as the sums of all hosts (outgoing_sums.h): the piece is
// *scanned* when each rank has found the exponents of its share, *agreed* when the network has come
// back with those of all hosts, *summed* when each has put the words of its share into their place,
// and *reduced* when the network has come back with these. A rank takes the result from there.

// Pieces that are under way at a time: at the most, and where the job has one host. Of several
// hosts the network is to have some while others are scanned, summed and taken.
inline constexpr std::size_t kMostSlots = 8;
inline constexpr std::size_t kSlotsOfOneHost = 2;

// What all ranks of a segment must see alike.
struct SegmentShape {
  std::size_t ranks = 1;  // of this host
  std::size_t slots = kSlotsOfOneHost;
  std::size_t row_bytes = 0;
  std::size_t piece_values = 0;  // at the most; 0: as a row has room
  std::size_t words = 0;         // of a slot, that leave the host

  // Of a host that has the whole job.
  static SegmentShape of_one_host(std::size_t ranks);
  // Of one of several, of which none has more than `most_ranks`, so that all have equal pieces.
  static SegmentShape of_several_hosts(std::size_t ranks, std::size_t most_ranks);
  std::size_t bytes() const;
};

// Of an operation, as each rank writes it beside its first piece: it must be the same at all.
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
  std::uint8_t element_bytes = 0;
  std::array<char, 14> element{};  // its name, of what is moved as it is
  bool operator==(const HostOperationHeader&) const = default;
};

// A line of the cache for each, as different ranks write them at the same time.
struct alignas(64) SharedCount {
  std::atomic<std::uint64_t> value;
};

struct HostBoard {
  // Of pieces, by all ranks together. With n slots piece p is through when the count of slot p mod
  // n has grown to (p / n + 1) times the number of ranks.
  struct Slot {
    SharedCount written;
    SharedCount scanned;
    SharedCount summed;
    SharedCount taken;
    // By the network, for the last piece of which that is so: its number and one.
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
  // Whether anything has failed: who has found it is being_told_by() until the text is there.
  static constexpr std::uint32_t kNotFailing = 0;
  static constexpr std::uint32_t kFailed = 1;
  static constexpr std::uint32_t being_told_by(std::size_t rank) {
    return static_cast<std::uint32_t>(rank) + 2;
  }
  static constexpr Rank teller_of(std::uint32_t failing) { return static_cast<Rank>(failing - 2); }
  static constexpr std::size_t kLongestText = 1000;

  // A futex: grows whenever a piece is through, and when something else happens.
  alignas(64) std::atomic<std::uint32_t> events;
  // Who may have to be woken. (One who dies in its sleep counts for ever, which costs the others a
  // system call for each event of a job that has failed.)
  alignas(64) std::atomic<std::uint32_t> sleepers;
  std::array<Slot, kMostSlots> slots;
  // Of several hosts: what the leader has agreed on with those of the others.
  std::atomic<Verdict> verdict;
  alignas(64) std::atomic<std::uint32_t> failing;
  // Operations that the teller has ended well, which so end well everywhere.
  std::atomic<std::uint64_t> ended_before_failure;
  std::array<char, kLongestText> failure;
};

class Segment {
 public:
  static Result<Segment> create(const SegmentShape& shape);
  static Result<Segment> create(std::size_t ranks) {
    return create(SegmentShape::of_one_host(ranks));
  }
  // Another rank's, by its descriptor, which it takes.
  static Result<Segment> open(int descriptor, const SegmentShape& shape);
  static Result<Segment> open(int descriptor, std::size_t ranks) {
    return open(descriptor, SegmentShape::of_one_host(ranks));
  }
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;

  // The same memory at the same addresses, for as long as this lives: of another rank that is a
  // thread of this process, so that a thread sanitizer sees what they share.
  Segment alias() const;

  // -1 once it is closed: mapped memory needs none.
  int descriptor() const { return descriptor_; }
  void close_descriptor();
  const SegmentShape& shape() const { return shape_; }
  std::size_t ranks() const { return shape_.ranks; }
  std::size_t slots() const { return shape_.slots; }
  // Whether the job has other hosts, too.
  bool is_of_several_hosts() const { return shape_.words > 0; }
  HostBoard& board() const { return *reinterpret_cast<HostBoard*>(memory_.data()); }
  HostBoard::RankBoard& board_of(std::size_t rank) const;
  // Bytes of a rank's row in a slot.
  std::size_t row_bytes() const { return shape_.row_bytes; }
  std::byte* row(std::size_t slot, std::size_t rank) const;
  // Of a slot, where the job has several hosts: an exponent for each block, and the words.
  std::int32_t* exponents(std::size_t slot) const;
  std::int32_t* words(std::size_t slot) const;

  // Something happened that others may wait for.
  void signal() const;
  // Sleeps until then, or, if nothing happens, for so long; returns at once if it has happened
  // since `events` was read.
  void sleep(std::uint32_t events, std::int64_t nanoseconds) const;

 private:
  Segment(int descriptor, const SegmentShape& shape);
  Status map();

  int descriptor_;
  SegmentShape shape_;
  std::span<std::byte> memory_;
  bool is_alias_ = false;
};

// memcpy() for what is copied between a tensor and a row. glibc's takes `rep movsb` for pieces of
// their length, which on AMD's processors becomes four times as slow where the two addresses differ
// by little modulo 4096: as a tensor, of which malloc() begins a page 16 bytes late, and a row do.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace atp
