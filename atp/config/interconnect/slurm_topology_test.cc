#include "atp/config/interconnect/slurm_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/config/interconnect/interconnect_file.h"

namespace atp {
namespace {

using planner::Level;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kTwoTiers = R"(# two leaves of four
SwitchName=leaf0 Nodes=tux[0-2],other
switchname=leaf1 nodes=tux[08-11] LinkSpeed=100
SwitchName=spine \
  Switches=leaf[0-1]
)";

Imported imported(const char* text, const SlurmBandwidths& bandwidths = {}) {
  const Result<Imported> found = import_slurm_topology(text, "t", bandwidths);
  if (found) return found.value();
  ADD_FAILURE() << found.error().message;
  return {};
}

TEST(SlurmTopology, ATreeOfSwitchesBecomesLevels) {
  const Imported found = imported(kTwoTiers);
  const std::vector<Level>& levels = found.interconnect.levels;
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].name, "leaf switch");
  EXPECT_EQ(levels[0].count, 2u);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 4 * 12.5e9);
  EXPECT_EQ(levels[1].name, "node");
  EXPECT_EQ(levels[1].count, 4u);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.value, 12.5e9);
  EXPECT_THAT(found.remarks, Contains(HasSubstr("tux0,tux1,tux2,other,tux08,tux09,tux10,tux11.")));
}

TEST(SlurmTopology, AGivenUplinkCountsPerLeafSwitchBelow) {
  const std::vector<Level> levels =
      imported(
          "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\nSwitchName=c Nodes=n[4-5]\n"
          "SwitchName=d Nodes=n[6-7]\nSwitchName=x Switches=a,b\nSwitchName=y Switches=c,d\n"
          "SwitchName=top Switches=x,y\n",
          {.node = 1e9, .uplink = 5e8})
          .interconnect.levels;
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0].name, "switch of tier 2");
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 1e9);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.value, 5e8);
  EXPECT_DOUBLE_EQ(levels[2].bandwidth.value, 1e9);
}

TEST(SlurmTopology, SaysWhichBandwidthsWereGiven) {
  const auto remark = [](const SlurmBandwidths& given) {
    return imported(kTwoTiers, given).remarks[1];
  };
  EXPECT_THAT(remark({}), HasSubstr("the nodes' bandwidth is typical, and"));
  EXPECT_THAT(remark({.node = 1e9}), HasSubstr("the nodes' bandwidth was given; a switch's"));
  EXPECT_THAT(remark({.uplink = 1e9}), HasSubstr("was given; the nodes' bandwidth is typical"));
  EXPECT_THAT(remark({.node = 1e9, .uplink = 1e9}), HasSubstr("were given."));
  EXPECT_THAT(imported("SwitchName=a Nodes=n[0-3]\n", {.node = 1e9}).remarks[1],
              HasSubstr("were given."));
}

TEST(SlurmTopology, ASwitchAboveOneSwitchIsNotALevel) {
  const Imported found = imported("SwitchName=a Nodes=n[0-3]\nSwitchName=top Switches=a\n");
  ASSERT_EQ(found.interconnect.levels.size(), 1u);
  EXPECT_EQ(found.interconnect.levels[0].count, 4u);
}

TEST(SlurmTopology, SeveralBracketsAreCombined) {
  const Imported found = imported("SwitchName=a Nodes=r[0-1]n[1,3]\n");
  EXPECT_THAT(found.remarks, Contains(HasSubstr("r0n1,r0n3,r1n1,r1n3.")));
}

TEST(SlurmTopology, ItsOutputIsAClusterFile) {
  const Imported found = imported(kTwoTiers);
  const Result<Cluster> again =
      parse_cluster(cluster_text(found.interconnect, found.remarks), "written");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again.value().interconnect, found.interconnect);
}

TEST(SlurmTopology, ErrorsNameTheirPlace) {
  const struct {
    const char* text;
    const char* rest;
  } rows[] = {
      {"", "t: found no switch"},
      {"SwitchName=a\n", "t:1: found neither Nodes nor Switches"},
      {"SwitchName=a Nodes=n0 Switches=b\n", "found both Nodes and Switches"},
      {"Nodes=n[0-1]\n", "found no SwitchName"},
      {"SwitchName=a Nodes=n[0-\n", "t:1: Nodes: found"},
      {"SwitchName=a Nodes=n[3-1]\n", "expected an ascending range"},
      {"SwitchName=a Nodes=n[0-999999]\n", "of at most 65536 numbers"},
      {"SwitchName=a Nodes=n[0-999]m[0-999]\n", "at most 65536 names"},
      {"SwitchName=a Nodes=n0,,n1\n", "t:1: Nodes: found \"\""},
      {"SwitchName=a Node=n0\n", "did you mean Nodes?"},
      {"SwitchName=a Nodes\n", "expected KEY=VALUE"},
      {"SwitchName=a Nodes=n0\nSwitchName=a Nodes=n1\n", "t:2: duplicate switch \"a\""},
      {"SwitchName=a Nodes=n0\nSwitchName=b Nodes=n0\n", "already belongs to the switch \"a\""},
      {"SwitchName=a Switches=b\n", "t:1: found the switch \"b\""},
      {"SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n", "no switch above both"},
      {"SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "switches in a cycle"},
      {"SwitchName=t Nodes=n[0-1]\nSwitchName=a Switches=b\nSwitchName=b Switches=a\n",
       "switches in a cycle"},
      {"SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n2\nSwitchName=t Switches=a,b\n",
       "t:2: found 1 node, expected 2 nodes, like the switch on line 1"},
      {"SwitchName=a Nodes=n0\n", "one node"},
  };
  for (const auto& row : rows) {
    const Result<Imported> found = import_slurm_topology(row.text, "t");
    ASSERT_FALSE(found) << row.text;
    EXPECT_THAT(found.error().message, HasSubstr(row.rest));
  }
}

}  // namespace
}  // namespace atp
