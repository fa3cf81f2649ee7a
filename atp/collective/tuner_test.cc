#include "atp/collective/tuner.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace atp {
namespace {

using std::chrono::microseconds;

constexpr SumPath kNetwork = SumPath::kNetwork;
constexpr SumPath kRing = SumPath::kRing;
constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

// A network with low latency whose switch is a host like the four ranks', and a ring.
constexpr CostModels kSlowSwitch{CostModel{100'000, 50'000}, CostModel{600'000, 15'000}};
// A switch with links of its own.
constexpr CostModels kFastSwitch{CostModel{100'000, 10'000}, CostModel{600'000, 15'000}};

struct Case {
  const char* name;
  CostModels figures;
  std::size_t bytes;
  SumPath path;
};
const std::vector<Case> kCases = {
    {"below the crossover latency decides", kSlowSwitch, 8 * kKiB, kNetwork},
    {"above the crossover bandwidth decides", kSlowSwitch, 32 * kKiB, kRing},
    {"and still does for huge sums", kSlowSwitch, std::size_t{1} << 40, kRing},
    {"a switch with links of its own takes small sums", kFastSwitch, 1, kNetwork},
    {"and large ones", kFastSwitch, 256 * kMiB, kNetwork},
    {"no values", kFastSwitch, 0, kNetwork},
    {"if both are equal, the network is taken", {CostModel{5, 7}, CostModel{5, 7}}, kMiB, kNetwork},
    {"a ring with lower latency takes small sums", {CostModel{9, 1}, CostModel{5, 9}}, 8, kRing},
    {"huge figures do not overflow",
     {CostModel{UINT64_MAX / 2, UINT64_MAX}, CostModel{1, 1}},
     std::size_t{1} << 40,
     kRing},
};

TEST(Tuner, TakesThePathThatIsExpectedToBeFaster) {
  for (const Case& each : kCases) {
    Tuner choice(each.figures);
    EXPECT_EQ(choice.usual(each.bytes), each.path) << each.name;
  }
}

TEST(Tuner, SizesAreClassifiedByPowersOfTwo) {
  EXPECT_EQ(size_class_of(0), 0U);
  EXPECT_EQ(size_class_of(1), 0U);
  EXPECT_EQ(size_class_of(1023), 9U);
  EXPECT_EQ(size_class_of(1024), 10U);
  EXPECT_EQ(size_class_of(SIZE_MAX), kSizeClasses - 1);
}

MeasuredTimes times(std::size_t bytes, std::int32_t network_us, std::int32_t ring_us) {
  MeasuredTimes times = no_times();
  times[index_of(kNetwork)][size_class_of(bytes)] = network_us;
  times[index_of(kRing)][size_class_of(bytes)] = ring_us;
  return times;
}

struct Judgement {
  const char* name;
  MeasuredTimes times;
  SumPath of_a_mebibyte;  // until then the ring
};
const std::vector<Judgement> kJudgements = {
    {"nothing was measured", no_times(), kRing},
    {"the network is faster than was expected", times(kMiB, 12'000, 16'000), kNetwork},
    {"the ring is slower than was expected", times(kMiB, kNoTime, 60'000), kNetwork},
    {"the ring is slower, but so is the network", times(kMiB, 90'000, 60'000), kRing},
    {"a path keeps sizes at which it is hardly slower", times(kMiB, 10'000, 10'500), kRing},
    {"but not a microsecond more", times(kMiB, 10'000, 10'501), kNetwork},
    {"other sizes do not count", times(2 * kMiB, 12'000, 16'000), kRing},
    {"a time of 0 is a short one", times(kMiB, 0, 16'000), kNetwork},
};

TEST(Tuner, MeasuredTimesCountInsteadOfExpectedOnes) {
  for (const Judgement& each : kJudgements) {
    Tuner choice(kSlowSwitch);
    ASSERT_EQ(choice.usual(kMiB), kRing);
    choice.judge(each.times);
    EXPECT_EQ(choice.usual(kMiB), each.of_a_mebibyte) << each.name;
  }
}

TEST(Tuner, AnAbandonedPathReturnsWhenItIsFasterAgain) {
  Tuner choice(kSlowSwitch);
  choice.judge(times(kMiB, kNoTime, 90'000));
  EXPECT_EQ(choice.usual(kMiB), kNetwork);
  choice.judge(times(kMiB, kNoTime, 16'000));
  EXPECT_EQ(choice.usual(kMiB), kRing);
  EXPECT_EQ(choice.changes(), 2U);
}

TEST(Tuner, TrialsOfTheOtherPathCostAtMostAFiftieth) {
  for (const CostModels& figures : {kSlowSwitch, kFastSwitch}) {
    Tuner choice(figures);
    const SumPath usual = choice.usual(kMiB);
    std::uint64_t spent = 0, best = 0;
    for (int i = 0; i < 1000; ++i) {
      spent += figures[index_of(choice.next(kMiB))].nanoseconds(kMiB);
      best += figures[index_of(usual)].nanoseconds(kMiB);
    }
    EXPECT_GT(choice.trials(), 3U);
    const std::uint64_t early = Tuner::kEarlyTrials * Tuner::kEarlyTrialCost;
    EXPECT_LE(spent, best + best / Tuner::kTrialShare + early * best / 1000);
  }
}

struct EarlyCase {
  const char* name;
  CostModels figures;
  std::vector<std::size_t> bytes;
  std::vector<SumPath> paths;
};
const std::vector<EarlyCase> kEarlyCases = {
    {"the second to the fourth operation, if the other path may be as fast",
     kFastSwitch,
     {kMiB, kMiB, kMiB, kMiB, kMiB, kMiB},
     {kNetwork, kRing, kRing, kRing, kNetwork, kNetwork}},
    {"none, if the other path is expected to take more than twice as long",
     kSlowSwitch,
     {kMiB, kMiB, kMiB, kMiB},
     {kRing, kRing, kRing, kRing}},
    {"each size by itself",
     kFastSwitch,
     {kMiB, 2 * kMiB, kMiB, 2 * kMiB, 2 * kMiB, 2 * kMiB, 2 * kMiB, kMiB, kMiB, kMiB},
     {kNetwork, kNetwork, kRing, kRing, kRing, kRing, kNetwork, kRing, kRing, kNetwork}},
};

TEST(Tuner, EarlyOperationsTryTheOtherPath) {
  for (const EarlyCase& each : kEarlyCases) {
    Tuner choice(each.figures);
    std::vector<SumPath> paths;
    for (const std::size_t bytes : each.bytes) paths.push_back(choice.next(bytes));
    EXPECT_EQ(paths, each.paths) << each.name;
  }
}

struct ExchangeCase {
  std::uint64_t every;
  std::vector<std::uint64_t> points;
};
const std::vector<ExchangeCase> kExchangeCases = {
    {0, {}},
    {1, {1, 2, 3, 4, 5}},
    {3, {3, 6, 9, 12, 15}},
    {5, {4, 8, 13, 18, 23}},
    {256, {4, 8, 16, 32, 64, 128, 256, 512, 768, 1024}},
};

TEST(ExchangePoints, ComeAtDoubledIntervalsAndThenRegularly) {
  for (const ExchangeCase& each : kExchangeCases) {
    ExchangePoints exchanges(each.every);
    std::vector<std::uint64_t> points;
    const std::uint64_t last = each.points.empty() ? 1000 : each.points.back();
    for (std::uint64_t operations = 0; operations <= last; ++operations) {
      if (!exchanges.is_due(operations)) continue;
      exchanges.advance();
      points.push_back(operations);
    }
    EXPECT_EQ(points, each.points) << each.every;
  }
}

TEST(Tuner, TheSameSizesAndTimesLeadToTheSamePaths) {
  Tuner one(kSlowSwitch), other(kSlowSwitch);
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::size_t bytes = (i * 2654435761U) % (4 * kMiB);
    ASSERT_EQ(one.next(bytes), other.next(bytes)) << i;
    if (i % 100 != 0) continue;
    const auto us = static_cast<std::int32_t>(i * 7 % 5000);
    one.judge(times(bytes, us, 2500));
    other.judge(times(bytes, us, 2500));
  }
  EXPECT_GT(one.changes(), 0U);
}

constexpr CostModels kPlain{CostModel{0, 1000}, CostModel{1'000'000, 0}};

struct Measured {
  SumPath path;
  std::size_t bytes;
  int begin_us;
  int end_us;
};
struct SampleCase {
  const char* name;
  std::vector<Measured> operations;  // by begin_us
  std::int32_t network_us;           // for a mebibyte
  std::int32_t ring_us;
};
const std::vector<SampleCase> kSampleCases = {
    {"nothing", {}, kNoTime, kNoTime},
    {"the shortest counts",
     {{kNetwork, kMiB, 0, 900}, {kNetwork, kMiB, 1000, 1700}, {kNetwork, kMiB, 2000, 2800}},
     700,
     kNoTime},
    {"each path by itself", {{kNetwork, kMiB, 0, 900}, {kRing, kMiB, 900, 1000}}, 900, 100},
    {"if bytes cost time, an operation counts as the smallest of its class",
     {{kNetwork, kMiB + kMiB / 2, 0, 900}},
     600,
     kNoTime},
    {"if they cost none, it does not", {{kRing, kMiB + kMiB / 2, 0, 900}}, kNoTime, 900},
    {"those in flight together share their time",
     {{kNetwork, kMiB, 0, 900}, {kNetwork, kMiB, 100, 1000}, {kNetwork, kMiB, 950, 1200}},
     400,
     kNoTime},
    {"and end in any order", {{kNetwork, kMiB, 0, 900}, {kNetwork, kMiB, 1, 800}}, 450, kNoTime},
    {"small ones in flight with a large one are part of it",
     {{kNetwork, kMiB / 2, 0, 900}, {kNetwork, kMiB, 100, 900}, {kNetwork, kMiB / 2, 10, 900}},
     450,
     kNoTime},
    {"two paths at once measure nothing",
     {{kNetwork, kMiB, 0, 900}, {kRing, kMiB, 100, 1000}},
     kNoTime,
     kNoTime},
    {"huge times count as long, not as missing",
     {{kRing, kMiB, 0, INT32_MAX}},
     kNoTime,
     kNoTime - 1},
};

TEST(TunerSamples, PeriodsOnOnePathAreMeasured) {
  for (const SampleCase& each : kSampleCases) {
    TunerSamples samples(kPlain);
    std::multimap<int, const Measured*> events;  // ends before begins
    for (const Measured& one : each.operations) events.emplace(one.end_us, nullptr);
    for (const Measured& one : each.operations) events.emplace(one.begin_us, &one);
    const TunerSamples::TimePoint start;
    for (const auto& [us, begun] : events) {
      const auto now = start + microseconds(us);
      begun != nullptr ? samples.begin(begun->path, begun->bytes, now) : samples.end(now);
    }
    EXPECT_EQ(samples.take(), times(kMiB, each.network_us, each.ring_us)) << each.name;
    EXPECT_EQ(samples.take(), no_times()) << each.name;
  }
}

TEST(TunerSamples, AnOperationThatDoesNotCountHidesThoseInFlightWithIt) {
  TunerSamples samples(kPlain);
  const TunerSamples::TimePoint start;
  samples.begin(kNetwork, kMiB, start);
  samples.begin(std::nullopt, 8, start);
  samples.end(start + microseconds(5));
  samples.end(start + microseconds(900));
  EXPECT_EQ(samples.take(), no_times());
}

}  // namespace
}  // namespace atp
