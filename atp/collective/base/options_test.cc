#include "atp/collective/base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "atp/base/text.h"
#include "atp/base/variables.h"

namespace atp {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;
using namespace std::chrono_literals;

const Variables kComplete = {{"RANK", "2"},
                             {"WORLD_SIZE", "4"},
                             {"ATP_JOB", "4294967295"},
                             {"ATP_INCARNATION", "7"},
                             {"ATP_ROUTE", "127.0.0.1:5501,127.0.0.1:5500"}};

Result<CommunicatorOptions> read_with(const Variables& changes) {
  Variables variables = kComplete;
  for (const Variable& each : atp::variables()) {
    if ((each.readers & kCpp) != 0) variables.emplace(each.name, "");
  }
  for (const auto& [name, value] : changes) variables[name] = value;
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  return CommunicatorOptions::from_environment();
}

TEST(Environment, ReadsTheHostsOfTheRanks) {
  using Hosts = std::vector<std::size_t>;
  const Variables on = {{"ATP_HIERARCHY", "1"}, {"ATP_HOST_RANKS", "2,1,1"}};
  EXPECT_EQ(read_with(on).value().host_of, (Hosts{0, 0, 1, 2}));
  EXPECT_EQ(read_with({{"ATP_HOST_RANKS", "2,1,1"}}).value().host_of, (Hosts{0, 0, 1, 2}));
  const Variables off = {{"ATP_HIERARCHY", "0"}, {"ATP_HOST_RANKS", "2,1,1"}};
  EXPECT_EQ(read_with(off).value().host_of, Hosts());
  EXPECT_EQ(read_with({}).value().host_of, Hosts());
  const Variables serves = {{"ATP_COLOCATED_SERVER", "127.0.0.1:5507"},
                            {"ATP_HOST_RANKS", "2,1,1"}};
  EXPECT_EQ(read_with(serves).value().host_of, Hosts());
  const Variables without_memory = {
      {"ATP_HIERARCHY", "1"}, {"ATP_HOST_RANKS", "2,1,1"}, {"ATP_HOST_MEMORY", "0"}};
  EXPECT_EQ(read_with(without_memory).value().host_of, Hosts());
  EXPECT_THAT(read_with({{"ATP_HIERARCHY", "yes"}}).error().message,
              HasSubstr("ATP_HIERARCHY=\"yes\" is not \"0\" or \"1\""));
  EXPECT_THAT(read_with({{"ATP_HIERARCHY", "1"}}).error().message,
              HasSubstr("ATP_HOST_RANKS is not set"));
  for (const char* wrong :
       {"2,1", "2,1,1,1", "2,,2", "4,", ",4", "2,0,2", "a", "2,2,18446744073709551615"}) {
    const Variables variables = {{"ATP_HIERARCHY", "1"}, {"ATP_HOST_RANKS", wrong}};
    EXPECT_THAT(read_with(variables).error().message,
                HasSubstr("is not how many of the 4 ranks each host has"))
        << wrong;
  }
}

TEST(Environment, ReadsTheVariablesThatAtpRunSets) {
  const Result<CommunicatorOptions> options = read_with({});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options.value().rank, 2);
  EXPECT_EQ(options.value().world_size, 4U);
  EXPECT_EQ(options.value().job, (JobKey{4294967295U, 7}));
  EXPECT_EQ(options.value().route,
            (std::vector{Endpoint::ipv4(127, 0, 0, 1, 5501), Endpoint::ipv4(127, 0, 0, 1, 5500)}));
  EXPECT_FALSE(options.value().colocated_server);
  EXPECT_TRUE(options.value().ports.is_any());
  EXPECT_EQ(options.value().values_per_fragment, 0U);
  EXPECT_EQ(options.value().number_format, NumberFormat::kBlocks);
  EXPECT_EQ(options.value().overflow, OverflowPolicy::kReactive);
  EXPECT_EQ(options.value().congestion, CongestionPolicy::kAimd);
  EXPECT_EQ(options.value().join_timeout, 30s);
  EXPECT_FALSE(options.value().digest);
  EXPECT_EQ(options.value().digest_every, 0U);
}

