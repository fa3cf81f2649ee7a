#include "atp/config/xml/nccl_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "atp/config/text/testing_mistakes.h"

namespace atp {
namespace {

using planner::Level;
using planner::LevelKind;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double kGen3Lane = 8e9 / 8 * 128 / 130;
constexpr double kGen4Lane = 2 * kGen3Lane;

std::string bus(int number) { return "0000:" + std::to_string(10 + number) + ":00.0"; }

std::string pci(const std::string& bus, const std::string& type, const std::string& speed,
                int width, const std::string& inside) {
  return "<pci busid=\"" + bus + "\" class=\"" + type + "\" link_speed=\"" + speed +
         "\" link_width=\"" + std::to_string(width) + "\">\n" + inside + "</pci>\n";
}

std::string bridge(int number, const std::string& inside, int width = 16) {
  return pci("0000:" + std::to_string(80 + number) + ":00.0", "0x060400", "16.0 GT/s PCIe", width,
             inside);
}

std::string gpu(int number, const std::string& links = "", int width = 16, int sm = 80) {
  const std::string text = std::to_string(number);
  return pci(bus(number), "0x030200", "16.0 GT/s PCIe", width,
             "<gpu dev=\"" + text + "\" sm=\"" + std::to_string(sm) + "\" rank=\"" + text +
                 "\" gdr=\"1\">\n" + links + "</gpu>\n");
}

std::string nvlink(int target, int count) {
  return "<nvlink target=\"" + bus(target) + "\" count=\"" + std::to_string(count) +
         "\" tclass=\"0x030200\"/>\n";
}

std::string to_switch(const char* target, int count) {
  return "<nvlink target=\"" + std::string(target) + "\" count=\"" + std::to_string(count) +
         "\" tclass=\"0x068000\"/>\n";
}

std::string nic(const char* name, const char* speed) {
  return "<nic>\n<net name=\"" + std::string(name) + "\" dev=\"0\" speed=\"" + speed +
         "\" port=\"1\"/>\n</nic>\n";
}

std::string cpu(int numa, const std::string& inside) {
  return "<cpu host_hash=\"0x1\" numaid=\"" + std::to_string(numa) + "\" arch=\"x86_64\">\n" +
         inside + "</cpu>\n";
}

std::string system(const std::string& inside) {
  return "<system version=\"1\">\n" + inside + "</system>\n";
}

ImportedMachine machine(const std::string& text, const NcclBandwidths& bandwidths = {}) {
  const Result<ImportedMachine> imported = import_nccl_topology(text, "topo.xml", bandwidths);
  if (imported) return imported.value();
  ADD_FAILURE() << imported.error().message;
  return {};
}

// Two sockets, each with two PCIe switches of two GPUs; the switches' uplinks have eight lanes.
std::string sockets() {
  std::string text;
  for (int socket = 0; socket < 2; ++socket) {
    std::string inside;
    for (int side = 0; side < 2; ++side) {
      const int first = 4 * socket + 2 * side;
      inside += bridge(first, gpu(first) + gpu(first + 1), 8);
    }
    text += cpu(socket, inside);
  }
  return system(text);
}

TEST(NcclTopology, ThePcieTreeBecomesLevelsWithTheSpeedsOfItsLinks) {
  const ImportedMachine imported = machine(sockets());
  const std::vector<Level>& levels = imported.interconnect.levels;
  ASSERT_THAT(levels, SizeIs(3));
  for (const Level& level : levels) {
    EXPECT_EQ(level.count, 2u);
    EXPECT_EQ(level.kind, LevelKind::kSwitch);
  }
  EXPECT_EQ(levels[0].name, "host bridge");
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 20e9);
  EXPECT_EQ(levels[1].name, "PCIe switch");
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.value, 8 * kGen4Lane);
  EXPECT_EQ(levels[2].name, "gpu");
  EXPECT_DOUBLE_EQ(levels[2].bandwidth.value, 16 * kGen4Lane);
  EXPECT_THAT(imported.remarks, Contains(HasSubstr("20 GB/s is typical")));
  EXPECT_EQ(imported.gpus, 8u);
}

