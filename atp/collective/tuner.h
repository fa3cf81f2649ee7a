#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

// Chooses between two paths on which a sum has the same bits: through the network or around a ring.
// All ranks must make the same choice, so the rule counts in whole nanoseconds and uses only data
// that they have agreed on: the expected times of the paths, the sizes of the operations so far,
// and the times that they have exchanged.

namespace atp {

enum class SumPath : std::uint8_t { kNetwork = 0, kRing = 1 };
inline constexpr std::size_t kSumPaths = 2;
constexpr std::size_t index_of(SumPath path) { return static_cast<std::size_t>(path); }
constexpr SumPath other_of(SumPath path) {
  return path == SumPath::kNetwork ? SumPath::kRing : SumPath::kNetwork;
}

// The expected time of an all-reduce, by its bytes.
struct CostModel {
  std::uint64_t latency_ns = 0;
  std::uint64_t picoseconds_per_byte = 0;

  std::uint64_t nanoseconds(std::size_t bytes) const;
};
using CostModels = std::array<CostModel, kSumPaths>;  // by index_of()

// Operations are classified by size: a class begins at each power of two. The last class has
// everything from a gigabyte on.
inline constexpr std::size_t kSizeClasses = 31;
std::size_t size_class_of(std::size_t bytes);

// Times in microseconds, by path and class; kNoTime if there is none.
inline constexpr std::int32_t kNoTime = INT32_MAX;
using MeasuredTimes = std::array<std::array<std::int32_t, kSizeClasses>, kSumPaths>;
MeasuredTimes no_times();

// The shortest times that this rank has measured, scaled to the smallest size of each class. The
// shortest, because an operation that waits for a late rank measures that rank. (For the same
// reason the minimum over all ranks counts.) A measurement is a period in which operations were in
// flight, all on one path, from the start of the first to the end of the last. It is divided among
// them in proportion to the figures, and counts for the size of the largest. Thread-safe.
class TunerSamples {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit TunerSamples(const CostModels& figures) : figures_(figures), times_(no_times()) {}

  // An operation has begun; without a path: one that does not count.
  void begin(std::optional<SumPath> path, std::size_t bytes, TimePoint now);
  // One of the operations in flight has ended.
  void end(TimePoint now);
  // The measurements since the last call.
  MeasuredTimes take();

 private:
  struct Period {
    TimePoint begin;
    std::optional<SumPath> path;
    bool is_mixed = false;
    std::size_t largest = 0;  // the largest operation, in bytes
    std::uint64_t expected_ns = 0;
  };
  void add(const Period& period, std::chrono::nanoseconds time);

  const CostModels figures_;
  std::mutex mutex_;
  std::size_t in_flight_ = 0;
  Period period_;
  MeasuredTimes times_;
};

// The numbers of operations after which the ranks exchange their times: 4, 8, 16 and so on up to
// `every`, and then every `every` operations (0: never), so that short programs benefit as well.
class ExchangePoints {
 public:
  static constexpr std::uint64_t kFirst = 4;

  explicit ExchangePoints(std::uint64_t every) : every_(every), next_(std::min(kFirst, every)) {}

  bool is_due(std::uint64_t operations) const { return every_ > 0 && operations == next_; }
  void advance() { next_ += std::min(next_, every_); }

 private:
  const std::uint64_t every_;
  std::uint64_t next_;
};

// The choices of a communicator with two paths, equal on all ranks.
struct TunerCounts {
  std::array<std::uint64_t, kSumPaths> operations{};  // by index_of(), that both could take
  std::uint64_t trials = 0;                           // of these, trials of the other path
  std::uint64_t judgements = 0;                       // exchanges of all ranks' times
  std::uint64_t changes = 0;                          // times that these changed the path of a size
  // The number of bytes from which the ring is used; nothing if it is used for no size.
  std::optional<std::size_t> ring_from;
};

// Chooses for each operation the path that is expected to be faster. It starts from the figures;
// once the ranks have measured operations of a size, their times count instead.
//
// Expected times that are close prove little. So the second to fourth operation of each size try
// the other path, if that is expected to take at most twice as long. Later, to notice when the
// other path has become faster, an operation tries it as soon as the expected loss is at most a
// fiftieth of the time spent since the last trial.
class Tuner {
 public:
  // A path that is slower by less than a twentieth keeps its operations.
  static constexpr std::uint64_t kKeepsPercent = 105;
  static constexpr std::uint64_t kTrialShare = 50;
  // Three, because the first operations on a path also open its windows (over four servers the
  // first two of 16 MiB took a quarter longer than later ones), and the first exchange follows.
  static constexpr std::uint64_t kEarlyTrials = 3;
  static constexpr std::uint64_t kEarlyTrialCost = 2;  // in times of the usual path

  explicit Tuner(const CostModels& figures);

  // The path of the next operation.
  SumPath next(std::size_t bytes);
  // Takes into account the minimum times of all ranks since the last call.
  void judge(const MeasuredTimes& times);

  // The path that operations of this size take now, apart from trials.
  SumPath usual(std::size_t bytes) const { return classes_[size_class_of(bytes)].path; }

  // The smallest power of two from which the ring takes every size.
  std::optional<std::size_t> ring_from() const;

  std::uint64_t trials() const { return trials_; }
  std::uint64_t changes() const {
    return changes_;
  }  // how many times judge() changed the path of a size

 private:
  struct SizeClass {
    SumPath path = SumPath::kNetwork;
    std::array<std::uint64_t, kSumPaths> nanoseconds{};
    std::uint64_t operations = 0;  // counted until the early trials are over
    std::uint64_t spent = 0;       // since the last trial
  };
  static bool is_early_trial(SizeClass& each, std::uint64_t usual, std::uint64_t other);

  std::array<SizeClass, kSizeClasses> classes_;
  std::uint64_t trials_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace atp
