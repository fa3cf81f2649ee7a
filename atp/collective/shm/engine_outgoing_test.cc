#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "atp/base/random.h"
#include "atp/collective/shm/engine.h"

// The engines of several hosts in this process, driven one step at a time, with a network between
// their leaders that combines when the test says so.

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

class Network {
 public:
  explicit Network(std::size_t hosts) : waiting_(hosts) {}

  void take(std::size_t host, const HostUplink::Words& words, std::function<void(bool)> ended) {
    waiting_[host].push_back({words, std::move(ended)});
  }
  // The host's leader is gone.
  void forget(std::size_t host) { waiting_[host].clear(); }
  // Combines what all leaders wait for next, which must be the same. False: not all of them wait.
  bool combine_next() {
    for (const auto& of_host : waiting_) {
      if (of_host.empty()) return false;
    }
    const HostUplink::Words& first = waiting_.front().front().words;
    for (std::size_t host = 1; host < waiting_.size(); ++host) {
      const HostUplink::Words& words = waiting_[host].front().words;
      EXPECT_EQ(words.count, first.count);
      EXPECT_EQ(words.reduction, first.reduction);
      EXPECT_EQ(words.tag, first.tag);
      for (std::size_t i = 0; i < std::min(words.count, first.count); ++i) {
        first.at[i] = first.reduction == Reduction::kMax ? std::max(first.at[i], words.at[i])
                                                         : first.at[i] + words.at[i];
      }
      std::copy_n(first.at, first.count, words.at);
    }
    for (std::size_t host = 1; host < waiting_.size(); ++host) {
      std::copy_n(first.at, first.count, waiting_[host].front().words.at);
    }
    for (auto& of_host : waiting_) {
      of_host.front().ended(true);
      of_host.pop_front();
    }
    return true;
  }

 private:
  struct Waiting {
    HostUplink::Words words;
    std::function<void(bool)> ended;
  };
  std::vector<std::deque<Waiting>> waiting_;
};

class Uplink final : public HostUplink {
 public:
  Uplink(Network& network, std::size_t host) : network_(network), host_(host) {}
  void combine(const Words& words, std::function<void(bool)> ended) override {
    network_.take(host_, words, std::move(ended));
  }
  std::optional<std::string> failure() const override { return failure_; }
  FailureKind failure_kind() const override { return FailureKind::kTimeout; }
  std::optional<WaitedForRanks> waited_for() const override { return waits_; }
  void give_up(const std::string& why) override { told_ = why; }
  // Of the transport, not of the engine:
  Status shutdown(std::chrono::milliseconds) override { return ok_status(); }
  void abort(const std::string&) override {}
  CounterList counters() const override { return {}; }
  std::map<Rank, Duration> waits() const override { return {}; }

  void wait_for(std::optional<WaitedForRanks> waits) { waits_ = std::move(waits); }
  void fail(const std::string& why) { failure_ = why; }
  const std::string& told() const { return told_; }

 private:
  Network& network_;
  const std::size_t host_;
  std::optional<std::string> failure_;
  std::string told_;
  std::optional<WaitedForRanks> waits_;
};

class Job {
 public:
  explicit Job(const std::vector<std::size_t>& ranks_of_hosts) : network_(ranks_of_hosts.size()) {
    std::size_t world_size = 0;
    for (const std::size_t ranks : ranks_of_hosts) world_size += ranks;
    const std::size_t most = *std::max_element(ranks_of_hosts.begin(), ranks_of_hosts.end());
    for (std::size_t host = 0; host < ranks_of_hosts.size(); ++host) {
      const std::size_t ranks = ranks_of_hosts[host];
      segments_.push_back(Segment::create(SegmentShape::of_several_hosts(ranks, most)).value());
      uplinks_.push_back(std::make_unique<Uplink>(network_, host));
      std::vector<Rank> names(ranks);
      for (std::size_t i = 0; i < ranks; ++i) names[i] = static_cast<Rank>(engines_.size() + i);
      for (std::size_t i = 0; i < ranks; ++i) add_engine(i, names, world_size);
      engines_[names.front()]->send_through(*uplinks_.back());
    }
  }

  Network& network() { return network_; }
  std::size_t ranks() const { return engines_.size(); }
  HostEngine& engine(std::size_t rank) { return *engines_[rank]; }
  Uplink& uplink(std::size_t host) { return *uplinks_[host]; }
  // As if its process had died.
  void kill(std::size_t rank) {
    engines_[rank].reset();
    for (std::size_t host = 0, leader = 0; host < segments_.size(); ++host) {
      if (leader == rank) network_.forget(host);
      leader += segments_[host].ranks();
    }
  }

