#include "atp/cli/run/job_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace atp {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

TEST(JobEnvironment, HasTorchrunsVariablesAndOurs) {
  unsetenv("OMP_NUM_THREADS");
  const JobEnvironment job{.ranks = 4,
                           .job = 4294967295u,
                           .incarnation = 7,
                           .route = "127.0.0.1:5501,127.0.0.1:5500",
                           .master_port = 29500};
  EXPECT_THAT(job.of_rank(3),
              ::testing::ElementsAre(Pair("RANK", "3"), Pair("LOCAL_RANK", "3"),
                                     Pair("WORLD_SIZE", "4"), Pair("LOCAL_WORLD_SIZE", "4"),
                                     Pair("MASTER_ADDR", "127.0.0.1"), Pair("MASTER_PORT", "29500"),
                                     Pair("ATP_JOB", "4294967295"), Pair("ATP_INCARNATION", "7"),
                                     Pair("ATP_ROUTE", "127.0.0.1:5501,127.0.0.1:5500"),
                                     Pair("OMP_NUM_THREADS", "1")));
}

TEST(JobEnvironment, HasTheFragmentSizeOnlyIfGiven) {
  JobEnvironment job{.ranks = 1};
  EXPECT_THAT(job.of_rank(0), Not(Contains(Key("ATP_VALUES_PER_FRAGMENT"))));
  job.values = 350;
  EXPECT_THAT(job.of_rank(0), Contains(Pair("ATP_VALUES_PER_FRAGMENT", "350")));
}

TEST(JobEnvironment, SetsGloosInterfaceUnlessTheUserDoes) {
  unsetenv("GLOO_SOCKET_IFNAME");
  const JobEnvironment job{.ranks = 1, .interface_name = "eth7"};
  EXPECT_THAT(job.of_rank(0), Contains(Pair("GLOO_SOCKET_IFNAME", "eth7")));
  setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  EXPECT_THAT(job.of_rank(0), Not(Contains(Key("GLOO_SOCKET_IFNAME"))));
  unsetenv("GLOO_SOCKET_IFNAME");
}

TEST(JobEnvironment, SetsTheExpectedTimesUnlessTheUserDoes) {
  unsetenv("ATP_EXPECTED_TIMES");
  JobEnvironment job{.ranks = 1};
  EXPECT_THAT(job.of_rank(0), Not(Contains(Key("ATP_EXPECTED_TIMES"))));
  job.expected_times = "innetwork=1,2;ring=3,4";
  EXPECT_THAT(job.of_rank(0), Contains(Pair("ATP_EXPECTED_TIMES", "innetwork=1,2;ring=3,4")));
  setenv("ATP_EXPECTED_TIMES", "innetwork=5,6;ring=7,8", 1);
  EXPECT_THAT(job.of_rank(0), Not(Contains(Key("ATP_EXPECTED_TIMES"))));
  unsetenv("ATP_EXPECTED_TIMES");
}

TEST(JobEnvironment, SaysWhichOfTheUsersValuesItReplaces) {
  const JobEnvironment job{.ranks = 2,
                           .job = 5,
                           .incarnation = 7,
                           .route = "127.0.0.1:5501",
                           .ranks_of_hosts = {2, 1},
                           .colocated_servers = {"127.0.0.1:1", "127.0.0.1:2"},
                           .master_port = 29500,
                           .values = 350,
                           .expected_times = "innetwork=1,2;ring=3,4",
                           .interface_name = "eth7"};
  struct Case {
    const char* what;
    const char* name;
    const char* value;
    const char* text;
  };
  const Case cases[] = {
      {"another route", "ATP_ROUTE", "10.0.0.9:5500", "ATP_ROUTE=10.0.0.9:5500"},
      {"the same route", "ATP_ROUTE", "127.0.0.1:5501", ""},
      {"an empty route", "ATP_ROUTE", "", ""},
      {"another job", "ATP_JOB", "6", "ATP_JOB=6"},
      {"the same job", "ATP_JOB", "5", ""},
      {"another incarnation", "ATP_INCARNATION", "8", "ATP_INCARNATION=8"},
      {"other ranks of the hosts", "ATP_HOST_RANKS", "1,2", "ATP_HOST_RANKS=1,2"},
      {"another size of fragments", "ATP_VALUES_PER_FRAGMENT", "64", "ATP_VALUES_PER_FRAGMENT=64"},
      {"one rank's server for all", "ATP_COLOCATED_SERVER", "127.0.0.1:1",
       "ATP_COLOCATED_SERVER=127.0.0.1:1"},
      {"one rank's number for all", "RANK", "0", "RANK=0"},
      {"one rank's number on its host", "LOCAL_RANK", "1", "LOCAL_RANK=1"},
      {"another size of the job", "WORLD_SIZE", "8", "WORLD_SIZE=8"},
      {"the same size of the job", "WORLD_SIZE", "2", ""},
      {"another number of local ranks", "LOCAL_WORLD_SIZE", "8", "LOCAL_WORLD_SIZE=8"},
      {"another master", "MASTER_ADDR", "10.0.0.1", "MASTER_ADDR=10.0.0.1"},
      {"another port of the master", "MASTER_PORT", "1234", "MASTER_PORT=1234"},
      {"expected times, which are kept", "ATP_EXPECTED_TIMES", "innetwork=5,6;ring=7,8", ""},
      {"Gloo's interface, which is kept", "GLOO_SOCKET_IFNAME", "lo", ""},
      {"the number of threads, which is kept", "OMP_NUM_THREADS", "4", ""},
  };
  for (const Case& c : cases) {
    setenv(c.name, c.value, 1);
    EXPECT_EQ(job.replaced(), c.text) << c.what;
    unsetenv(c.name);
  }
  setenv("RANK", "3", 1);
  setenv("MASTER_PORT", "1234", 1);
  EXPECT_EQ(job.replaced(), "MASTER_PORT=1234, RANK=3");
  unsetenv("RANK");
  unsetenv("MASTER_PORT");
}

TEST(JobEnvironment, GivesEachRankItsServersAddress) {
  JobEnvironment job{.ranks = 4, .first_rank = 2, .local_ranks = 2};
  EXPECT_THAT(job.of_rank(2), Not(Contains(Key("ATP_COLOCATED_SERVER"))));
  job.colocated_servers = {"10.0.0.3:5500", "10.0.0.3:5502"};
  EXPECT_THAT(job.of_rank(3), Contains(Pair("ATP_COLOCATED_SERVER", "10.0.0.3:5502")));
}

TEST(JobEnvironment, LimitsNeitherASingleRanksThreadsNorAnExplicitSetting) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_THAT(JobEnvironment{.ranks = 1}.of_rank(0), Not(Contains(Key("OMP_NUM_THREADS"))));
  setenv("OMP_NUM_THREADS", "2", 1);
  EXPECT_THAT(JobEnvironment{.ranks = 2}.of_rank(0), Not(Contains(Key("OMP_NUM_THREADS"))));
  unsetenv("OMP_NUM_THREADS");
}

TEST(FreeTcpPort, CannotBeGivenToAConnectionBeforeRank0Listens) {
  unsigned connections = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> connections;
  // If the ephemeral range covers nearly all ports, the port is outside of the default range.
  const unsigned end = connections > 20'000 ? connections : 32'768;
  for (int i = 0; i < 50; ++i) {
    const Result<std::uint16_t> port = free_tcp_port();
    ASSERT_TRUE(port.ok()) << port.error().message;
    EXPECT_GE(port.value(), 10'000U);
    EXPECT_LT(port.value(), end);
  }
}

}  // namespace
}  // namespace atp