TEST(Environment, ReadsTheOptionalVariables) {
  const Result<CommunicatorOptions> options = read_with({{"ATP_COLOCATED_SERVER", "127.0.0.1:5507"},
                                                         {"ATP_PORT_RANGE", "40000-40999"},
                                                         {"ATP_VALUES_PER_FRAGMENT", "350"},
                                                         {"ATP_SCALE", "fixed"},
                                                         {"ATP_OVERFLOW", "proactive"},
                                                         {"ATP_CONGESTION", "none"},
                                                         {"ATP_JOIN_TIMEOUT", "0.25"},
                                                         {"ATP_TIMEOUT", "12"},
                                                         {"ATP_DIGEST", "1"},
                                                         {"ATP_DIGEST_EVERY", "100"}});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options.value().colocated_server, Endpoint::ipv4(127, 0, 0, 1, 5507));
  EXPECT_EQ(options.value().ports.first, 40000);
  EXPECT_EQ(options.value().ports.last, 40999);
  EXPECT_EQ(options.value().values_per_fragment, 350U);
  EXPECT_EQ(options.value().number_format, NumberFormat::kFixed);
  EXPECT_EQ(options.value().overflow, OverflowPolicy::kProactive);
  EXPECT_EQ(options.value().congestion, CongestionPolicy::kNone);
  EXPECT_EQ(options.value().join_timeout, 250ms);
  EXPECT_EQ(options.value().operation_timeout, 12s);
  EXPECT_TRUE(options.value().digest);
  EXPECT_EQ(options.value().digest_every, 100U);
}

TEST(Environment, ReadsTheFormatOfNumbers) {
  struct Case {
    Variables variables;
    NumberFormat format;
  };
  const Case cases[] = {
      {{{"ATP_SCALE", "blocks"}}, NumberFormat::kBlocks},
      {{{"ATP_WIRE", "int32"}}, NumberFormat::kBlocks},
      {{{"ATP_EXACT", "0"}}, NumberFormat::kBlocks},
      {{{"ATP_WIRE", "int16"}}, NumberFormat::kBlocksInt16},
      {{{"ATP_EXACT", "1"}}, NumberFormat::kExact},
      {{{"ATP_SCALE", "fixed"}, {"ATP_WIRE", "int32"}}, NumberFormat::kFixed},
  };
  for (const Case& c : cases) {
    const Result<CommunicatorOptions> options = read_with(c.variables);
    ASSERT_TRUE(options.ok()) << options.error().message;
    EXPECT_EQ(options.value().number_format, c.format) << c.variables.begin()->first;
  }
}

TEST(Environment, NamesTheFormatsThatExcludeEachOther) {
  for (const Variables& variables : {Variables{{"ATP_SCALE", "fixed"}, {"ATP_WIRE", "int16"}},
                                     Variables{{"ATP_SCALE", "fixed"}, {"ATP_EXACT", "1"}},
                                     Variables{{"ATP_WIRE", "int16"}, {"ATP_EXACT", "1"}}}) {
    const Result<CommunicatorOptions> options = read_with(variables);
    ASSERT_FALSE(options.ok());
    EXPECT_THAT(options.error().message,
                HasSubstr("ATP_SCALE, ATP_WIRE and ATP_EXACT contradict each other: "));
  }
}

TEST(Environment, ReadsTheRouteToEachShard) {
  const Result<CommunicatorOptions> options =
      read_with({{"ATP_ROUTE", "127.0.0.1:1,127.0.0.1:2;127.0.0.1:3;127.0.0.1:1,127.0.0.1:4"}});
  ASSERT_TRUE(options.ok()) << options.error().message;
  const auto at = [](std::uint16_t port) { return Endpoint::ipv4(127, 0, 0, 1, port); };
  EXPECT_EQ(options.value().route, (std::vector{at(1), at(2)}));
  EXPECT_EQ(options.value().more_routes,
            (std::vector<std::vector<Endpoint>>{{at(3)}, {at(1), at(4)}}));
}