 private:
  void add_engine(std::size_t on_host, const std::vector<Rank>& names, std::size_t world_size) {
    const Segment& segment = segments_.back();
    segment.board_of(on_host).process.store(100U + names[on_host]);
    engines_.push_back(std::make_unique<HostEngine>(
        HostPlace{segment.alias(), Presence::of(segment.descriptor(), on_host).value()},
        HostEngineOptions{.rank = on_host,
                          .world_size = world_size,
                          .names = names,
                          .operation_timeout = std::chrono::seconds(20),
                          .describe = [](const HostOperationHeader& header) {
                            return "operation " + std::to_string(header.number);
                          }}));
  }

  Network network_;
  std::vector<Segment> segments_;
  std::vector<std::unique_ptr<Uplink>> uplinks_;
  std::vector<std::unique_ptr<HostEngine>> engines_;
};

// Sums of whole numbers, which are exact: value i of rank r is r + i % 100 + 1.
class Sum {
 public:
  Sum(std::size_t rank, std::size_t count) : layout_(count), values_(count) {
    for (std::size_t i = 0; i < count; ++i) values_[i] = static_cast<float>(rank + i % 100 + 1);
    request_.call = Collective::kAllReduce;
    request_.kind = ElementKind::kFloat32;
    request_.timeout_is_total = false;
  }
  CollectiveRequest& request() { return request_; }
  HostOperation operation(std::uint64_t number, Reduction reduction = Reduction::kSum) {
    request_.reduction = element_reduction_of(reduction);
    request_.outputs = {std::as_writable_bytes(std::span(values_))};
    return {.number = number,
            .request = &request_,
            .kind = {.reduction = reduction},
            .small = values_.size() < 500,
            .layout = &layout_};
  }
  bool is_of(std::size_t ranks, Reduction reduction) const {
    const std::size_t of_ranks = ranks * (ranks - 1) / 2;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::size_t own = i % 100 + 1;
      const std::size_t expected =
          reduction == Reduction::kSum ? of_ranks + ranks * own : own + ranks - 1;
      if (values_[i] != static_cast<float>(expected)) return false;
    }
    return true;
  }

 private:
  BlockLayout layout_;
  CollectiveRequest request_;
  std::vector<float> values_;
};

// In one piece, and in more pieces than there are slots; exact, in blocks and plain; and empty.
constexpr std::size_t kCounts[] = {10, 200'000, 0, 5000, 400'000, 1, 70'000, 3000};
Reduction reduction_of(std::size_t number) {
  return number % 3 == 2 ? Reduction::kMax : Reduction::kSum;
}

TEST(EnginesOfSeveralHosts, SumWhateverTheOrderOfTheirSteps) {
  for (const auto& hosts : std::vector<std::vector<std::size_t>>{{2, 2}, {1, 3, 2}, {4, 1}}) {
    Job job(hosts);
    Random random(job.ranks());
    std::vector<std::vector<Sum>> sums(job.ranks());
    for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
      for (const std::size_t count : kCounts) sums[rank].emplace_back(rank, count);
    }
    std::vector<std::size_t> submitted(job.ranks());
    std::size_t ended = 0;
    while (ended < job.ranks() * std::size(kCounts)) {
      const std::size_t rank = random.below(job.ranks());
      std::size_t& next = submitted[rank];
      if (next < std::size(kCounts) && random.below(2) == 0) {
        job.engine(rank).submit(sums[rank][next].operation(next, reduction_of(next)),
                                steady_clock::now());
        ++next;
      }
      job.engine(rank).work(steady_clock::now());
      ASSERT_EQ(job.engine(rank).failure().value_or(""), "");
      ended += job.engine(rank).take_completed();
      if (random.below(3) == 0) job.network().combine_next();
    }
    for (const auto& of_rank : sums) {
      for (std::size_t i = 0; i < of_rank.size(); ++i) {
        EXPECT_TRUE(of_rank[i].is_of(job.ranks(), reduction_of(i))) << i;
      }
    }
  }
}

