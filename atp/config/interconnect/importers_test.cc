#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "atp/config/interconnect/astra_network.h"
#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/interconnect/merged_hosts.h"
#include "atp/config/interconnect/nvidia_topology.h"

namespace atp {
namespace {

using planner::Level;
using planner::LevelKind;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kSwitched =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \tNV12\tNV12\tNV12\tPXB\t48-63\t3\n"
    "GPU1\tNV12\t X \tNV12\tNV12\tPXB\t48-63\t3\n"
    "GPU2\tNV12\tNV12\t X \tNV12\tSYS\t16-31\t1\n"
    "GPU3\tNV12\tNV12\tNV12\t X \tSYS\t16-31\t1\n"
    "NIC0\tPXB\tPXB\tSYS\tSYS\t X \n\nLegend:\n\n  X    = Self\n";

// Two sockets, each with two bridged GPUs whose numbers are not adjacent.
constexpr const char* kPairs = R"(
        GPU0    GPU1    GPU2    GPU3    CPU Affinity
GPU0     X      SYS     NV4     SYS     0-15
GPU1    SYS      X      SYS     NV4     16-31
GPU2    NV4     SYS      X      SYS     0-15
GPU3    SYS     NV4     SYS      X      16-31
)";

constexpr const char* kPcie = R"(
     GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7
GPU0  X   PIX  PHB  PHB  SYS  SYS  SYS  SYS
GPU1 PIX   X   PHB  PHB  SYS  SYS  SYS  SYS
GPU2 PHB  PHB   X   PIX  SYS  SYS  SYS  SYS
GPU3 PHB  PHB  PIX   X   SYS  SYS  SYS  SYS
GPU4 SYS  SYS  SYS  SYS   X   PIX  PHB  PHB
GPU5 SYS  SYS  SYS  SYS  PIX   X   PHB  PHB
GPU6 SYS  SYS  SYS  SYS  PHB  PHB   X   PIX
GPU7 SYS  SYS  SYS  SYS  PHB  PHB  PIX   X
)";

// A corner of a DGX-1's cube: some pairs of GPUs have no NVLink.
constexpr const char* kCube = R"(
     GPU0 GPU1 GPU2 GPU3
GPU0  X   NV1  NV2  SYS
GPU1 NV1   X   SYS  NV2
GPU2 NV2  SYS   X   NV1
GPU3 SYS  NV2  NV1   X
)";

Result<Imported> import_nvidia(std::string_view text, const std::string& file,
                               const GpuLinkBandwidths& bandwidths = {}) {
  const Result<ImportedMachine> machine = import_nvidia_topology(text, file, bandwidths);
  if (!machine) return machine.error();
  return imported_machine({.name = "", .file = file, .machine = machine.value()});
}

std::vector<Level> levels_of(const char* text) {
  const Result<Imported> imported = import_nvidia(text, "topo.txt");
  if (!imported) {
    ADD_FAILURE() << imported.error().message;
    return {};
  }
  return imported.value().interconnect.levels;
}

TEST(NvidiaTopology, MoreNvLinksThanAGpuHasAreASwitch) {
  const std::vector<Level> levels = levels_of(kSwitched);
  ASSERT_EQ(levels.size(), 1u);
  EXPECT_EQ(levels[0].count, 4u);
  EXPECT_EQ(levels[0].kind, LevelKind::kSwitch);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 300e9);
}

TEST(NvidiaTopology, PairsAreOrderedAsTheyAreConnected) {
  const Result<Imported> imported = import_nvidia(kPairs, "topo.txt");
  ASSERT_TRUE(imported) << imported.error().message;
  const std::vector<Level>& levels = imported.value().interconnect.levels;
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].kind, LevelKind::kSwitch);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 2 * 20e9);  // each GPU of a pair has a slot
  EXPECT_EQ(levels[1].kind, LevelKind::kPairs);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.value, 100e9);
  EXPECT_THAT(imported.value().remarks, Contains(HasSubstr("CUDA_VISIBLE_DEVICES=0,2,1,3")));
}

TEST(NvidiaTopology, PcieClassesBecomeLevels) {
  const std::vector<Level> levels = levels_of(kPcie);
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0].name, "host bridge");
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 20e9);
  EXPECT_EQ(levels[1].name, "PCIe switch");
  EXPECT_EQ(levels[2].name, "gpu");
  for (const Level& level : levels) EXPECT_EQ(level.count, 2u);
}