TEST(NcclTopology, GivenBandwidthsReplaceTheFiles) {
  const ImportedMachine imported = machine(sockets(), {.pcie = 5e9, .sys = 7e9});
  const std::vector<Level>& levels = imported.interconnect.levels;
  ASSERT_THAT(levels, SizeIs(3));
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 7e9);
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.value, 5e9);
  EXPECT_DOUBLE_EQ(levels[2].bandwidth.value, 5e9);
  EXPECT_THAT(imported.remarks, testing::Not(Contains(HasSubstr("typical"))));
}

// The second socket's links to its GPUs are slower.
TEST(NcclTopology, TheSlowestLinkOfALevelCounts) {
  const ImportedMachine imported =
      machine(system(cpu(0, gpu(0) + gpu(1)) + cpu(1, gpu(2) + gpu(3, "", 4))));
  const std::vector<Level>& levels = imported.interconnect.levels;
  ASSERT_THAT(levels, SizeIs(2));
  EXPECT_DOUBLE_EQ(levels[1].bandwidth.value, 4 * kGen4Lane);
}

// One GPU per socket, so that its slot is part of the way to the other.
TEST(NcclTopology, ASlotNarrowerThanTheSocketsLinkCounts) {
  const ImportedMachine imported =
      machine(system(cpu(0, bridge(0, gpu(0), 4)) + cpu(1, bridge(1, gpu(1), 4))));
  const std::vector<Level>& levels = imported.interconnect.levels;
  ASSERT_THAT(levels, SizeIs(1));
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 4 * kGen4Lane);
}

TEST(NcclTopology, NvLinksToSwitchesAddUp) {
  std::string gpus;
  for (int number = 0; number < 4; ++number) {
    gpus += gpu(number, to_switch("0000:05:00.0", 5) + to_switch("0000:06:00.0", 4), 16, 90);
  }
  const ImportedMachine imported = machine(system(cpu(0, gpus)));
  const std::vector<Level>& levels = imported.interconnect.levels;
  ASSERT_THAT(levels, SizeIs(1));
  EXPECT_EQ(levels[0].kind, LevelKind::kSwitch);
  EXPECT_EQ(levels[0].count, 4u);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 9 * 25e9);
}

// So few links that they could also be direct.
TEST(NcclTopology, ThreeGpusAtAnNvSwitchAreNotConnectedDirectly) {
  std::string gpus;
  for (int number = 0; number < 3; ++number) gpus += gpu(number, to_switch("fffffff:ffff:ff", 6));
  const std::vector<Level> levels = machine(system(cpu(0, gpus))).interconnect.levels;
  ASSERT_THAT(levels, SizeIs(1));
  EXPECT_EQ(levels[0].kind, LevelKind::kSwitch);
}

TEST(NcclTopology, AnNvLinksBandwidthIsThatOfItsGeneration) {
  const struct {
    int sm;
    double bandwidth;
  } rows[] = {{60, 20e9}, {70, 25e9}, {80, 25e9}, {86, 14.0625e9}, {90, 25e9}, {100, 50e9}};
  for (const auto& row : rows) {
    const std::string text =
        system(cpu(0, gpu(0, nvlink(1, 4), 16, row.sm) + gpu(1, nvlink(0, 4), 16, row.sm)));
    const std::vector<Level> levels = machine(text).interconnect.levels;
    ASSERT_THAT(levels, SizeIs(1)) << row.sm;
    EXPECT_EQ(levels[0].kind, LevelKind::kPairs);
    EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 4 * row.bandwidth) << row.sm;
    EXPECT_DOUBLE_EQ(machine(text, {.nvlink = 1e9}).interconnect.levels[0].bandwidth.value, 4e9);
  }
}

