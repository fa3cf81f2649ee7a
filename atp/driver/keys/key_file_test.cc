#include "atp/driver/keys/key_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace atp {
namespace {

using testing::HasSubstr;

const std::string kHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

TEST(KeyFile, HasOneTenantPerLineWithItsQuotas) {
  const auto read = parse_keys("# comment\n\nvision " + kHex +
                                   " jobs=8 aggregators=4096 memory=256MiB weight=3  # ours\n"
                                   "speech.2\t" +
                                   std::string(64, 'F') + " memory=2GiB",
                               "keys");
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read.value().size(), 2U);
  const Tenant& vision = read.value()[0];
  EXPECT_EQ(vision.name, "vision");
  EXPECT_EQ(vision.key[0], 0);
  EXPECT_EQ(vision.key[31], 0x1f);
  EXPECT_EQ(vision.quota, (Quota{8, 4096, std::size_t{256} << 20, 3}));
  EXPECT_EQ(read.value()[1].quota, (Quota{0, 0, std::size_t{2} << 30}));
  EXPECT_EQ(key_line(vision), "vision " + kHex);
}

TEST(KeyFile, SaysWhichLineIsWrongAndNeverShowsAKey) {
  const struct {
    std::string what;
    std::string text;
    std::string message;
  } cases[] = {
      {"a line without a key", "vision\n", "keys:1: expected a key of 64 hexadecimal digits"},
      {"a short key", "\nvision 0011\n",
       "keys:2: expected a key of 64 hexadecimal digits after "
       "\"vision\", found a word of 4 characters"},
      {"a key with a wrong digit", "vision " + std::string(63, 'a') + "g", "a word of 64"},
      {"a name with a slash", "a/b " + kHex, "\"a/b\" is not a tenant's name"},
      {"a long name", std::string(65, 'a') + " " + kHex, "is not a tenant's name"},
      {"an unknown quota", "vision " + kHex + " ports=3", "unknown quota \"ports=3\""},
      {"no jobs", "vision " + kHex + " jobs=0", "\"jobs=0\" is not jobs=N"},
      {"jobs without a number", "vision " + kHex + " jobs=", "\"jobs=\" is not jobs=N"},
      {"no weight at all", "vision " + kHex + " weight=0", "weight=N from 1 to 1000"},
      {"more weight than there is", "vision " + kHex + " weight=1001", "weight=N from 1 to 1000"},
      {"too many aggregators", "vision " + kHex + " aggregators=4294967296", "aggregators=N"},
      {"memory without a unit", "vision " + kHex + " memory=256", "e.g. memory=256MiB"},
      {"one name twice", "vision " + kHex + "\nvision " + kHex,
       "keys:2: a second key for \"vision\""},
      {"no line at all", "# nothing\n", "keys has no keys"},
  };
  for (const auto& c : cases) {
    const auto read = parse_keys(c.text, "keys");
    ASSERT_FALSE(read.ok()) << c.what;
    EXPECT_THAT(read.error().message, HasSubstr(c.message)) << c.what;
    EXPECT_THAT(read.error().message, testing::Not(HasSubstr(kHex))) << c.what;
  }
}

// A file in the test's folder.
std::string file_with(const std::string& text, mode_t mode) {
  const std::string path = testing::TempDir() + "key-file-test-" + std::to_string(getpid());
  unlink(path.c_str());
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(fchmod(fd, mode), 0);
  close(fd);
  return path;
}

TEST(KeyFile, IsRefusedIfOthersMayReadOrChangeItWithTheCommandThatMendsIt) {
  const std::string line = "vision " + kHex + "\n";
  struct Case {
    const char* what;
    mode_t mode;
    uid_t owner;
    std::string mend;  // empty: it is fine
  };
  const uid_t self = geteuid();
  const Case cases[] = {
      {"its owner alone", 0600, self, ""},
      {"its group may read it", 0640, self, ""},
      {"others may read it", 0604, self, "chmod o-rwx "},
      {"others may write it", 0602, self, "chmod o-rwx "},
      {"all may read it", 0644, self, "chmod o-rwx "},
      {"its group may write it", 0660, self, "chmod g-w "},
      {"its group may only write it", 0620, self, "chmod g-w "},
      {"it belongs to another user", 0640, self + 1, "chown " + std::to_string(self) + " "},
  };
  for (const Case& c : cases) {
    const std::string path = file_with(line, c.mode);
    if (c.owner != self && chown(path.c_str(), c.owner, -1) != 0) {
      std::printf("not root: \"%s\" is left out\n", c.what);
    } else if (c.mend.empty()) {
      EXPECT_TRUE(read_own_key(path).ok()) << c.what;
    } else {
      ASSERT_FALSE(read_own_key(path).ok()) << c.what;
      EXPECT_THAT(read_own_key(path).error().message, HasSubstr(c.mend + path)) << c.what;
    }
    unlink(path.c_str());
  }
}

TEST(KeyFile, IsMadeOnceAndForItsOwnerAlone) {
  const std::string path = testing::TempDir() + "made-key-" + std::to_string(getpid());
  unlink(path.c_str());
  ASSERT_TRUE(make_key_file(path, "vision").ok());
  EXPECT_EQ(read_own_key(path).value().name, "vision");
  const TenantKey key = read_own_key(path).value().key;
  EXPECT_THAT(make_key_file(path, "vision").error().message, HasSubstr("never overwritten"));
  EXPECT_EQ(read_own_key(path).value().key, key);
  unlink(path.c_str());
  EXPECT_THAT(make_key_file("/nowhere/key", "vision").error().message,
              HasSubstr("cannot create /nowhere/key: No such file"));
}

TEST(KeyFile, OfARankHasOneTenant) {
  const std::string path = file_with("vision " + kHex + "\nspeech " + kHex + "\n", 0600);
  EXPECT_TRUE(read_key_file(path).ok());
  const auto read = read_own_key(path);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message, HasSubstr("the keys of 2 tenants"));
  unlink(path.c_str());
  EXPECT_THAT(read_own_key(path).error().message, HasSubstr("No such file"));
  EXPECT_THAT(read_own_key(testing::TempDir()).error().message, HasSubstr("not a file"));
}

TEST(KeyFile, RandomKeysDiffer) { EXPECT_NE(random_key(), random_key()); }

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
  EXPECT_THAT(made.error().message, HasSubstr("set TMPDIR to a folder that exists"));
}

}  // namespace
}  // namespace atp