// Kills rank `dies`, one of ranks 0, 1 and 2 on one host; rank 3 on the other host never dies.
void expect_named(std::size_t dies, std::size_t rounds, bool network_works) {
  Job job({3, 1});
  std::vector<Sum> sums;
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) sums.emplace_back(rank, 400'000);
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    job.engine(rank).submit(sums[rank].operation(0), steady_clock::now());
  }
  const auto work = [&](bool all) {
    for (const std::size_t rank : {3U, 0U, 2U, 1U}) {
      if (all || rank != dies) job.engine(rank).work(steady_clock::now());
    }
    if (network_works) job.network().combine_next();
  };
  for (std::size_t round = 0; round < rounds; ++round) work(true);
  job.kill(dies);
  const auto until = steady_clock::now() + std::chrono::seconds(15);
  const std::size_t others[] = {dies == 0 ? 1U : 0U, dies == 2 ? 1U : 2U};
  const auto has_failed = [&](std::size_t rank) { return job.engine(rank).failure().has_value(); };
  while (!std::all_of(std::begin(others), std::end(others), has_failed) &&
         steady_clock::now() < until) {
    work(false);
    for (const std::size_t rank : others) job.engine(rank).wait();
  }
  const std::string expected = "rank " + std::to_string(dies) + " (process " +
                               std::to_string(100 + dies) + ") is lost: its process has ended";
  for (const std::size_t rank : others) {
    EXPECT_EQ(job.engine(rank).failure().value_or("none"), expected) << rounds << " rounds";
  }
  EXPECT_EQ(job.uplink(0).told(), dies == 0 ? "" : expected);
}

TEST(EnginesOfSeveralHosts, NameARankOfTheirHostThatDiesAfterAnyRoundOfWork) {
  for (const std::size_t dies : {0U, 1U, 2U}) {
    for (std::size_t rounds = 0; rounds < 12; ++rounds) expect_named(dies, rounds, true);
  }
}

// The network may wait for an early piece that the dead rank has not summed, or the rank may have
// summed all pieces so far.
TEST(EnginesOfSeveralHosts, NameARankThatDiesWhileTheNetworkWaits) {
  for (const std::size_t dies : {0U, 1U}) {
    for (std::size_t rounds = 0; rounds < 3; ++rounds) expect_named(dies, rounds, false);
  }
}