// Pairs joined by NVLink across two PCIe switches share the switches' uplinks.
TEST(NcclTopology, ASharedUplinkCountsInProportion) {
  const ImportedMachine imported =
      machine(system(cpu(0, bridge(0, gpu(0, nvlink(2, 4)) + gpu(1, nvlink(3, 4)), 8) +
                                bridge(1, gpu(2, nvlink(0, 4)) + gpu(3, nvlink(1, 4)), 8))));
  const std::vector<Level>& levels = imported.interconnect.levels;
  ASSERT_THAT(levels, SizeIs(2));
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 2 * 4 * kGen4Lane) << "half of each uplink";
  EXPECT_EQ(levels[1].kind, LevelKind::kPairs);
  EXPECT_EQ(imported.order, "0,2,1,3");
}

TEST(NcclTopology, AnIrregularMachineIsDescribedPairByPair) {
  const ImportedMachine imported =
      machine(system(cpu(0, bridge(0, gpu(0) + gpu(1, "", 8)) + gpu(2, "", 4))));
  ASSERT_TRUE(imported.interconnect.point_to_point);
  EXPECT_DOUBLE_EQ(imported.interconnect.point_to_point->at(0, 1).value, 8 * kGen4Lane);
  EXPECT_DOUBLE_EQ(imported.interconnect.point_to_point->at(0, 2).value, 4 * kGen4Lane);
}

TEST(NcclTopology, GpusAreInTheOrderOfTheirNumbers) {
  const ImportedMachine imported =
      machine(system(cpu(1, bridge(0, gpu(6) + gpu(4))) + cpu(0, bridge(1, gpu(5) + gpu(7)))));
  ASSERT_THAT(imported.interconnect.levels, SizeIs(2));
  EXPECT_EQ(imported.order, "4,6,5,7");
}

TEST(NcclTopology, NetworkCardsAddUpUnlessOneHasNoSpeed) {
  const std::string gpus = gpu(0) + gpu(1);
  const std::string card =
      pci("0000:70:00.0", "0x020700", "16.0 GT/s PCIe", 16, nic("a", "200000"));
  EXPECT_DOUBLE_EQ(machine(system(cpu(0, gpus + card + nic("b", "100000")))).network, 37.5e9);
  EXPECT_DOUBLE_EQ(machine(system(cpu(0, gpus + card + nic("b", "-1")))).network, 0);
  EXPECT_DOUBLE_EQ(machine(system(cpu(0, gpus))).network, 0);
}

