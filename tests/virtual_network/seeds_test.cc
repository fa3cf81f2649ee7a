#include <cstdio>
#include <string>

#include "atp/sim/run_seed.h"
#include "tests/virtual_network/scenario.h"

// The swarm: 10,000 seeds, each with another network, other jobs and, nine times out of ten, other
// faults. Every completed operation must have the right result, and once the faults have stopped,
// everything must finish and be released. A failure prints the command that replays it. A seed that
// found a bug becomes a named scenario, since a seed's world changes when what is drawn changes.

namespace atp::sim {
namespace {

constexpr std::uint64_t kSeeds = 10000;
constexpr std::uint64_t kChunks = 8;  // so that ctest -j runs several at a time

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSlowdown = 20;  // a sanitizer's run is 500 seeds
#else
constexpr std::uint64_t kSlowdown = 1;
#endif

// Over all seeds, at least: each fault in 500 runs, each row of a table 100 times.
constexpr std::uint64_t kLeastOfAFault = 500 / kChunks + 1;
constexpr std::uint64_t kLeastOfARow = 100 / kChunks + 1;

void expect_faults(const Tally& tally) {
  EXPECT_GT(100 * tally.runs_with_faults, 88 * tally.runs);
  for (std::size_t i = 0; i < FaultCounters::kSize; ++i) {
    EXPECT_GE(tally.faults[static_cast<Fault>(i)], kLeastOfAFault)
        << to_string(static_cast<Fault>(i));
  }
  for (const std::uint64_t trees : tally.trees_by_height) EXPECT_GE(trees, kLeastOfARow);
  EXPECT_GE(tally.runs_past_32_bits, kLeastOfARow);
  EXPECT_GE(tally.waits_for_room, kLeastOfARow);
}

// What no seed of ten thousand produces, or only a few; unit tests cover it: operations that
// differ, shapes that none of their packets has, honest or forged, questions, and JOINs with wrong
// tags, which the driver finds.
bool is_rare(SwitchCounter counter) {
  using S = SwitchCounter;
  switch (counter) {
    case S::kForwardedShape:
    case S::kOperationMismatches:
    case S::kSweptDiscarded:
    case S::kDropEmptyBitmap:
    case S::kDropWrongBitmapWidth:
    case S::kDropWrongValueCount:
    case S::kDropStraight:
    case S::kDropKey: return true;
    default: return false;
  }
}

bool is_rare(ServerCounter counter) {
  using S = ServerCounter;
  switch (counter) {
    case S::kQuestions:
    case S::kStatusAreYouThere:
    case S::kStatusHere:
    case S::kStatusOperation:
    case S::kStatusVersions:  // few forged packets are as long as the answer
    case S::kStatusOperationMismatch:
    case S::kDropWrongBitmapWidth:
    case S::kDropWrongValueCount:
    case S::kDropWrongOperation:
    case S::kDropWrongShape:
    case S::kDropFloatInIntegerMode:
    case S::kDropFloatOfSeveralRanks:
    case S::kDropBadRank:
    case S::kDropRankGone:
    case S::kDropKey: return true;
    default: return false;
  }
}

bool is_rare(WorkerCounter counter) {
  using W = WorkerCounter;
  switch (counter) {
    case W::kDropWrongDirection:
    case W::kDropWrongStream:
    case W::kDropWrongNonce:
    case W::kDropWrongOperation:
    case W::kDropWrongShape: return true;
    default: return false;
  }
}

template <class Counter>
void expect_all_but_rare(const Counters<Counter>& counters, const char* whose) {
  for (std::size_t i = 0; i < Counters<Counter>::kSize; ++i) {
    const auto counter = static_cast<Counter>(i);
    if (is_rare(counter)) continue;
    EXPECT_GE(counters[counter], kLeastOfARow) << whose << " " << to_string(counter);
  }
}

// Expects every counter, so every row of docs/inside/protocol §4 and those rules of §5 and §6 that
// have a counter.
void expect_rows(const Tally& tally) {
  expect_all_but_rare(tally.switches, "switch");
  expect_all_but_rare(tally.servers, "server");
  expect_all_but_rare(tally.workers, "worker");
}

class Seeds : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Seeds, NoWrongSumAndAllFinish) {
  constexpr std::uint64_t kChunk = kSeeds / kChunks / kSlowdown;
  Tally tally;
  for (std::uint64_t i = 0; i < kChunk; ++i) {
    const std::uint64_t seed = GetParam() * kChunk + i;
    const Outcome outcome = run_seed(seed, false, tally);
    ASSERT_EQ(outcome.ending, Ending::kHeld) << outcome.report << describe(draw_plan(seed)) << "\n"
                                             << replay_line(seed);
  }
  std::printf("%s", tally.text().c_str());
  if (kSlowdown > 1) return;
  expect_faults(tally);
  expect_rows(tally);
}

INSTANTIATE_TEST_SUITE_P(VirtualNetwork, Seeds, testing::Range<std::uint64_t>(0, kChunks));

}  // namespace
}  // namespace atp::sim
