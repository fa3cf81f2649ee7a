#include "atp/collective/network/failure_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atp {
namespace {

using namespace std::chrono_literals;

const Endpoint kSwitch = Endpoint::ipv4(10, 0, 0, 1, 5501);
const Endpoint kServer = Endpoint::ipv4(10, 0, 0, 9, 5500);
const Endpoint kTwin = Endpoint::ipv4(10, 0, 0, 7, 4711);

RankSet set_of(std::initializer_list<Rank> ranks) {
  RankSet set;
  for (Rank rank : ranks) set.insert(rank);
  return set;
}

TEST(FailureText, NamesTheProblemTheRanksAndTheAddresses) {
  struct Case {
    Failure failure;
    const char* text;
  };
  const Case cases[] = {
      {{.code = FailureCode::kNoProgress, .ranks = set_of({3})},
       "no progress for 20 s: rank 3 has not contributed; rank 2 waits for the sum of 7 int32 "
       "values"},
      {{.code = FailureCode::kOverdue, .time_out = std::chrono::seconds(20), .ranks = set_of({3})},
       "not ended within its timeout of 20 s: rank 3 has not contributed; rank 2 waits for the sum "
       "of 7 int32 values"},
      {{.code = FailureCode::kOverdue, .time_out = std::chrono::seconds(20)},
       "not ended within its timeout of 20 s, although no rank is known to be missing: it may need "
       "more time; if packets of 1,476 bytes do not get through, set ATP_VALUES_PER_FRAGMENT=296"},
      {{.code = FailureCode::kNoProgress},
       "no progress for 20 s, and no word from server 10.0.0.9:5500 about it; if packets of 1,476 "
       "bytes do not get through, set ATP_VALUES_PER_FRAGMENT=296"},
      {{.code = FailureCode::kOperationMismatch, .ranks = set_of({0, 1}), .other = set_of({2, 3})},
       "ranks 0 and 1 submitted a different operation from ranks 2 and 3: all ranks must call the "
       "same collectives in the same order, with the same sizes, types, reductions and wire "
       "formats; rank 2's was the sum of 7 int32 values"},
      {{.code = FailureCode::kOperationMismatch, .ranks = set_of({0}), .other = set_of({3})},
       "rank 0 submitted a different operation from rank 3: all ranks must call the same "
       "collectives in the same order, with the same sizes, types, reductions and wire formats"},
      {{.code = FailureCode::kRankLost, .ranks = set_of({3})},
       "rank 3 lost: no word from it for 5 s (its lease ended)"},
      {{.code = FailureCode::kRankLost, .ranks = set_of({1, 3})},
       "ranks 1 and 3 lost: no word from them for 5 s (their leases ended)"},
      {{.code = FailureCode::kRankLeft, .ranks = set_of({1})},
       "rank 1 left the job before the operation ended"},
      {{.code = FailureCode::kLeftBefore, .ranks = set_of({2})},
       "it has already left the job, and a rank cannot return to the same incarnation: start the "
       "job again, as another incarnation"},
      {{.code = FailureCode::kServerRestarted},
       "server 10.0.0.9:5500 restarted and forgot the job: start the job again"},
      {{.code = FailureCode::kServerLost, .endpoint = kServer, .unreachable = true},
       "server 10.0.0.9:5500 does not answer (connection refused or host unreachable): is `atp "
       "server` running there?"},
      {{.code = FailureCode::kServerLost, .endpoint = kServer, .heard = 1},
       "server 10.0.0.9:5500 does not answer (silent for 5 s, although switch 10.0.0.1:5501 "
       "answers): is `atp server` running there? Is the network link between the two up?"},
      {{.code = FailureCode::kServerLost, .endpoint = kServer},
       "rank 2 has received nothing for 5 s, neither from server 10.0.0.9:5500 nor from switch "
       "10.0.0.1:5501: is the network link of rank 2's host up?"},
      {{.code = FailureCode::kRankTaken, .ranks = set_of({2}), .endpoint = kTwin},
       "rank 2 is taken by 10.0.0.7:4711: start each rank exactly once; if another job has the "
       "same number, choose another with `atp run --job N` or ATP_JOB"},
      {{.code = FailureCode::kJoinTimeout, .ranks = set_of({0, 3})},
       "ranks 0 and 3 have not joined within 30 s; the job has 4 ranks"},
      {{.code = FailureCode::kJoinTimeout},
       "no answer within 30 s from server 10.0.0.9:5500 through switch 10.0.0.1:5501: is `atp "
       "server` running there? Do firewalls let this rank's UDP packets out and the answers in? "
       "On its host, `atp doctor 10.0.0.1:5501,10.0.0.9:5500` tells."},
      {{.code = FailureCode::kJoinTimeout, .moves = true},
       "not joined within 30 s: server 10.0.0.9:5500 through switch 10.0.0.1:5501 answers, but to "
       "it each packet of this rank comes from another address or port. Something between them "
       "translates addresses (NAT): give the rank's host an address that nothing translates; a "
       "container needs the host's network"},
      {{.code = FailureCode::kJoinTimeout, .unreachable = true},
       "no answer within 30 s from server 10.0.0.9:5500 through switch 10.0.0.1:5501 (connection "
       "refused or host unreachable): is `atp server` running there?"},
      {{.code = FailureCode::kLeft}, "this rank has left the job"},
  };
  const FailureContext context{.rank = 2,
                               .world_size = 4,
                               .route = {kSwitch, kServer},
                               .lease = 5s,
                               .join_timeout = 30s,
                               .operation_timeout = 20s,
                               .operation_kind = "the sum of 7 int32 values",
                               .value_count = 350};
  for (const Case& c : cases) EXPECT_EQ(failure_text(c.failure, context), c.text);
}

// A server that waits for other ranks says so only after a while.
TEST(FailureText, BlamesNoServerForAShortTimeOut) {
  constexpr const char* kNoAnswer = "no answer within 1.9 s from server 10.0.0.9:5500";
  const struct {
    const char* name;
    bool unreachable;
    Duration join_timeout;
    std::string text;
  } rows[] = {
      {"too short to be told", false, 1900ms,
       std::string(kNoAnswer) +
           ", which may only wait for other ranks: it says so after 2 s at the latest, so give at "
           "least that time to join (ATP_JOIN_TIMEOUT)"},
      {"short, but nobody listens there", true, 1900ms,
       std::string(kNoAnswer) +
           " (connection refused or host unreachable): is `atp server` running there?"},
      {"long enough", false, 2s,
       "no answer within 2 s from server 10.0.0.9:5500: is `atp server` running there? Do "
       "firewalls let this rank's UDP packets out and the answers in? On its host, `atp doctor "
       "10.0.0.9:5500` tells."},
  };
  for (const auto& row : rows) {
    const Failure failure{.code = FailureCode::kJoinTimeout, .unreachable = row.unreachable};
    EXPECT_EQ(failure_text(failure, {.route = {kServer}, .join_timeout = row.join_timeout}),
              row.text)
        << row.name;
  }
}

TEST(FailureText, SuspectsThePathOnlyIfTheRanksOwnPacketsAreMissing) {
  struct Case {
    RankSet missing;
    std::uint16_t value_count;
    const char* text;
  };
  const Case cases[] = {
      {set_of({2}), 2226,
       "no progress for 20 s: rank 2 has not contributed; if packets of 8,980 bytes do not get "
       "through, set ATP_VALUES_PER_FRAGMENT=350"},
      {set_of({1, 2}), 350,
       "no progress for 20 s: ranks 1 and 2 have not contributed; if packets of 1,476 bytes do not "
       "get through, set ATP_VALUES_PER_FRAGMENT=296"},
      {set_of({2}), 296, "no progress for 20 s: rank 2 has not contributed"},
      {set_of({1}), 2226, "no progress for 20 s: rank 1 has not contributed"},
      {{}, 0, "no progress for 20 s, and no word from server 10.0.0.9:5500 about it"},
  };
  for (const Case& c : cases) {
    const FailureContext context{.rank = 2,
                                 .world_size = 4,
                                 .route = {kSwitch, kServer},
                                 .operation_timeout = 20s,
                                 .value_count = c.value_count};
    EXPECT_EQ(failure_text({.code = FailureCode::kNoProgress, .ranks = c.missing}, context),
              c.text);
  }
}

TEST(FailureText, SaysWhatANarrowPathCarries) {
  const FailureContext context{.rank = 2, .world_size = 4, .route = {kSwitch, kServer}};
  EXPECT_EQ(narrow_path_text({.hop = kSwitch, .mtu = 1500, .value_count = 2226}, context),
            "the path from rank 2 to switch 10.0.0.1:5501 carries packets of at most 1,500 bytes "
            "(MTU), and a fragment of 2,226 values makes one of 8,980: set "
            "ATP_VALUES_PER_FRAGMENT=350 or less, or raise the path's MTU");
  EXPECT_EQ(narrow_path_text({.hop = kServer, .mtu = 80, .value_count = 2}, context),
            "the path from rank 2 to server 10.0.0.9:5500 carries packets of at most 80 bytes "
            "(MTU), and a fragment of 2 values makes one of 84: raise the path's MTU");
}

TEST(FailureText, NamesTheRankOfAColocatedServer) {
  FailureContext context{.rank = 2, .world_size = 4, .route = {kServer}};
  context.server_rank = Rank{1};
  EXPECT_EQ(failure_text({.code = FailureCode::kServerLost, .endpoint = kServer}, context),
            "server 10.0.0.9:5500 does not answer (silent for 5 s): it is the colocated "
            "server of rank 1; has rank 1 ended?");
}

TEST(FailureText, NamesTheHostsOfRanksAndTheCauseThatOneGave) {
  FailureContext context{.rank = 0, .world_size = 4, .route = {kSwitch, kServer}};
  context.detail.homes[0] = Endpoint::ipv4(10, 77, 2, 11, 4711);
  context.detail.home_count = 1;
  EXPECT_EQ(failure_text({.code = FailureCode::kRankLost, .ranks = set_of({2})}, context),
            "rank 2 (10.77.2.11) lost: no word from it for 5 s (its lease ended)");
  EXPECT_EQ(failure_text({.code = FailureCode::kRankLost, .ranks = set_of({2, 3})}, context),
            "ranks 2 (10.77.2.11) and 3 lost: no word from them for 5 s (their leases ended)");
  context.detail.cause = CauseText("its process was killed by signal 9 (Killed)");
  EXPECT_EQ(
      failure_text({.code = FailureCode::kRankLeft, .ranks = set_of({2})}, context),
      "rank 2 (10.77.2.11) left the job before the operation ended: its process was killed by "
      "signal 9 (Killed)");
  context.operation_kind = "the sum of 7 int32 values";
  context.detail.cause = CauseText("rank 2 waits for the maximum of 7 int32 values");
  EXPECT_EQ(
      failure_text({.code = FailureCode::kRankLeft, .ranks = set_of({2})}, context),
      "rank 2 (10.77.2.11) left the job before the operation ended: rank 2 waits for the maximum "
      "of 7 int32 values; rank 0 waits for the sum of 7 int32 values");
  EXPECT_EQ(waiting_text({.ranks = set_of({2})}, context),
            "waiting for rank 2 (10.77.2.11), which has not contributed to the oldest operation "
            "for 1 s");
  context.operation = "all_reduce #17 (1,000 values)";
  EXPECT_EQ(waiting_text({.ranks = set_of({2})}, context),
            "waiting for rank 2 (10.77.2.11), which has not contributed to all_reduce #17 (1,000 "
            "values) for 1 s");
  context.names = {0, 2};
  EXPECT_EQ(waiting_text({.ranks = set_of({2})}, context),
            "waiting for the host of rank 2 (10.77.2.11), which has not contributed to all_reduce "
            "#17 (1,000 values) for 1 s");
  EXPECT_EQ(still_missing_text({.ranks = set_of({0, 2})}, context),
            "the hosts of ranks 0 (10.77.2.11) and 2 have not contributed to all_reduce #17 (1,000 "
            "values)");
  EXPECT_THAT(failure_text({.code = FailureCode::kNoProgress, .ranks = set_of({2})}, context),
              ::testing::HasSubstr("the host of rank 2 (10.77.2.11) has not contributed"));
  context.names.clear();
  EXPECT_EQ(waiting_over_text({.ranks = set_of({2})}, std::chrono::milliseconds(4170)),
            "rank 2 has resumed: the others waited for 4.1 s");
  EXPECT_EQ(slow_rank_text({.ranks = set_of({2})}, std::chrono::milliseconds(6380),
                           std::chrono::milliseconds(10040), context),
            "the other ranks spent 6.3 s of the last 10 s waiting for rank 2 (10.77.2.11), less "
            "than a second each time: it is a straggler (`atp status` of the server shows how "
            "late its packets arrive)");
}

TEST(FailureText, ForASilentServerBlamesNoNodeThatMayBeAlive) {
  const FailureContext context{.rank = 2, .world_size = 4, .route = {kSwitch, kServer}};
  const Failure silent{.code = FailureCode::kServerLost, .endpoint = kServer};
  EXPECT_EQ(silence_text(silent, context),
            "rank 2 receives nothing (is the network link of its host up?): giving up after 5 s "
            "of silence");
  Failure refused = silent;
  refused.unreachable = true;
  EXPECT_EQ(silence_text(refused, context),
            "server 10.0.0.9:5500 does not answer (connection refused or host unreachable): giving "
            "up after 5 s of silence");
  Failure alone = silent;
  alone.heard = 1;
  EXPECT_EQ(silence_text(alone, context),
            "server 10.0.0.9:5500 does not answer: giving up after 5 s of silence");
}

const Endpoint kSpine = Endpoint::ipv4(10, 0, 0, 2, 5501);

FailureContext two_levels() {
  return {.rank = 2, .world_size = 4, .route = {kSwitch, kSpine, kServer}};
}

TEST(FailureText, ForASilentServerNamesTheSwitchBelowItThatIsSilentToo) {
  struct Row {
    std::uint8_t heard;
    const char* warning;
    const char* failure;
  };
  const Row kRows[] = {
      {0, "rank 2 receives nothing (is the network link of its host up?)",
       "rank 2 has received nothing for 5 s, neither from server 10.0.0.9:5500 nor from switch "
       "10.0.0.1:5501: is the network link of rank 2's host up?"},
      {1, "switch 10.0.0.2:5501 does not answer, and neither does server 10.0.0.9:5500",
       "switch 10.0.0.2:5501 does not answer, and neither does server 10.0.0.9:5500 (silent for "
       "5 s, although switch 10.0.0.1:5501 answers): is the network link between the two switches "
       "up?"},
      {2, "server 10.0.0.9:5500 does not answer",
       "server 10.0.0.9:5500 does not answer (silent for 5 s, although switch 10.0.0.2:5501 "
       "answers): is `atp server` running there? Is the network link between the two up?"},
      {3, "server 10.0.0.9:5500 does not answer",
       "server 10.0.0.9:5500 does not answer (silent for 5 s, although switch 10.0.0.2:5501 "
       "answers): is `atp server` running there? Is the network link between the two up?"},
  };
  for (const Row& row : kRows) {
    const Failure lost{.code = FailureCode::kServerLost, .endpoint = kServer, .heard = row.heard};
    EXPECT_EQ(silence_text(lost, two_levels()),
              row.warning + std::string(": giving up after 5 s of silence"));
    EXPECT_EQ(failure_text(lost, two_levels()), row.failure);
  }
}

TEST(FailureText, ForNodesThatLostTheKeyNamesTheServerAndNotThisRank) {
  const Failure lost{.code = FailureCode::kServerLost,
                     .reason = RefusalReason::kKey,
                     .expected = static_cast<std::uint32_t>(KeyProblem::kUnknownKey),
                     .endpoint = kServer};
  EXPECT_EQ(silence_text(lost, two_levels()),
            "server 10.0.0.9:5500 does not answer: giving up after 5 s of silence");
  EXPECT_THAT(failure_text(lost, two_levels()),
              testing::StartsWith("server 10.0.0.9:5500 does not answer with a valid tag (silent "
                                  "for 5 s); a refusal without a tag says that the node has no "
                                  "key of the tenant's name: add the line"));
}

TEST(FailureText, OfDetachingNamesTheFirstNodeThatDoesNotAnswerOrTheOneThatRefuses) {
  struct Row {
    Endpoint named;
    std::uint8_t heard;
    bool answered_before;
    const char* detached;
    const char* returned;
  };
  const Row kRows[] = {
      {kSwitch, 0, true, "switch 10.0.0.1:5501 no longer answers",
       "switch 10.0.0.1:5501 answers again"},
      {kSwitch, 0, false, "switch 10.0.0.1:5501 did not answer",
       "switch 10.0.0.1:5501 answers now"},
      {kSpine, 1, true,
       "switch 10.0.0.2:5501 no longer answers, although switch 10.0.0.1:5501 below it does",
       "switch 10.0.0.2:5501 answers again"},
      {kServer, 2, true,
       "server 10.0.0.9:5500 no longer answers through switch 10.0.0.2:5501, although both answer",
       "the switches of the route work again"},
      {kSwitch, 3, true,
       "nothing comes back through switch 10.0.0.1:5501, although it and all nodes above it answer",
       "the switches of the route work again"},
  };
  const FailureContext context = two_levels();
  for (const Row& row : kRows) {
    const Detached detached{
        {.code = FailureCode::kServerLost, .endpoint = row.named, .heard = row.heard},
        row.answered_before};
    EXPECT_THAT(detached_text(detached, context),
                testing::StartsWith(row.detached +
                                    std::string(": going straight to server 10.0.0.9:5500")));
    EXPECT_THAT(returned_text(detached, context), testing::StartsWith(row.returned));
  }
  const Detached refused{
      {.code = FailureCode::kRefused, .reason = RefusalReason::kDraining, .endpoint = kSpine}};
  EXPECT_EQ(detached_text(refused, context),
            "switch 10.0.0.2:5501 refused rank 2: the node takes no new jobs, because it is being "
            "drained (`atp drain`); try again when it has been restarted, or use another one: "
            "going straight to server 10.0.0.9:5500 until it is accepted");
  EXPECT_EQ(returned_text(refused, context),
            "switch 10.0.0.2:5501 accepts rank 2 now: sums go through it from now on");
}

TEST(FailureText, OfAnOperationThatEndsWhileTheServerIsSilentNamesTheServer) {
  FailureContext context{.rank = 2, .world_size = 4, .route = {kSwitch, kServer}};
  context.silence =
      Failure{.code = FailureCode::kServerLost, .endpoint = kServer, .unreachable = true};
  Failure overdue{.code = FailureCode::kOverdue, .time_out = std::chrono::seconds(3)};
  const std::string silent =
      "server 10.0.0.9:5500 does not answer (connection refused or host unreachable)";
  EXPECT_EQ(failure_text(overdue, context), "not ended within its timeout of 3 s: " + silent);
  EXPECT_EQ(failure_text({.code = FailureCode::kNoProgress}, context),
            "no progress for 30 s: " + silent);
  overdue.ranks = set_of({3});
  EXPECT_EQ(failure_text(overdue, context).find(silent), std::string::npos)
      << "the rank that is missing is known";
}

TEST(FailureText, ForRanksThatNeverJoinedSaysWhyOneWasRefused) {
  FailureContext context{.rank = 0, .world_size = 4, .route = {kServer}};
  context.peer_refused = Failure{.code = FailureCode::kRefused,
                                 .reason = RefusalReason::kWorldSize,
                                 .expected = 4,
                                 .found = 8,
                                 .ranks = set_of({3}),
                                 .other = set_of({0, 1})};
  EXPECT_EQ(
      failure_text({.code = FailureCode::kJoinTimeout, .ranks = set_of({3})}, context),
      "rank 3 has not joined within 30 s; the job has 4 ranks; rank 3 was refused: it says the job "
      "has 8 ranks, ranks 0 and 1 say 4; start all ranks with the same world size");
  EXPECT_EQ(
      peer_refused_text(
          {.reason = RefusalReason::kIncarnation, .expected = 5, .found = 6, .ranks = set_of({1})}),
      "rank 1 waits in incarnation 6 of the job, this rank in 5: start all ranks with the "
      "same ATP_INCARNATION (`atp run --incarnation N`)");
}

}  // namespace
}  // namespace atp
