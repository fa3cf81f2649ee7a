#include "atp/cli/command/machine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

namespace atp {
namespace {

constexpr const char* kMeminfo =
    "MemTotal:       24684084 kB\nHugePages_Total:       0\nMemAvailable:         1000 kB\n"
    "Buffers:           15836 kB\n";

TEST(MemoryLimit, IsTheSmallestKnownLimit) {
  struct Case {
    const char* name;
    const char* meminfo;
    const char* group_file;
    const char* group_text;
    std::uint64_t bytes;
  };
  const Case cases[] = {
      {"the machine's", kMeminfo, nullptr, nullptr, 1'024'000},
      {"a container's", kMeminfo, "sys/fs/cgroup/memory.max", "4096\n", 4096},
      {"an older container's", kMeminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes", "8192\n",
       8192},
      {"a container without a limit", kMeminfo, "sys/fs/cgroup/memory.max", "max\n", 1'024'000},
      {"no limit is known", "", nullptr, nullptr, std::numeric_limits<std::uint64_t>::max()},
  };
  for (const Case& c : cases) {
    char folder[] = "/tmp/atp-memory-XXXXXX";
    const std::filesystem::path root = mkdtemp(folder);
    std::filesystem::create_directories(root / "proc");
    std::filesystem::create_directories(root / "sys/fs/cgroup/memory");
    std::ofstream(root / "proc/meminfo") << c.meminfo;
    if (c.group_file != nullptr) std::ofstream(root / c.group_file) << c.group_text;
    EXPECT_EQ(obtainable_memory(root.string()), c.bytes) << c.name;
    std::filesystem::remove_all(root);
  }
}

TEST(MemoryLimit, OfThisMachineIsKnown) {
  EXPECT_GT(obtainable_memory(), std::uint64_t{1} << 20);
  EXPECT_LT(obtainable_memory(), std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace atp