TEST(EnginesOfSeveralHosts, AreAllToldWhyTheNetworkHasFailed) {
  Job job({2, 1});
  std::vector<Sum> sums;
  for (const std::size_t rank : {0U, 1U}) {
    sums.emplace_back(rank, 70'000);
  }
  for (const std::size_t rank : {0U, 1U}) {
    job.engine(rank).submit(sums[rank].operation(0), steady_clock::now());
    job.engine(rank).work(steady_clock::now());
  }
  job.uplink(0).fail("the server is gone");
  for (const std::size_t rank : {0U, 1U}) {
    job.engine(rank).work(steady_clock::now());
    EXPECT_EQ(job.engine(rank).failure().value_or("none"),
              "the server is gone; rank 0 waits for operation 0");
  }
}

// What the network reports to the leader from this time on.
struct Report {
  int at_ms;
  std::optional<WaitedForRanks> waits;
};

WaitedForRanks waits_for(const std::vector<Rank>& ranks, const std::string& why) {
  return {.ranks = ranks, .waited = {}, .operation = {}, .why = why};
}

TEST(EnginesOfSeveralHosts, SayWhatTheirLeaderHearsFromTheNetwork) {
  const WaitedForRanks for_3 = waits_for({3}, "the host of rank 3 has not contributed");
  const WaitedForRanks for_both = waits_for({3, 4}, "the hosts of ranks 3 and 4 have not");
  const WaitedForRanks for_server = waits_for({}, "the server does not answer");
  const std::string said_3 = "waiting for 1 s: the host of rank 3 has not contributed";
  const struct {
    const char* name;
    std::vector<Report> reports;
    int leader_works_until_ms;
    std::vector<std::string> lines;  // of each follower, within four seconds
    RankSet ranks;                   // that it waits for at the end
  } rows[] = {
      {"the network waits for nobody", {}, 4000, {}, {}},
      {"it waits for a rank", {{1000, for_3}}, 4000, {said_3}, RankSet::of(3)},
      {"it says so before a follower has waited for a second",
       {{100, for_3}},
       4000,
       {said_3},
       RankSet::of(3)},
      {"another rank joins it",
       {{1000, for_3}, {2300, for_both}},
       4000,
       {said_3, "waiting for 2 s: the hosts of ranks 3 and 4 have not"},
       RankSet::of(3) | RankSet::of(4)},
      {"the rank goes on",
       {{1000, for_3}, {2500, std::nullopt}},
       4000,
       {said_3, "rank 3 has resumed: this rank waited for 2.4 s"},
       {}},
      {"the server is silent, which is said once, and blames no rank",
       {{2300, for_server}},
       4000,
       {"waiting for 2 s: the server does not answer"},
       {}},
      {"the server is silent twice",
       {{1000, for_server}, {2000, std::nullopt}, {3300, for_server}},
       4000,
       {"waiting for 1 s: the server does not answer",
        "waiting for 3 s: the server does not answer"},
       {}},
      {"the leader itself stands still",
       {},
       1500,
       {"waiting for 2 s: rank 0 (process 100) makes no progress"},
       RankSet::of(0)},
      {"the leader stands still, whatever it said before",
       {{1000, for_3}},
       1500,
       {said_3, "rank 3 has resumed: this rank waited for 2.4 s",
        "waiting for 2 s: rank 0 (process 100) makes no progress"},
       RankSet::of(0)},
  };
  for (const auto& row : rows) {
    Job job({3, 1, 1});
    std::vector<Sum> sums;
    const steady_clock::time_point begin{milliseconds(1'000'000)};
    for (const std::size_t rank : {0U, 1U, 2U}) sums.emplace_back(rank, 5000);
    for (const std::size_t rank : {0U, 1U, 2U}) {
      job.engine(rank).submit(sums[rank].operation(0), begin);
    }
    std::vector<std::vector<std::string>> lines(3);
    for (int at_ms = 0; at_ms <= 4000; at_ms += 50) {
      for (const Report& report : row.reports) {
        if (report.at_ms == at_ms) job.uplink(0).wait_for(report.waits);
      }
      for (const std::size_t rank : {0U, 1U, 2U}) {
        if (rank == 0 && at_ms > row.leader_works_until_ms) continue;
        job.engine(rank).work(begin + milliseconds(at_ms));
        while (const auto line = job.engine(rank).take_line()) lines[rank].push_back(line->text);
      }
    }
    EXPECT_EQ(lines[0], std::vector<std::string>{}) << row.name << ": its uplink says it";
    for (const std::size_t rank : {1U, 2U}) {
      EXPECT_EQ(lines[rank], row.lines) << row.name;
      EXPECT_TRUE(job.engine(rank).late().ranks() == row.ranks) << row.name;
    }
  }
}

// A total time-out may end before the network's.
TEST(EnginesOfSeveralHosts, NameWhomTheNetworkWaitsForAtTheirTimeOut) {
  const struct {
    const char* name;
    std::optional<WaitedForRanks> waits;
    std::string failure;
  } rows[] = {
      {"a rank", waits_for({3}, "the host of rank 3 has not contributed"),
       "not ended within its timeout of 2 s: the host of rank 3 has not contributed"},
      {"nobody", std::nullopt,
       "not ended within its timeout of 2 s, although no rank is known to be missing: does it need "
       "more time?"},
  };
  for (const auto& row : rows) {
    Job job({2, 1});
    std::vector<Sum> sums;
    const steady_clock::time_point begin{milliseconds(1'000'000)};
    for (const std::size_t rank : {0U, 1U}) sums.emplace_back(rank, 5000);
    for (const std::size_t rank : {0U, 1U}) {
      sums[rank].request().timeout = milliseconds(2000);
      sums[rank].request().timeout_is_total = true;
      job.engine(rank).submit(sums[rank].operation(0), begin);
    }
    job.uplink(0).wait_for(row.waits);
    for (int at_ms = 0; at_ms <= 7000; at_ms += 50) {
      for (const std::size_t rank : {0U, 1U}) {
        job.engine(rank).work(begin + milliseconds(at_ms));
      }
    }
    for (const std::size_t rank : {0U, 1U}) {
      EXPECT_EQ(job.engine(rank).failure().value_or("none"), row.failure) << row.name;
    }
  }
}

TEST(EnginesOfSeveralHosts, LearnFromTheLeaderWhatWasAgreed) {
  Job job({2, 1});
  EXPECT_EQ(job.engine(1).verdict(), HostBoard::Verdict::kNone);
  job.engine(1).look_for_failure();
  EXPECT_EQ(job.engine(1).failure().value_or("none"), "none");
  job.engine(0).say(HostBoard::Verdict::kSend);
  EXPECT_EQ(job.engine(1).verdict(), HostBoard::Verdict::kSend);
  job.kill(0);
  job.engine(1).look_for_failure();
  EXPECT_THAT(job.engine(1).failure().value_or("none"), HasSubstr("rank 0 (process 100) is lost"));
}

}  // namespace
}  // namespace atp
