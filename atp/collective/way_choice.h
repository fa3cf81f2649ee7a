#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

// Of two ways on which a sum has the same bits, through the network and around a ring, which one an
// operation takes. All ranks must choose alike, so the rule counts in whole nanoseconds, and knows
// nothing but what they have agreed on: how long the ways are expected to take, the sizes of the
// operations so far, and times that they have told each other.

namespace atp {

enum class SumWay : std::uint8_t { kNetwork = 0, kRing = 1 };
inline constexpr std::size_t kSumWays = 2;
constexpr std::size_t index_of(SumWay way) { return static_cast<std::size_t>(way); }
constexpr SumWay other_of(SumWay way) {
  return way == SumWay::kNetwork ? SumWay::kRing : SumWay::kNetwork;
}

// What an all-reduce of so many bytes is expected to take.
struct WayFigures {
  std::uint64_t latency_ns = 0;
  std::uint64_t picoseconds_per_byte = 0;

  std::uint64_t nanoseconds(std::size_t bytes) const;
};
using FiguresOfWays = std::array<WayFigures, kSumWays>;  // by index_of()

// Operations are told apart by size: a class begins at each power of two. What is larger than a
// gigabyte is in the last one.
inline constexpr std::size_t kSizeClasses = 31;
std::size_t size_class_of(std::size_t bytes);

// Times in microseconds, by way and class; kNoTime where there is none.
inline constexpr std::int32_t kNoTime = INT32_MAX;
using WayTimes = std::array<std::array<std::int32_t, kSizeClasses>, kSumWays>;
WayTimes no_times();

// The shortest times that this rank has measured, as if each operation had the least size of its
// class: the shortest, since one that waits for a rank which is late measures that rank. (So the
// least of all ranks is what counts.) What is measured is a period in which operations were in
// flight, all on one way, from the first one's start to the last one's end: it is split among them
// as the figures say, and counts for the size of the largest. Thread-safe.
class WaySamples {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit WaySamples(const FiguresOfWays& figures) : figures_(figures), times_(no_times()) {}

  // An operation has begun; without a way one that is not to be judged by.
  void begin(std::optional<SumWay> way, std::size_t bytes, TimePoint now);
  // One of those that have begun has ended.
  void end(TimePoint now);
  // What was measured since the last call.
  WayTimes take();

 private:
  struct Period {
    TimePoint begin;
    std::optional<SumWay> way;
    bool is_mixed = false;
    std::size_t largest = 0;  // operation, in bytes
    std::uint64_t expected_ns = 0;
  };
  void add(const Period& period, std::chrono::nanoseconds time);

  const FiguresOfWays figures_;
  std::mutex mutex_;
  std::size_t in_flight_ = 0;
  Period period_;
  WayTimes times_;
};

// What a communicator with two ways has done. Of one rank, and equal at all of them.
struct WayCounts {
  std::array<std::uint64_t, kSumWays> operations{};  // by index_of(), which both could take
  std::uint64_t trials = 0;                          // of these, of the other way
  std::uint64_t judgements = 0;                      // of all ranks' times
  std::uint64_t changes = 0;                         // that they led to, of the way of a size
  // From how many bytes on the ring is taken; nothing where it is for no size.
  std::optional<std::size_t> ring_from;
};

// Takes for each operation the way that is expected to be faster. The figures are what it begins
// with; where the ranks have measured operations of a size, their times count instead.
//
// So that a way which has become faster again is noticed, an operation now and then tries the other
// one: as soon as all that would be lost by it is a fiftieth of what has been spent since the last.
class WayChoice {
 public:
  // Whoever is slower by less than a twentieth keeps its operations.
  static constexpr std::uint64_t kKeepsPercent = 105;
  static constexpr std::uint64_t kTrialShare = 50;

  explicit WayChoice(const FiguresOfWays& figures);

  // The way of the next operation.
  SumWay next(std::size_t bytes);
  // The least times of all ranks since the last call.
  void judge(const WayTimes& times);

  // The way that operations of this size take now, trials apart.
  SumWay usual(std::size_t bytes) const { return classes_[size_class_of(bytes)].way; }

  // The least power of two from which on the ring takes all.
  std::optional<std::size_t> ring_from() const;

  std::uint64_t trials() const { return trials_; }
  std::uint64_t changes() const { return changes_; }  // of the way of a size, by judge()

 private:
  struct SizeClass {
    SumWay way = SumWay::kNetwork;
    std::array<std::uint64_t, kSumWays> nanoseconds{};
    std::uint64_t spent = 0;  // since the last trial
  };

  std::array<SizeClass, kSizeClasses> classes_;
  std::uint64_t trials_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace atp