TEST(Environment, AnErrorNamesTheVariableWhatWasFoundAndWhatWasExpected) {
  struct Case {
    const char* name;
    const char* value;
    const char* complaint;
  };
  const Case cases[] = {
      {"RANK", "",
       "RANK is not set (expected a whole number from 0 to 3): run the program under `atp run`, "
       "or set it yourself"},
      {"RANK", "4", "RANK=\"4\" is not a whole number from 0 to 3"},
      {"RANK", "-1", "RANK=\"-1\" is not a whole number from 0 to 3"},
      {"WORLD_SIZE", "0", "WORLD_SIZE=\"0\" is not a whole number from 1 to 1024"},
      {"WORLD_SIZE", "4x", "WORLD_SIZE=\"4x\" is not a whole number from 1 to 1024"},
      {"ATP_JOB", "4294967296", "ATP_JOB=\"4294967296\" is not a whole number from 0 to"},
      {"ATP_INCARNATION", "",
       "ATP_INCARNATION is not set (expected a whole number from 0 to 4294967295): run the program "
       "under `atp run` (for a job on several hosts with --incarnation N, the same on all hosts "
       "and new at each start), or set it yourself"},
      {"ATP_INCARNATION", "-1", "ATP_INCARNATION=\"-1\" is not a whole number from 0 to"},
      {"ATP_ROUTE", "", "ATP_ROUTE is not set (expected the switches upward and then the server"},
      {"ATP_ROUTE", "127.0.0.1", "ATP_ROUTE=\"127.0.0.1\": "},
      {"ATP_ROUTE", "[fe80::1]:5500", "ATP_ROUTE=\"[fe80::1]:5500\": 'fe80::1' is a link-local"},
      {"ATP_ROUTE", "[::1]:1,[::1]:2,[::1]:3,[::1]:4,[::1]:5,[::1]:6,[::1]:7,[::1]:8,[::1]:9",
       "[::1]:9\": 9 hops; a route has the server and at most 7 switches before it (expected the "
       "switches upward and then the server"},
      {"ATP_COLOCATED_SERVER", "127.0.0.1", "ATP_COLOCATED_SERVER=\"127.0.0.1\": "},
      {"ATP_COLOCATED_SERVER", "127.0.0.1:0",
       "ATP_COLOCATED_SERVER=\"127.0.0.1:0\": the port is missing (expected the address at which "
       "this "
       "rank serves, as it is written in ATP_ROUTE"},
      {"ATP_PORT_RANGE", "40000",
       "ATP_PORT_RANGE=\"40000\" is not FIRST-LAST, two ports from 1 to 65535, e.g. 40000-40999"},
      {"ATP_PORT_RANGE", "2-1", "ATP_PORT_RANGE=\"2-1\" is not FIRST-LAST"},
      {"ATP_PORT_RANGE", "0-9", "ATP_PORT_RANGE=\"0-9\" is not FIRST-LAST"},
      {"ATP_PORT_RANGE", "1-65536", "ATP_PORT_RANGE=\"1-65536\" is not FIRST-LAST"},
      {"ATP_PORT_RANGE", "1-2-3", "ATP_PORT_RANGE=\"1-2-3\" is not FIRST-LAST"},
      {"ATP_PORT_RANGE", "a-b", "ATP_PORT_RANGE=\"a-b\" is not FIRST-LAST"},
      {"ATP_VALUES_PER_FRAGMENT", "9999",
       "ATP_VALUES_PER_FRAGMENT=\"9999\" is not a whole number from 0 to 2226"},
      {"ATP_SCALE", "1e8", "ATP_SCALE=\"1e8\" is not \"blocks\" or \"fixed\""},
      {"ATP_WIRE", "int8", "ATP_WIRE=\"int8\" is not \"int32\" or \"int16\""},
      {"ATP_EXACT", "yes", "ATP_EXACT=\"yes\" is not \"0\" or \"1\""},
      {"ATP_DIGEST", "on", "ATP_DIGEST=\"on\" is not \"0\" or \"1\""},
      {"ATP_DIGEST_EVERY", "-1", "ATP_DIGEST_EVERY=\"-1\" is not a whole number from 0 to"},
      {"ATP_OVERFLOW", "no", "ATP_OVERFLOW=\"no\" is not \"reactive\" or \"proactive\""},
      {"ATP_CONGESTION", "cubic",
       "ATP_CONGESTION=\"cubic\" is not \"aimd\", \"none\" or \"paper\""},
      {"ATP_TIMEOUT", "soon",
       "ATP_TIMEOUT=\"soon\" is not a number of seconds from 0.001 to 1000000, e.g. 30 or 0.5"},
      {"ATP_JOIN_TIMEOUT", "nan", "ATP_JOIN_TIMEOUT=\"nan\" is not a number of seconds"},
  };
  for (const Case& c : cases) {
    const Result<CommunicatorOptions> options = read_with({{c.name, c.value}});
    ASSERT_FALSE(options.ok()) << c.name << "=" << c.value;
    EXPECT_THAT(options.error().message, HasSubstr(c.complaint));
  }
}

