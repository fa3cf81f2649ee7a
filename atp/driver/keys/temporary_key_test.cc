#include "atp/driver/keys/temporary_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "atp/driver/keys/key_file.h"

namespace atp {
namespace {

TEST(TemporaryKey, IsAFileOfItsOwnersUntilItsEnd) {
  std::string path;
  {
    const auto made = TemporaryKey::make("run");
    ASSERT_TRUE(made.ok()) << made.error().message;
    path = made.value()->path();
    struct stat about{};
    ASSERT_EQ(stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777U, 0600U);
    const auto read = read_own_key(path);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read.value().name, "run");
    const auto other = TemporaryKey::make("run");
    EXPECT_NE(read_own_key(other.value()->path()).value().key, read.value().key);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryKey, IsLeftAloneByChildrenOfTheProcess) {
  auto made = TemporaryKey::make("run");
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::string path = made.value()->path();
  const pid_t child = fork();
  if (child == 0) {
    std::move(made).value().reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(TemporaryKey, NeedsAFolderForTemporaryFiles) {
  ASSERT_EQ(setenv("TMPDIR", "/nowhere", 1), 0);
  const auto made = TemporaryKey::make("run");
  unsetenv("TMPDIR");
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, testing::HasSubstr("cannot find a folder"));
}

}  // namespace
}  // namespace atp
