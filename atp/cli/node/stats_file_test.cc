#include "atp/cli/node/stats_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace atp {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

class StatsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/stats-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/stats";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string folder_;
  std::string path_;
};

TEST_F(StatsFileTest, AnErrorNamesTheFileThatCannotBeWritten) {
  const Result<StatsFile> file = StatsFile::open("/no/such/folder/stats", 100);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message,
            "cannot write --stats file /no/such/folder/stats: No such file or directory");
}

TEST_F(StatsFileTest, AppendsToAnExistingFile) {
  for (const char* line : {"before\n", "after\n"}) {
    Result<StatsFile> file = StatsFile::open(path_, 100);
    EXPECT_EQ(file.value().append(line), std::nullopt);
  }
  EXPECT_EQ(content(path_), "before\nafter\n");
}

TEST_F(StatsFileTest, StartsANewFileWhenFullAndKeepsOneOldOne) {
  Result<StatsFile> file = StatsFile::open(path_, 10);
  for (const char* line : {"1234\n", "5678\n", "9abc\n", "defg\n", "hijk\n"}) {
    EXPECT_EQ(file.value().append(line), std::nullopt);
  }
  EXPECT_EQ(content(path_), "hijk\n");
  EXPECT_EQ(content(path_ + ".1"), "9abc\ndefg\n");
}

// A file size limit simulates a full disk: one write is short, the next one fails.
TEST_F(StatsFileTest, WarnsOnceThatItCannotWriteAndResumesWhenThereIsRoom) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  Result<StatsFile> file = StatsFile::open(path_, 1000);
  EXPECT_EQ(file.value().append("first\n"), std::nullopt);
  const rlimit full{8, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const auto said = file.value().append("second\n");
  const auto said_again = file.value().append("third\n");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(said, Optional(HasSubstr("lines are lost until writing works again")));
  EXPECT_EQ(said_again, std::nullopt) << "once";
  EXPECT_EQ(content(path_), "first\n") << "no line is cut";
  EXPECT_THAT(file.value().append("fourth\n"), Optional(HasSubstr("2 lines were lost")));
  EXPECT_EQ(content(path_), "first\nfourth\n");
}

}  // namespace
}  // namespace atp
