#include "atp/config/interconnect/interconnect_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "atp/config/text/testing_mistakes.h"

namespace atp {
namespace {

using planner::Aggregation;
using planner::LevelKind;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kWhole = R"(# a comment
name: two racks
levels:
  - name: rack
    count: 2
    kind: switch
    bandwidth: 100 Gbit/s per direction
    latency: 5 us
    aggregation:
      payload_bytes: 1400
      header_bytes: 114
      wire_bytes_per_value: 4
      slots: 1024
      window: 64
      servers: dedicated
      server_hosts: 2
      server_bandwidth: 40 Gbit/s per direction
      switch_bandwidth: 80 Gbit/s per direction
      fallback_share: 0.25
  - {name: gpu, count: 2, kind: pairs, bandwidth: 600 GB/s both directions}
point_to_point:
  unit: GB/s per direction
  rows:
    - [0, 10, 1, 1]
    - [10, 0, 1, 1]
    - [1, 1, 0, 10]
    - [1, 1, 10, 0]
measured:
  - {mesh: [4, 1], dimension1: 1.5 GB/s}
  - {mesh: [2, 2], dimension1: 2 GB/s, dimension2: 3 GB/s}
  - mesh: [2, 2]
    algorithm: innetwork
    dimension1: {all_reduce: {bandwidth: 4 GB/s, latency: 20 us}}
    dimension2:
      all_reduce: {bandwidth: 5 GB/s}
      reduce_scatter: {bandwidth: 6 GB/s, latency: 7 us}
      all_gather: {bandwidth: 8 GB/s, latency: 9 us}
device: {products: 300 TFLOP/s, memory: 2 TB/s}
)";

TEST(ClusterFile, EveryKeyReachesTheInterconnect) {
  const Result<Cluster> cluster = parse_cluster(kWhole, "two.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const planner::Interconnect& interconnect = cluster.value().interconnect;
  EXPECT_EQ(interconnect.name, "two racks");
  ASSERT_EQ(interconnect.levels.size(), 2u);
  const planner::Level& rack = interconnect.levels[0];
  EXPECT_EQ(rack.name, "rack");
  EXPECT_EQ(rack.count, 2u);
  EXPECT_EQ(rack.kind, LevelKind::kSwitch);
  EXPECT_DOUBLE_EQ(rack.bandwidth.value, 12.5e9);
  EXPECT_DOUBLE_EQ(rack.latency_s, 5e-6);
  ASSERT_TRUE(rack.aggregation);
  EXPECT_EQ(*rack.aggregation, (Aggregation{.slots = 1024,
                                            .window = 64,
                                            .payload_bytes = 1400,
                                            .header_bytes = 114,
                                            .wire_bytes_per_value = 4,
                                            .placement = planner::ServerPlacement::kDedicated,
                                            .server_hosts = 2,
                                            .server_bandwidth = {5e9},
                                            .switch_bandwidth = {10e9},
                                            .fallback_share = 0.25}));
  EXPECT_EQ(interconnect.levels[1].kind, LevelKind::kPairs);
  EXPECT_DOUBLE_EQ(interconnect.levels[1].bandwidth.value, 300e9);
  ASSERT_TRUE(interconnect.point_to_point);
  EXPECT_DOUBLE_EQ(interconnect.point_to_point->at(0, 1).value, 10e9);
  EXPECT_DOUBLE_EQ(interconnect.point_to_point->at(3, 0).value, 1e9);
  ASSERT_EQ(interconnect.measured.size(), 3u);
  const planner::MeasuredMesh& sums = interconnect.measured[2];
  EXPECT_EQ(sums.algorithm, planner::Collective::kInNetwork);
  EXPECT_EQ(sums.dimension1.all_reduce.bandwidth.value, 4e9);
  EXPECT_DOUBLE_EQ(sums.dimension1.all_reduce.latency_s, 20e-6);
  EXPECT_FALSE(sums.dimension1.all_gather);
  EXPECT_EQ(sums.dimension2.reduce_scatter.value().bandwidth.value, 6e9);
  EXPECT_EQ(sums.dimension2.all_gather.value().bandwidth.value, 8e9);
  EXPECT_EQ(interconnect.measured[1].algorithm, planner::Collective::kMeasured);
  EXPECT_EQ(interconnect.device, (planner::Device{300e12, 2e12}));
  EXPECT_DOUBLE_EQ(interconnect.measured[1].dimension2.all_reduce.bandwidth.value, 3e9);
  EXPECT_EQ(cluster.value().levels.line, 3);
}

TEST(ClusterFile, BurstsAndTheShareOfStreamsAreRead) {
  std::string text = kWhole;
  const std::string window = "      window: 64\n";
  text.replace(text.find(window), window.size(),
               window + "      burst: 512\n      stream_share: 0.96\n");
  const Result<Cluster> first = parse_cluster(text, "f");
  ASSERT_TRUE(first) << first.error().message;
  const Aggregation& read = *first.value().interconnect.levels[0].aggregation;
  EXPECT_EQ(read.burst, 512u);
  EXPECT_DOUBLE_EQ(read.stream_share, 0.96);
}

// Servers shared by all racks, including racks without a server of their own.
TEST(ClusterFile, ReadsHowManyUnitsShareTheServers) {
  const std::string text =
      "levels:\n"
      "  - {name: rack, count: 2, kind: switch, bandwidth: 1 GB/s per direction}\n"
      "  - {name: host, count: 4, kind: switch, bandwidth: 1 GB/s per direction,\n"
      "     aggregation: {server_hosts: 1, shared_by: 2, uplink_sums: 1.5}}\n";
  const Result<Cluster> first = parse_cluster(text, "f");
  ASSERT_TRUE(first) << first.error().message;
  const planner::Level& host = first.value().interconnect.levels.at(1);
  EXPECT_EQ(*host.aggregation,
            (Aggregation{.shared_by = 2, .uplink_sums = 1.5, .server_hosts = 1}));

  std::string top = text;
  top.replace(top.find("count: 2"), 8, "count: 2, aggregation: {uplink_sums: 1}");
  EXPECT_THAT(parse_cluster(top, "f").error().message, HasSubstr("uplink sums must be 0, found 1"));
  std::string none = text;
  none.replace(none.find("shared_by: 2"), 12, "shared_by: 0");
  EXPECT_THAT(parse_cluster(none, "f").error().message,
              HasSubstr("f:4: levels[1].aggregation.shared_by:"));
}

TEST(ClusterFile, EveryErrorNamesFileLineAndKey) {
  const Mistake mistakes[] = {
      {"unknown key", "latency: 5 us", "latancy: 5 us",
       "f:8: levels[0].\"latancy\":", "did you mean latency?"},
      {"unknown key at the top", "name: two racks", "hosts: []", "f:2: \"hosts\":",
       "unknown key; use name, levels, point_to_point, measured, device, links, racks, "
       "servers, lanes or jobs"},
      {"key twice", "latency: 5 us", "count: 2", "f:8: levels[0].count:", "duplicate key"},
      {"missing key", "    kind: switch\n", "", "f:4: levels[0].kind:", "is missing"},
      {"count of zero", "count: 2\n    kind: switch", "count: 0\n    kind: switch",
       "f:5: levels[0].count:", "found \"0\", expected a whole number from 1 to 1048576"},
      {"count too large for an integer", "count: 2\n    kind: switch",
       "count: 2147483648\n    kind: switch",
       "f:5: levels[0].count:", "expected a whole number from 1 to 1048576"},
      {"name twice", "name: gpu", "name: rack",
       "f:20: levels[1]:", "is named \"rack\" like levels[0]"},
      {"name with a control character", "name: rack", "name: \"\\x1b[31m\"",
       "f:4: levels[0].name:", "without control characters"},
      {"name that is not UTF-8", "name: rack", "name: r\xe9",
       "f:4: levels[0].name:", "found \"r?\", expected a name, in UTF-8"},
      {"measured dimension of one rank", "dimension1: 1.5 GB/s",
       "dimension1: 1.5 GB/s, dimension2: 1 GB/s",
       "f:29: measured[0].dimension2:", "a dimension of one rank has nothing to measure"},
      {"negative count", "count: 2\n    kind: switch", "count: -2\n    kind: switch",
       "f:5: levels[0].count:", "found \"-2\""},
      {"count in quotes", "count: 2\n    kind: switch", "count: \"2\"\n    kind: switch",
       "f:5: levels[0].count:", "expected a whole number"},
      {"too many devices", "count: 2\n    kind: switch", "count: 999999\n    kind: switch",
       "f:20: levels[1]:", "1999998 devices"},
      {"unknown kind", "kind: switch", "kind: swich",
       "f:6: levels[0].kind:", "did you mean switch?"},
      {"pairs of three", "count: 2, kind: pairs", "count: 3, kind: pairs",
       "f:20: levels[1].count:", "a level of kind pairs has two children"},
      {"ambiguous unit", "bandwidth: 100 Gbit/s per direction", "bandwidth: 100 Gb/s per direction",
       "f:7: levels[0].bandwidth:", "which may mean bits or bytes"},
      {"no direction", "bandwidth: 100 Gbit/s per direction", "bandwidth: 100 Gbit/s",
       "f:7: levels[0].bandwidth:", "without a direction"},
      {"no unit", "bandwidth: 100 Gbit/s per direction", "bandwidth: 100",
       "f:7: levels[0].bandwidth:", "without a unit"},
      {"negative bandwidth", "bandwidth: 100 Gbit/s", "bandwidth: -100 Gbit/s",
       "f:7: levels[0].bandwidth:", "write one above 0"},
      {"bandwidth as a list", "bandwidth: 100 Gbit/s per direction", "bandwidth: [1, 2]",
       "f:7: levels[0].bandwidth:", "found a list, expected a bandwidth such as"},
      {"negative latency", "latency: 5 us", "latency: -5 us",
       "f:8: levels[0].latency:", "negative time"},
      {"aggregation without a switch", "kind: switch", "kind: full",
       "f:9: levels[0].aggregation:", "only a switch can aggregate"},
      {"slots without window", "      window: 64\n", "",
       "f:13: levels[0].aggregation.slots:", "slots require window"},
      {"header without payload", "      payload_bytes: 1400\n", "",
       "f:10: levels[0].aggregation.header_bytes:", "requires payload_bytes"},
      {"share beyond 1", "fallback_share: 0.25", "fallback_share: 1.25",
       "f:19: levels[0].aggregation.fallback_share:", "a number from 0 to 1"},
      {"no share for streams", "fallback_share: 0.25", "stream_share: 0",
       "f:19: levels[0].aggregation.stream_share:", "a number above 0, at most 1"},
      {"colocated servers with links", "servers: dedicated", "servers: colocated",
       "f:17: levels[0].aggregation.server_bandwidth:", "use their workers' links"},
      {"matrix that is not square", "    - [1, 1, 0, 10]\n", "    - [1, 1, 0]\n",
       "f:26: point_to_point.rows[2]:", "found 3 columns, expected 4"},
      {"matrix of too few rows", "    - [1, 1, 0, 10]\n", "",
       "f:23: point_to_point.rows:", "found 3 rows, expected 4"},
      {"negative matrix entry", "- [0, 10, 1, 1]", "- [0, -10, 1, 1]",
       "f:24: point_to_point.rows[0][1]:", "a bandwidth above 0"},
      {"matrix without unit", "  unit: GB/s per direction\n", "",
       "f:22: point_to_point.unit:", "is missing"},
      {"matrix with half a unit", "unit: GB/s per direction", "unit: GB/s",
       "f:22: point_to_point.unit:", "a unit and a direction"},
      {"mesh that does not match the devices", "mesh: [2, 2]", "mesh: [2, 3]",
       "f:30: measured[1].mesh:", "found 2 x 3 = 6, expected d1 x d2 = 4"},
      {"mesh twice", "mesh: [2, 2]", "mesh: [4, 1]", "f:30: measured[1].mesh:", "twice"},
      {"measured with a direction", "dimension1: 1.5 GB/s", "dimension1: 1.5 GB/s per direction",
       "f:29: measured[0].dimension1:", "no direction"},
      {"measured dimension missing", ", dimension2: 3 GB/s", "",
       "f:30: measured[1].dimension2:", "is missing"},
      {"mesh twice with one algorithm", "algorithm: innetwork\n", "\n",
       "f:31: measured[2].mesh:", "is listed twice with the same algorithm"},
      {"unknown algorithm", "algorithm: innetwork", "algorithm: tree",
       "f:32: measured[2].algorithm:", "found \"tree\""},
      {"a collective without bandwidth", "{bandwidth: 6 GB/s, latency: 7 us}", "{latency: 7 us}",
       "f:36: measured[2].dimension2.reduce_scatter.bandwidth:", "is missing"},
      {"a device without products", "{products: 300 TFLOP/s, memory: 2 TB/s}", "{memory: 2 TB/s}",
       "f:38: device.products:", "is missing"},
      {"a speed in another unit", "300 TFLOP/s", "300 TFLOPS",
       "f:38: device.products:", "the units are MFLOP/s, GFLOP/s, TFLOP/s or PFLOP/s"},
      {"anchor", "name: rack", "name: &r rack", "f:4:", "an anchor"},
      {"not YAML", "levels:", "levels: [", "f:", "not YAML"},
  };
  for (const Mistake& mistake : mistakes) {
    expect_refused(kWhole, mistake,
                   [](const std::string& text) { return parse_cluster(text, "f"); });
  }
}

constexpr const char* kTooManyServers =
    "levels:\n  - name: rack\n    count: 2\n    kind: switch\n"
    "    bandwidth: 1 GB/s per direction\n    aggregation:\n      servers: colocated\n"
    "      server_hosts: 9\n"
    "  - {name: host, count: 4, kind: switch, bandwidth: 1 GB/s per direction}";
constexpr const char* kTooManyLevels = "levels: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]";

TEST(ClusterFile, TextThatIsNotAClusterIsRefused) {
  const struct {
    const char* text;
    const char* rest;
  } rows[] = {
      {"", "f: found nothing, expected a YAML document"},
      {"just a word", "f:1: found \"just a word\", expected a map"},
      {"- a\n- b", "expected a map with the key levels or racks"},
      {kTooManyServers, "f:8: levels[0].aggregation.server_hosts: found \"9\", expected at most 8"},
      {kTooManyLevels, "f:1: levels: found 13 levels, expected at most 12"},
      {"levels: []", "levels: found a list, expected at least one level"},
      {"levels:", "f:1: levels: found nothing, expected a list of levels"},
      {"levels: [a]", "levels[0]: found \"a\", expected a level"},
      {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "nested deeper"},
      {"name: a\n---\nname: b", "a second document"},
      {"? [a]\n: b", "a key that is not a word"},
      {"levels: !!set {}", "the tag"},
      {"levels:\n  - {name: a, count: 2, kind: torus, bandwidth: 1 GB/s per direction}\n"
       "  - {name: b, count: 2, kind: ring, bandwidth: 1 GB/s per direction}",
       "f:3: levels[1]: the level above is a torus"},
  };
  for (const auto& row : rows) {
    const Result<Cluster> cluster = parse_cluster(row.text, "f");
    ASSERT_FALSE(cluster) << row.text;
    EXPECT_THAT(cluster.error().message, HasSubstr(row.rest)) << row.text;
  }
}

TEST(ClusterFile, ServersOnEveryDeviceOrOnDedicatedHostsAreAccepted) {
  std::string text = kTooManyServers;
  text.replace(text.find("hosts: 9"), 8, "hosts: 8");
  EXPECT_TRUE(parse_cluster(text, "f"));
  text = kTooManyServers;
  text.replace(text.find("colocated"), 9, "dedicated");
  EXPECT_TRUE(parse_cluster(text, "f"));
}

TEST(ClusterFile, HasAtMostEightMebibytes) {
  std::string text =
      "levels: [{name: a, count: 2, kind: pairs, bandwidth: 1 GB/s per direction}]\n#";
  text.resize(std::size_t{8} << 20, ' ');
  EXPECT_TRUE(parse_cluster(text, "f"));
  text += ' ';
  const Result<Cluster> cluster = parse_cluster(text, "f");
  ASSERT_FALSE(cluster);
  EXPECT_EQ(cluster.error().message, "f: found 8388609 bytes, expected at most 8 MiB");
}

TEST(ClusterFile, AnEndlessFileIsNotReadCompletely) {
  const Result<Cluster> cluster = read_cluster("/dev/zero");
  ASSERT_FALSE(cluster);
  EXPECT_THAT(cluster.error().message, StartsWith("/dev/zero: found more than 8 MiB"));
}

TEST(ClusterFile, AMissingFileIsNamed) {
  const Result<Cluster> cluster = read_cluster("/nowhere/cluster.yaml");
  ASSERT_FALSE(cluster);
  EXPECT_EQ(cluster.error().message,
            "/nowhere/cluster.yaml: cannot be read: No such file or directory");
}

}  // namespace
}  // namespace atp
