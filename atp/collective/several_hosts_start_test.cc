#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <thread>
#include <vector>

#include "atp/collective/base/number_text.h"
#include "atp/collective/shm/rendezvous.h"
#include "atp/collective/testing/cluster.h"

// How the ranks of several hosts meet, all simulated on this one, if somebody does not come.

namespace atp::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(SeveralHosts, AreToldWhichRankOfWhichHostIsMissingWhenTheyJoin) {
  const TestingCluster cluster(4);
  std::vector<CommunicatorOptions> options = options_on(cluster, {0, 0, 1, 1});
  for (auto& each : options) each.join_timeout = seconds(3);
  options.pop_back();
  std::vector<std::string> said(options.size());
  for (std::size_t rank = 0; rank < options.size(); ++rank) {
    options[rank].on_warning = [&text = said[rank]](const std::string& line) { text += line; };
  }
  const auto joined = join(options);
  for (const auto& each : joined) ASSERT_FALSE(each.ok());
  EXPECT_THAT(joined[0].error().message,
              HasSubstr("rank 2 has not joined within 3 s; the job has 2 hosts"));
  EXPECT_THAT(joined[1].error().message,
              HasSubstr("rank 2 has not joined within 3 s; the job has 2 hosts"));
  EXPECT_THAT(joined[2].error().message, HasSubstr("rank 3 did not contact rank 2 on this host"));
  EXPECT_THAT(said[0], MatchesRegex("waiting for [12] s: rank 2 has not joined; the job has 2 "
                                    "hosts"));
  EXPECT_THAT(said[1], MatchesRegex("waiting for 1 s: rank 0 \\(process [0-9]+\\), the leader of "
                                    "this host, has not met those of the others yet: rank 2"));
  EXPECT_THAT(said[2], HasSubstr("rank 2 waits for rank 3 to meet"));
}

// The stages of connect(), and who holds one up after the others took most of the time.
struct HeldUp {
  const char* name;
  std::vector<Rank> ranks;  // that connect, and
  std::function<void(const CommunicatorOptions&, const std::function<void()>& wait)> other;
  const char* blamed;
};

// As the leader of ranks 2 and 3. Their host has no memory, if it says anything about that.
std::unique_ptr<Communicator> other_leader(CommunicatorOptions options) {
  options.host_of.clear();
  options.rank = 1;
  options.world_size = 2;
  return std::move(Communicator::connect(options)).value();
}

constexpr milliseconds kLate{3500};

const HeldUp kHeldUp[] = {
    {"the other leader does not come",
     {0, 1},
     [](const CommunicatorOptions&, const auto& wait) { wait(); },
     "rank 2 has not joined within 4 s"},
    {"the other leader comes late, and does not say whether its host has memory",
     {0, 1},
     [](const CommunicatorOptions& options, const auto& wait) {
       std::this_thread::sleep_for(kLate);
       const auto leader = other_leader(options);
       wait();
     },
     "rank 2"},
    {"the own leader comes late, and does not say whether all hosts have memory",
     {1},
     [](const CommunicatorOptions& options, const auto& wait) {
       std::this_thread::sleep_for(kLate);
       const HostOfSeveral host{.number = 0, .most_ranks = 2, .ranks = {0, 1}};
       const auto numbers = format_text(static_cast<std::uint32_t>(options.number_format));
       const auto leader = meet_on_host({.job = options.job,
                                         .rank = 0,
                                         .world_size = 2,
                                         .of_several = host,
                                         .numbers = numbers});
       wait();
     },
     "rank 0"},
    {"the other host has no memory, and its ranks do not join the network",
     {0, 1},
     [](const CommunicatorOptions& options, const auto& wait) {
       std::this_thread::sleep_for(kLate);
       const auto leader = other_leader(options);
       std::int32_t against = 1;
       EXPECT_EQ(
           message(leader
                       ->all_reduce(std::as_writable_bytes(std::span(&against, 1)),
                                    ElementKind::kInt32, {.reduction = ElementReduction::kMax})
                       .wait()),
           "");
       wait();
     },
     "ranks 2 and 3 have not joined within 4 s"},
};

// How long each rank took, and its error.
struct Held {
  milliseconds took{0};
  std::string error;
};

std::map<Rank, Held> held_up(const HeldUp& by, const TestingCluster& cluster, milliseconds timeout,
                             const std::shared_ptr<Interruption>& interruption) {
  std::vector<CommunicatorOptions> options = options_on(cluster, {0, 0, 1, 1});
  for (auto& each : options) {
    each.join_timeout = timeout;
    each.operation_timeout = seconds(60);
    each.interruption = interruption;
    each.on_warning = [](const std::string&) {};
  }
  std::promise<void> over;
  std::thread other([&] { by.other(options[0], [&] { over.get_future().wait(); }); });
  std::map<Rank, Held> held;
  for (const Rank rank : by.ranks) held[rank];
  in_parallel(by.ranks.size(), [&](std::size_t i) {
    const auto begun = std::chrono::steady_clock::now();
    const auto joined = Communicator::connect(options[by.ranks[i]]);
    Held& mine = held[by.ranks[i]];
    mine.took = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun);
    mine.error = joined ? "" : joined.error().message;
  });
  over.set_value();
  other.join();
  return held;
}

// A rank waits for its leader a little longer than that for the others: only the leader can say
// whom it waits for.
TEST(SeveralHosts, OneTimeOutBoundsAllStagesOfTheStartWhoeverHoldsUpWhich) {
  in_parallel(std::size(kHeldUp), [&](std::size_t i) {
    const TestingCluster cluster(4);
    for (const auto& [rank, held] : held_up(kHeldUp[i], cluster, seconds(4), nullptr)) {
      const bool is_alone = kHeldUp[i].ranks.size() == 1;
      EXPECT_LT(held.took, seconds(is_alone ? 10 : 7)) << kHeldUp[i].name << ": rank " << rank;
      EXPECT_THAT(held.error, HasSubstr(kHeldUp[i].blamed)) << kHeldUp[i].name << ": " << rank;
    }
  });
}

TEST(SeveralHosts, EveryStageOfTheStartEndsWhenARankIsKnownToBeLost) {
  in_parallel(std::size(kHeldUp), [&](std::size_t i) {
    const TestingCluster cluster(4);
    const auto interruption = std::make_shared<Interruption>();
    std::thread watch([&] {
      std::this_thread::sleep_for(kLate + seconds(1));
      interruption->set("rank 7 was lost");
    });
    for (const auto& [rank, held] : held_up(kHeldUp[i], cluster, seconds(300), interruption)) {
      EXPECT_LT(held.took, seconds(40)) << kHeldUp[i].name << ": rank " << rank;
      EXPECT_THAT(held.error, HasSubstr("rank 7 was lost")) << kHeldUp[i].name << ": " << rank;
    }
    watch.join();
  });
}

}  // namespace
}  // namespace atp::testing