// A folder can have any name.
bool is_free(const Variable& of) { return of.form == "FOLDER"; }

TEST(Environment, ReadsEachVariableThatIsForCpp) {
  for (const Variable& each : atp::variables()) {
    if ((each.readers & kCpp) == 0 || is_free(each)) continue;
    // Only a job that sums on its hosts needs to know them.
    Variables changes = {{"ATP_HIERARCHY", "1"}, {"ATP_HOST_RANKS", "2,1,1"}};
    changes[std::string(each.name)] = "/wrong";
    const auto options = read_with(changes);
    ASSERT_FALSE(options.ok()) << each.name;
    EXPECT_THAT(options.error().message, HasSubstr(each.name));
  }
}

TEST(Environment, IsRefusedByALauncherThatWouldPassItOn) {
  const auto problem = [](const Variables& changes,
                          const CommunicatorOptions::Variables& replaced = {}) {
    static_cast<void>(read_with(changes));
    const Status right = CommunicatorOptions::check_environment(replaced);
    return right ? "" : right.error().message;
  };
  EXPECT_EQ(problem({}), "");
  EXPECT_EQ(problem({{"ATP_ROUTE", ""}, {"RANK", "x"}}, {{"RANK", "0"}}), "");
  const Variables wrong = {{"ATP_ROUTE", "127.0.0.1:1,127.0.0.1:1"},
                           {"ATP_PORT_RANGE", "9-1"},
                           {"ATP_COLOCATED_SERVER", "here"},
                           {"ATP_ALGORITHM", "rings"},
                           {"ATP_TIMEOUT", "0"},
                           {"ATP_TIMEOUT", "nan"},
                           {"ATP_DIGEST_EVERY", "-1"},
                           {"ATP_HOST_MEMORY", "yes"}};
  for (const auto& [name, value] : wrong) {
    EXPECT_THAT(problem({{name, value}}), HasSubstr(name + "=\"" + value + "\""));
    unsetenv(name.c_str());  // of another reader than C++
  }
  EXPECT_THAT(problem({{"ATP_SCALE", "fixed"}, {"ATP_EXACT", "1"}}),
              HasSubstr("ATP_SCALE, ATP_WIRE and ATP_EXACT contradict each other"));
}

TEST(Environment, HasTheDefaultsOfTheTable) {
  const CommunicatorOptions options;
  const auto begins_with = [](const char* name, Duration time) {
    return variable(name).otherwise.starts_with(seconds_text(time));
  };
  EXPECT_TRUE(begins_with("ATP_JOIN_TIMEOUT", options.join_timeout));
  EXPECT_EQ(options.operation_timeout, 30min);
  EXPECT_TRUE(variable("ATP_TIMEOUT").otherwise.starts_with("30 minutes"));
  EXPECT_EQ(options.overflow, overflow_of(variable("ATP_OVERFLOW").choices.front()));
  EXPECT_EQ(options.congestion, congestion_of(variable("ATP_CONGESTION").choices.front()));
  EXPECT_EQ(variable("ATP_VALUES_PER_FRAGMENT").most, ATP_VALUES_MAX);
  EXPECT_EQ(variable("WORLD_SIZE").most, kMaxRanks);
}

TEST(Policies, AreWhatTheirWordsSay) {
  EXPECT_EQ(overflow_of("reactive"), OverflowPolicy::kReactive);
  EXPECT_EQ(overflow_of("proactive"), OverflowPolicy::kProactive);
  EXPECT_EQ(congestion_of("aimd"), CongestionPolicy::kAimd);
  EXPECT_EQ(congestion_of("none"), CongestionPolicy::kNone);
  EXPECT_EQ(congestion_of("paper"), CongestionPolicy::kPaper);
}

}  // namespace
}  // namespace atp