TEST(NcclTopology, AssumptionsAndOmissionsAreReported) {
  const std::string unknown =
      pci(bus(0), "0x030200", "Unknown", 255, "<gpu dev=\"0\" sm=\"80\" rank=\"0\"/>\n");
  const struct {
    std::string text;
    const char* remark;
  } rows[] = {
      {cpu(0, unknown + gpu(1)), "lacks the speed of some PCIe links"},
      {cpu(0, gpu(0, nvlink(9, 4)) + gpu(1)), "NVLinks to GPUs that are not in the file"},
      {cpu(0, gpu(0, "<c2c bw=\"400000\" count=\"1\"/>\n") + gpu(1)), "c2c"},
      {cpu(0, bridge(0, gpu(0) + gpu(1) + "<pcilink target=\"0000:81:00.0\"/>\n")), "pcilink"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(machine(system(row.text)).remarks, Contains(HasSubstr(row.remark))) << row.text;
  }
  EXPECT_THAT(machine(system(cpu(0, gpu(0) + gpu(1)))).remarks, IsEmpty());
}

TEST(NcclTopology, EveryMistakeIsNamedByLineAndKey) {
  const std::string text =
      system(cpu(0, gpu(0, nvlink(1, 4)) + gpu(1, nvlink(0, 4)) + nic("a", "200000")) + cpu(1, ""));
  const Mistake mistakes[] = {
      {"another element", "<system version=\"1\">", "<graphs version=\"1\">",
       "t:19: not XML (Start-end tags mismatch)", ""},
      {"AMD's version", "version=\"1\"", "version=\"2\"", "t:1: system.version: found \"2\"",
       "RCCL's version 2 is for AMD's GPUs"},
      {"no version", " version=\"1\"", "", "t:1: system.version: found nothing", "expected this"},
      {"an unknown element", "<nic>", "<nvme/><nic>",
       "t:13: nvme: found an unknown element in \"cpu\"", "expected pci or nic"},
      {"an unknown link", "<nvlink", "<xgmi", "t:5: xgmi: found an unknown element in \"gpu\"",
       "AMD's GPUs are not supported"},
      {"an unknown class of link", "tclass=\"0x030200\"", "tclass=\"0x050000\"",
       "t:5: nvlink.tclass: found \"0x050000\"", "0x068000 (an NVSwitch)"},
      {"a link without a class", " tclass=\"0x030200\"", "", "t:5: nvlink.tclass: found nothing",
       ""},
      {"a link without a target", "target=\"0000:11:00.0\" ", "",
       "t:5: nvlink.target: found nothing", ""},
      {"a link to the GPU itself", "0000:11:00.0\" count", "0000:10:00.0\" count",
       "t:5: nvlink.target: found the GPU itself", "another GPU"},
      {"no links", "count=\"4\"", "count=\"0\"", "t:5: nvlink.count: found \"0\"",
       "a whole number from 1 to 1000"},
      {"a link in one direction only", "count=\"4\"", "count=\"3\"",
       "t:9: gpu.nvlink: found 4 NVLinks", "line 4, but 3 back"},
      {"an invalid speed", "16.0 GT/s PCIe", "16.0 Gb/s",
       "t:3: pci.link_speed: found \"16.0 Gb/s\"", "2.5, 5, 8, 16, 32 or 64 GT/s"},
      {"an invalid width", "link_width=\"16\"", "link_width=\"15\"",
       "t:3: pci.link_width: found \"15\"", "1, 2, 4, 8, 12, 16 or 32"},
      {"a GPU of NCCL_TOPO_FILE",
       "<gpu dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\">\n" + nvlink(1, 4) + "</gpu>\n", "",
       "t:3: pci: found a GPU without its element gpu", "NCCL_TOPO_DUMP_FILE"},
      {"no rank", "rank=\"0\" ", "", "t:4: gpu.rank: found nothing", ""},
      {"no generation", "sm=\"80\"", "sm=\"new\"", "t:4: gpu.sm: found \"new\"", "a whole number"},
      {"a part of a GPU", "gdr=\"1\"", "mlopart=\"0\"", "t:4: gpu.mlopart: found a part", "whole"},
      {"the same GPU twice", "dev=\"1\"", "dev=\"0\"", "t:9: gpu: found the GPU on line 4 again",
       "a different busid and dev"},
      {"the same NUMA node twice", "numaid=\"1\"", "numaid=\"0\"",
       "t:17: cpu.numaid: found the NUMA node 0 twice", "once"},
      {"two hosts in one file", "<cpu host_hash=\"0x1\" numaid=\"1\"",
       "<cpu host_hash=\"0x2\" numaid=\"1\"", "t:17: cpu.host_hash: found a second host",
       "NCCL_MNNVL_ENABLE=0"},
      {"an invalid speed of a card", "speed=\"200000\"", "speed=\"fast\"",
       "t:14: net.speed: found \"fast\"", "Mbit/s"},
      {"text between elements", "<nic>", "<nic>GPU0", "t:13: nic: found the text \"GPU0\"",
       "elements only"},
      {"a truncated file", "</cpu>\n</system>\n", "", "t:", "was the file truncated?"},
  };
  for (const Mistake& mistake : mistakes) {
    expect_refused(text, mistake,
                   [](const std::string& wrong) { return import_nccl_topology(wrong, "t"); });
  }
  EXPECT_TRUE(import_nccl_topology(text, "t"));
}

TEST(NcclTopology, AFileWithoutGpusIsRefused) {
  const auto imported = import_nccl_topology(system(cpu(0, "")), "t");
  ASSERT_FALSE(imported);
  EXPECT_THAT(imported.error().message, HasSubstr("t: found no GPU"));
  EXPECT_FALSE(import_nccl_topology("", "t"));
}

}  // namespace
}  // namespace atp
