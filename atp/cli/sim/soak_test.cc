#include "atp/cli/sim/soak.h"

#include <gmock/gmock.h>

#include <set>
#include <vector>

namespace atp {
namespace {

using sim::Ending;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A soak whose seeds end as `ending_of` says, and all of its reports; progress after each seed.
struct Told {
  Ending ending = Ending::kHeld;
  std::vector<std::string> lines;
  std::set<std::uint64_t> played;
};

Told soak(const Soak::Range& range, const std::function<Ending(std::uint64_t)>& ending_of,
          std::chrono::milliseconds tell_every = std::chrono::milliseconds{0}) {
  Told told;
  std::mutex mutex;
  Soak soak(
      range,
      [&](std::uint64_t seed, sim::Tally& tally) {
        ++tally.runs;
        const std::lock_guard lock(mutex);
        told.played.insert(seed);
        return sim::Outcome{ending_of(seed), "the report of this seed\n"};
      },
      [&](const std::string& line) { told.lines.push_back(line); }, tell_every);
  told.ending = soak.run();
  EXPECT_EQ(soak.tally().runs, told.played.size());
  return told;
}

Ending held(std::uint64_t) { return Ending::kHeld; }

TEST(Soak, RunsEachSeedOnceWithAnyNumberOfThreads) {
  for (const unsigned threads : {1u, 4u}) {
    const Told told = soak({.first = 7, .count = 50, .threads = threads}, held);
    EXPECT_EQ(told.ending, Ending::kHeld);
    EXPECT_EQ(told.played.size(), 50u);
    EXPECT_EQ(*told.played.begin(), 7u);
    EXPECT_EQ(*told.played.rbegin(), 56u);
  }
}

TEST(Soak, ReportsHowManySeedsHaveHeld) {
  const Told told = soak({.count = 3}, held);
  ASSERT_EQ(told.lines.size(), 3u);
  EXPECT_THAT(told.lines[0], StartsWith("sim: 1 of 3 seeds passed, "));
  EXPECT_THAT(told.lines[2], StartsWith("sim: 3 of 3 seeds passed, 0 s to go"));
  EXPECT_THAT(soak({.count = 3}, held, std::chrono::hours{1}).lines, IsEmpty());
}

TEST(Soak, StopsAtAFailingSeedAndDoesNotCountItAsHeld) {
  const Told told = soak({.first = 10, .count = 100}, [](std::uint64_t seed) {
    return seed == 12 ? Ending::kNotLive : Ending::kHeld;
  });
  EXPECT_EQ(told.ending, Ending::kNotLive);
  EXPECT_EQ(told.played, (std::set<std::uint64_t>{10, 11, 12}));
  ASSERT_EQ(told.lines.size(), 3u);
  EXPECT_THAT(told.lines[1], StartsWith("sim: 2 of 100 seeds passed, "));
  EXPECT_THAT(told.lines[2], AllOf(HasSubstr("the report of this seed"), HasSubstr("--seed 12")));
}

}  // namespace
}  // namespace atp