TEST(NvidiaTopology, AnIrregularMachineIsDescribedPairByPair) {
  const Result<Imported> imported = import_nvidia(kCube, "topo.txt");
  ASSERT_TRUE(imported) << imported.error().message;
  ASSERT_TRUE(imported.value().interconnect.point_to_point);
  const planner::PointToPointMatrix& pairs = *imported.value().interconnect.point_to_point;
  EXPECT_DOUBLE_EQ(pairs.at(0, 2).value, 50e9);
  EXPECT_DOUBLE_EQ(pairs.at(0, 3).value, 20e9);
}

TEST(NvidiaTopology, DirectLinksAreAsFastAsTheFastest) {
  const auto interconnect = import_nvidia(kCube, "topo.txt").value().interconnect;
  EXPECT_EQ(interconnect.levels[0].kind, LevelKind::kFull);
  EXPECT_DOUBLE_EQ(interconnect.levels[0].bandwidth.value, 50e9)
      << "the matrix has the slower pairs";
}

// Each pair of three GPUs has one or two NVLinks.
TEST(NvidiaTopology, UnequalNvLinksAreDescribedPairByPair) {
  const auto imported =
      import_nvidia("GPU0 GPU1 GPU2\nGPU0 X NV1 NV2\nGPU1 NV1 X NV1\nGPU2 NV2 NV1 X\n", "topo.txt");
  ASSERT_TRUE(imported) << imported.error().message;
  ASSERT_TRUE(imported.value().interconnect.point_to_point);
  EXPECT_DOUBLE_EQ(imported.value().interconnect.point_to_point->at(0, 1).value, 25e9);
  EXPECT_DOUBLE_EQ(imported.value().interconnect.point_to_point->at(0, 2).value, 50e9);
}

// One GPU on one socket, two on the other, on PCIe alone.
TEST(NvidiaTopology, UnequalSocketsAreASwitchBecauseAGpuHasOneSlot) {
  const auto imported = import_nvidia(
      "GPU0 GPU1 GPU2\nGPU0 X SYS SYS\nGPU1 SYS X NODE\nGPU2 SYS NODE X\n", "topo.txt");
  ASSERT_TRUE(imported) << imported.error().message;
  const planner::Interconnect& interconnect = imported.value().interconnect;
  ASSERT_EQ(interconnect.levels.size(), 1u);
  EXPECT_EQ(interconnect.levels[0].kind, LevelKind::kSwitch);
  EXPECT_DOUBLE_EQ(interconnect.levels[0].bandwidth.value, 32e9);
  EXPECT_DOUBLE_EQ(interconnect.point_to_point->at(0, 1).value, 20e9);
  EXPECT_THAT(imported.value().remarks,
              Contains(HasSubstr("between sockets share are not modelled")));
}

TEST(NvidiaTopology, EveryLevelHasADifferentName) {
  const Result<Imported> imported = import_nvidia(R"(
     GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7
GPU0  X   PIX  PXB  PXB  PHB  PHB  PHB  PHB
GPU1 PIX   X   PXB  PXB  PHB  PHB  PHB  PHB
GPU2 PXB  PXB   X   PIX  PHB  PHB  PHB  PHB
GPU3 PXB  PXB  PIX   X   PHB  PHB  PHB  PHB
GPU4 PHB  PHB  PHB  PHB   X   PIX  PXB  PXB
GPU5 PHB  PHB  PHB  PHB  PIX   X   PXB  PXB
GPU6 PHB  PHB  PHB  PHB  PXB  PXB   X   PIX
GPU7 PHB  PHB  PHB  PHB  PXB  PXB  PIX   X
)",
                                                  "topo.txt");
  ASSERT_TRUE(imported) << imported.error().message;
  const std::string text = cluster_text(imported.value().interconnect, {});
  const Result<Cluster> cluster = parse_cluster(text, "written");
  EXPECT_TRUE(cluster) << cluster.error().message;
}

TEST(NvidiaTopology, TheUsersBandwidthsCount) {
  GpuLinkBandwidths bandwidths;
  bandwidths.bytes_per_second[static_cast<std::size_t>(GpuLink::kNvLink)] = 50e9;
  const Result<Imported> imported = import_nvidia(kSwitched, "topo.txt", bandwidths);
  ASSERT_TRUE(imported);
  EXPECT_DOUBLE_EQ(imported.value().interconnect.levels[0].bandwidth.value, 600e9);
}

