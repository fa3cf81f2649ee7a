#include "atp/config/interconnect/merged_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "atp/config/interconnect/nvidia_topology.h"

namespace atp {
namespace {

using planner::Level;
using planner::LevelKind;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// A machine in which every two GPUs are joined by the same path.
std::string uniform(int gpus, const std::string& path) {
  std::string text;
  for (int gpu = 0; gpu < gpus; ++gpu) text += " GPU" + std::to_string(gpu);
  for (int row = 0; row < gpus; ++row) {
    text += "\nGPU" + std::to_string(row);
    for (int column = 0; column < gpus; ++column) text += row == column ? " X" : " " + path;
  }
  return text.substr(1) + "\n";
}

constexpr const char* kPairs =
    "GPU0 GPU1 GPU2 GPU3\nGPU0 X SYS NV4 SYS\nGPU1 SYS X SYS NV4\nGPU2 NV4 SYS X SYS\n"
    "GPU3 SYS NV4 SYS X\n";
constexpr const char* kIrregular =
    "GPU0 GPU1 GPU2\nGPU0 X NV1 NV2\nGPU1 NV1 X NV1\nGPU2 NV2 NV1 X\n";

ImportedHost host(const std::string& name, const std::string& text, double network = 0) {
  const std::string file = name + ".txt";
  ImportedHost host{
      .name = name, .file = file, .machine = import_nvidia_topology(text, file).value()};
  host.machine.network = network;
  return host;
}

Imported merge(const std::vector<ImportedHost>& hosts, double bandwidth = 0) {
  const Result<Imported> imported = merged_hosts(hosts, bandwidth);
  if (imported) return imported.value();
  ADD_FAILURE() << imported.error().message;
  return {};
}

TEST(MergedHosts, EqualHostsAreTheChildrenOfOneSwitch) {
  const std::string text = uniform(4, "NV12");
  const Imported imported = merge({host("b", text), host("a", text), host("c", text)}, 5e9);
  const std::vector<Level>& levels = imported.interconnect.levels;
  ASSERT_THAT(levels, SizeIs(2));
  EXPECT_EQ(levels[0].name, "host");
  EXPECT_EQ(levels[0].count, 3u);
  EXPECT_EQ(levels[0].kind, LevelKind::kSwitch);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 5e9);
  EXPECT_EQ(levels[1].count, 4u);
  EXPECT_THAT(imported.remarks, Contains("The hosts in the planner's order: b,a,c."));
}

TEST(MergedHosts, TheResultIsAClusterFile) {
  for (const std::string& text :
       {uniform(4, "NV12"), std::string(kPairs), std::string(kIrregular), uniform(1, "")}) {
    const Imported imported = merge({host("a", text), host("b", text)});
    const Result<Cluster> cluster =
        parse_cluster(cluster_text(imported.interconnect, imported.remarks), "written");
    ASSERT_TRUE(cluster) << cluster.error().message;
    EXPECT_EQ(cluster.value().interconnect, imported.interconnect);
  }
}

TEST(MergedHosts, AHostsLinkIsThatOfItsCardsAndTheSlowestHostCounts) {
  const std::string text = uniform(2, "PIX");
  const Imported imported = merge({host("a", text, 50e9), host("b", text, 25e9)});
  EXPECT_DOUBLE_EQ(imported.interconnect.levels[0].bandwidth.value, 25e9);
  EXPECT_THAT(imported.remarks,
              Contains("The links of hosts differ, from 25 GB/s per direction (b) to 50 GB/s per "
                       "direction (a): the slowest counts."));
  EXPECT_THAT(imported.remarks, Not(Contains(HasSubstr("typical. Replace it"))));
  const Imported unknown = merge({host("a", text, 50e9), host("b", text)});
  EXPECT_DOUBLE_EQ(unknown.interconnect.levels[0].bandwidth.value, 12.5e9);
  EXPECT_THAT(unknown.remarks, Contains(HasSubstr("100 Gbit/s is typical")));
}

TEST(MergedHosts, TheSlowerHostsLinksCountInALevel) {
  const Imported imported = merge({host("a", uniform(2, "NV4")), host("b", uniform(2, "NV2"))});
  EXPECT_DOUBLE_EQ(imported.interconnect.levels[1].bandwidth.value, 50e9);
  EXPECT_THAT(imported.remarks, Contains(HasSubstr("The links of level gpu differ")));
}

TEST(MergedHosts, HostsWithOneGpuHaveNoLevelBelow) {
  const Imported imported = merge({host("a", uniform(1, "")), host("b", uniform(1, ""))});
  EXPECT_THAT(imported.interconnect.levels, SizeIs(1));
}

TEST(MergedHosts, PairsOfDifferentHostsHaveTheHostsLink) {
  const Imported imported = merge({host("a", kIrregular), host("b", kIrregular)}, 5e9);
  ASSERT_TRUE(imported.interconnect.point_to_point);
  const planner::PointToPointMatrix& pairs = *imported.interconnect.point_to_point;
  EXPECT_EQ(pairs.size, 6u);
  EXPECT_DOUBLE_EQ(pairs.at(3, 5).value, 50e9);
  EXPECT_DOUBLE_EQ(pairs.at(2, 3).value, 5e9);
}

TEST(MergedHosts, TheOrderOfEachHostsGpusIsReported) {
  const Imported imported = merge({host("a", kPairs), host("b", kPairs)});
  EXPECT_THAT(imported.remarks, Contains(HasSubstr("CUDA_VISIBLE_DEVICES=0,2,1,3 on a.")));
  EXPECT_THAT(imported.remarks, Contains(HasSubstr("CUDA_VISIBLE_DEVICES=0,2,1,3 on b.")));
}

TEST(MergedHosts, HostsThatCannotBeMergedAreNamed) {
  const std::string four = uniform(4, "NV12");
  ImportedHost again = host("a", four);
  again.file = "other/a.txt";
  ImportedHost unnamed = host("b", four);
  unnamed.name = "";
  ImportedHost strange = unnamed;
  strange.name = "b\x1b[31m";
  const struct {
    const char* name;
    ImportedHost second;
    const char* error;
  } rows[] = {
      {"a host twice", again,
       "other/a.txt: the host \"a\" occurs twice, also in a.txt; remove one, or name the hosts "
       "with --name HOST=FILE"},
      {"no name", unnamed, "b.txt: found the host name \"\", expected a name"},
      {"an escape sequence", strange, "b.txt: found the host name \"b [31m\""},
      {"fewer GPUs", host("b", uniform(2, "NV12")),
       "b.txt: found 2 GPUs, expected 4 GPUs, like a.txt; the planner needs equal hosts"},
      {"other links", host("b", kPairs),
       "b.txt: found 2 x NVLink group (switch), 2 x gpu (pairs), expected 4 x gpu (switch), like "
       "a.txt"},
  };
  for (const auto& row : rows) {
    const Result<Imported> imported = merged_hosts({host("a", four), row.second});
    ASSERT_FALSE(imported) << row.name;
    EXPECT_THAT(imported.error().message, HasSubstr(row.error)) << row.name;
  }
}

TEST(MergedHosts, AMatrixThatNoFileCouldHoldIsRefused) {
  const ImportedHost one = host("a", kIrregular);
  std::vector<ImportedHost> hosts;
  for (int i = 0; i < 342; ++i) {
    hosts.push_back(one);
    hosts.back().name += std::to_string(i);
  }
  const Result<Imported> imported = merged_hosts(hosts);
  ASSERT_FALSE(imported);
  EXPECT_THAT(imported.error().message, HasSubstr("found 1026 GPUs whose pairs"));
}

}  // namespace
}  // namespace atp
