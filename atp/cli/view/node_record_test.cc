#include "atp/cli/view/node_record.h"

#include <gtest/gtest.h>

#include "atp/cli/view/testing_view.h"

namespace atp {
namespace {

NodeRates rates_after(const NodeAnswer& first, const NodeAnswer& second, double seconds) {
  NodeRecord record;
  record.take(first, 1000);
  record.take(second, 1000 + seconds);
  return record.rates().value();
}

TEST(NodeRecord, HasASwitchsRatesPerSecond) {
  const NodeRates rates = rates_after(
      answer(true, {{}},
             {{"udp_ip_bytes_in", 1000}, {"complete_sums_sent", 10}, {"gradients_received", 50}}),
      answer(true, {{}},
             {{"udp_ip_bytes_in", 3000},
              {"udp_ip_bytes_out", 500},
              {"complete_sums_sent", 30},
              {"gradients_received", 90},
              {"forwarded_detached", 5},
              {"collisions", 4},
              {"drop_bad_body", 6},
              {"drop_unknown_job", 60},
              {"udp_receive_drops", 2}}),
      2);
  EXPECT_DOUBLE_EQ(rates.in_bits, 8000);
  EXPECT_DOUBLE_EQ(rates.out_bits, 2000);
  EXPECT_DOUBLE_EQ(rates.sums, 10);
  EXPECT_DOUBLE_EQ(rates.goodput_bits, 10 * 350 * 32);
  EXPECT_DOUBLE_EQ(rates.share_summed.value(), 0.775) << "of 40 gradients 9 were passed on";
  EXPECT_DOUBLE_EQ(rates.share_collided.value(), 0.1);
  EXPECT_DOUBLE_EQ(rates.refused_packets, 3);
  EXPECT_DOUBLE_EQ(rates.lost_packets, 1);
}

TEST(NodeRecord, HasTheShareOfEachJobsGradientsThatFoundNoAggregator) {
  NodeAnswer before = answer(true, {{.job = 7, .gradients = 100, .collided = 50}, {.job = 8}});
  NodeAnswer now = answer(true, {{.job = 7, .gradients = 200, .collided = 60},
                                 {.job = 7, .gradients = 100, .collided = 40},
                                 {.job = 8, .gradients = 100},
                                 {.job = 9, .gradients = 10, .collided = 1}});
  now.status.jobs[1].first_stream = 2;
  now.status.counters = {
      {"gradients_received", 400}, {"forwarded_over_quota", 30}, {"forwarded_after_collision", 10}};
  const NodeRates rates = rates_after(before, now, 1);
  EXPECT_DOUBLE_EQ(rates.share_collided.value(), 0.1);
  ASSERT_EQ(rates.collided_jobs.size(), 2u) << "a job counts once, job 8 found all that it wanted";
  EXPECT_EQ(rates.collided_jobs[0].name, "job 7");
  EXPECT_DOUBLE_EQ(rates.collided_jobs[0].share, 0.25);
  EXPECT_EQ(rates.collided_jobs[1].name, "job 9");
  EXPECT_DOUBLE_EQ(rates.collided_jobs[1].share, 0.1) << "a new one counts from 0";
}

TEST(NodeRecord, HasWhatMoreAggregatorsWouldHaveBroughtSinceTheLastAnswer) {
  struct Row {
    const char* name;
    std::uint64_t collided;  // of 100 gradients of job 7; of 60 of job 8 none
    std::uint64_t children, limit;
    double gain;
    std::uint64_t enough;
  };
  const Row rows[] = {
      {"one in four of eight children", 25, 8, 64, 1.75, 128},
      {"nine in ten of two children", 90, 2, 64, 0.9, 256},
      {"an option binds the job", 90, 2, 32, 0, 256},
      {"an earlier version does not say what may bind it", 90, 2, 0, 0, 256},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    NodeAnswer before = answer(true, {{.job = 7, .gradients = 900, .collided = 2}, {.job = 8}});
    NodeAnswer now = answer(true, {{.job = 7,
                                    .gradients = 1000,
                                    .collided = 2 + row.collided,
                                    .limit = row.limit,
                                    .children = row.children},
                                   {.job = 8, .gradients = 60, .limit = 64, .children = 2}});
    now.status.aggregators.total = 64;
    const NodeRates rates = rates_after(before, now, 1);
    ASSERT_EQ(rates.collided_jobs.size(), 1u);
    EXPECT_DOUBLE_EQ(rates.collided_jobs[0].gain, row.gain);
    EXPECT_EQ(rates.enough_aggregators, row.enough);
  }
}

TEST(NodeRecord, AddsUpAServersRatesOverItsJobs) {
  NodeAnswer now = answer(false, {{.job = 7, .fragments = 100}, {.job = 8, .fragments = 50}});
  now.status.jobs[0].fragments_as_floats = 20;
  now.status.jobs[0].fragments_summed_in_switches = 60;
  now.status.jobs[1].has_switches = false;
  const NodeRates rates =
      rates_after(answer(false, {{.job = 7, .fragments = 0}, {.job = 8, .fragments = 40}}), now, 1);
  EXPECT_DOUBLE_EQ(rates.sums, 110);
  EXPECT_DOUBLE_EQ(rates.share_summed.value(), 60.0 / 80.0) << "of those that switches could add";
}

TEST(NodeRecord, CountsARestartedNodeFromZero) {
  struct Case {
    const char* name;
    std::uint64_t before, now;
    double bits;
    std::uint64_t restarts;
  };
  const Case cases[] = {
      {"the counter rises", 1000, 1500, 4000, 0},
      {"the counter has fallen: the node restarted", 1000, 200, 1600, 1},
      {"the counter is unchanged", 1000, 1000, 0, 0},
  };
  for (const Case& c : cases) {
    NodeRecord record;
    record.take(answer(true, {}, {{"udp_ip_bytes_in", c.before}}), 1000);
    record.take(answer(true, {}, {{"udp_ip_bytes_in", c.now}}), 1001);
    EXPECT_DOUBLE_EQ(record.rates()->in_bits, c.bits) << c.name;
    EXPECT_EQ(record.restarts(), c.restarts) << c.name;
  }
}

TEST(NodeRecord, ANewerCounterThatIsHigherDoesNotHideARestart) {
  NodeRecord record;
  record.take(answer(true, {}, {{"packets_received", 500}, {"udp_ip_bytes_in", 100}}), 1000);
  record.take(answer(true, {}, {{"packets_received", 40}, {"udp_ip_bytes_in", 300}}), 1001);
  EXPECT_EQ(record.restarts(), 1u);
  EXPECT_DOUBLE_EQ(record.rates()->in_bits, 2400) << "all of it is since the restart";
}

TEST(NodeRecord, HasNoRatesWithoutTwoAnswersInARow) {
  NodeRecord record;
  EXPECT_EQ(record.presence(), NodePresence::kUnknown);
  record.take(answer(true), 1000);
  EXPECT_FALSE(record.rates()) << "a rate takes two answers";
  record.take(answer(true), 1001);
  EXPECT_TRUE(record.rates());
  record.take(no_answer(NodePresence::kDead), 1002);
  record.take(no_answer(NodePresence::kDead), 1003);
  EXPECT_FALSE(record.rates());
  EXPECT_EQ(record.since_s(), 1002) << "since it was first found dead";
  EXPECT_TRUE(record.status()) << "its last answer is kept";
}

TEST(NodeRecord, ComparesWithTheLastAnswerBeforeASilence) {
  NodeRecord record;
  record.take(answer(true, {}, {{"udp_ip_bytes_in", 1000}}), 1000);
  record.take(no_answer(NodePresence::kSilent), 1001);
  record.take(answer(true, {}, {{"udp_ip_bytes_in", 5000}}), 1010);
  EXPECT_DOUBLE_EQ(record.rates()->in_bits, 3200);
  EXPECT_EQ(record.since_s(), 1010);
}

}  // namespace
}  // namespace atp