TEST(NvidiaTopology, BrokenTextIsNamed) {
  const struct {
    std::string text;
    const char* rest;
  } rows[] = {
      {"", "the output of nvidia-smi topo -m"},
      {"GPU0\nGPU0 X\n", "t: found 1 GPU, expected two or more"},
      {"GPU0 GPU1\nGPU0 X PIX\n", "t:1: found 1 rows of GPUs, expected 2"},
      {"GPU0 GPU1\nGPU0 X FOO\nGPU1 PIX X\n", "t:2: GPU0, GPU1: found \"FOO\""},
      {"GPU0 GPU1\nGPU0 X PIX\nGPU1 SYS X\n",
       "t:3: GPU1, GPU0: the two halves of the matrix differ"},
      {"GPU0 GPU1\nGPU0 X\nGPU1 PIX X\n", "t:2: GPU0, GPU1: found \"\""},
      {"GPU0 GPU1\nGPU0 PIX PIX\nGPU1 PIX X\n", "X on the diagonal"},
  };
  for (const auto& row : rows) {
    const Result<Imported> imported = import_nvidia(row.text, "t");
    ASSERT_FALSE(imported) << row.text;
    EXPECT_THAT(imported.error().message, HasSubstr(row.rest));
  }
}

TEST(AstraNetwork, DimensionsComeInnermostFirst) {
  const Result<Imported> imported = import_astra_network(
      "topology: [Ring, FullyConnected, Switch]  # comment\nnpus_count: [2, 8, 4]\n"
      "bandwidth: [200.0, 100.0, 50.0]\nlatency: [50.0, 500.0, 2000.0]\n",
      "net.yml");
  ASSERT_TRUE(imported) << imported.error().message;
  const std::vector<Level>& levels = imported.value().interconnect.levels;
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0].kind, LevelKind::kSwitch);
  EXPECT_EQ(levels[0].count, 4u);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 50 * 0x1p30 * 16);
  EXPECT_DOUBLE_EQ(levels[0].latency_s, 2e-6);
  EXPECT_EQ(levels[1].kind, LevelKind::kFull);
  EXPECT_EQ(levels[2].kind, LevelKind::kRing);
  EXPECT_DOUBLE_EQ(levels[2].bandwidth.value, 200 * 0x1p30);
}

TEST(AstraNetwork, RingsOfRingsBecomeATorus) {
  const Result<Imported> imported = import_astra_network(
      "topology: [Ring, Ring]\nnpus_count: [4, 4]\nbandwidth: [25, 25]\nlatency: [0, 0]\n", "n");
  ASSERT_TRUE(imported) << imported.error().message;
  for (const Level& level : imported.value().interconnect.levels) {
    EXPECT_EQ(level.kind, LevelKind::kTorus);
    EXPECT_DOUBLE_EQ(level.bandwidth.value, 25 * 0x1p30);
  }
}

TEST(AstraNetwork, ItsOutputIsAClusterFile) {
  const Result<Imported> imported = import_astra_network(
      "topology: [Ring, Switch]\nnpus_count: [4, 2]\nbandwidth: [25, 10]\nlatency: [100, 0]\n",
      "n");
  ASSERT_TRUE(imported);
  const Result<Cluster> cluster = parse_cluster(
      cluster_text(imported.value().interconnect, imported.value().remarks), "written");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster.value().interconnect, imported.value().interconnect);
}

TEST(AstraNetwork, ErrorsNameTheirPlace) {
  const struct {
    const char* text;
    const char* rest;
  } rows[] = {
      {"topology: [Ring]\nnpus_count: [4, 2]\nbandwidth: [1]\nlatency: [0]\n",
       "n:2: npus_count: found 2 entries, expected 1"},
      {"topology: [Rings]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [0]\n",
       "n:1: topology[0]: found \"Rings\""},
      {"topology: [Ring]\nnpus_count: [4]\nbandwidth: [-1]\nlatency: [0]\n",
       "n:3: bandwidth[0]: found \"-1\""},
      {"topology: [Ring]\nnpus_count: [4]\nbandwith: [1]\nlatency: [0]\n",
       "did you mean bandwidth"},
      {"topology: [Ring]\nbandwidth: [1]\nlatency: [0]\n", "npus_count: is missing"},
  };
  for (const auto& row : rows) {
    const Result<Imported> imported = import_astra_network(row.text, "n");
    ASSERT_FALSE(imported) << row.text;
    EXPECT_THAT(imported.error().message, HasSubstr(row.rest));
  }
}

}  // namespace
}  // namespace atp
