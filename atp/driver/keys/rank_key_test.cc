#include "atp/driver/keys/rank_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace atp {
namespace {

using testing::HasSubstr;
using testing::Not;

// The example of docs/inside/protocol §2, *Keys*.
Tenant vision() {
  Tenant tenant{.name = "vision"};
  for (std::size_t i = 0; i < tenant.key.size(); ++i) tenant.key[i] = static_cast<std::uint8_t>(i);
  return tenant;
}
const std::string kOfJob7 = "b64eb2d731853c1af7106843bb7834e7";

TEST(RankKey, KeysOfJobsAreReadAsTheyWereWritten) {
  const JobKeys keys = keys_of_jobs(vision(), std::array{7U, 4'294'967'295U});
  const std::string text = text_of(keys);
  EXPECT_THAT(text, HasSubstr("1ef8be0d 7:" + kOfJob7 + " 4294967295:"));
  const Result<JobKeys> read = parse_job_keys(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value(), keys);
}

TEST(RankKey, OtherTextsAreRefusedAndNotShown) {
  const std::string good = "1ef8be0d 7:" + kOfJob7;
  ASSERT_TRUE(parse_job_keys(good).ok());
  const struct {
    const char* what;
    std::string text;
  } cases[] = {
      {"nothing", ""},
      {"a tenant alone", "1ef8be0d"},
      {"a tenant that is not a number", "vision 7:" + kOfJob7},
      {"a job without a key", "1ef8be0d 7"},
      {"a short key", good.substr(0, good.size() - 2)},
      {"a wrong digit", good.substr(0, good.size() - 1) + "g"},
      {"a job that is not a number", "1ef8be0d x7:" + kOfJob7},
      {"a job beyond 32 bits", "1ef8be0d 4294967296:" + kOfJob7},
      {"an empty word", "1ef8be0d  7:" + kOfJob7},
  };
  for (const auto& c : cases) {
    const Result<JobKeys> read = parse_job_keys(c.text);
    ASSERT_FALSE(read.ok()) << c.what;
    EXPECT_THAT(read.error().message, Not(HasSubstr("b64eb2d7"))) << c.what;
  }
}

TEST(RankKey, MarksDifferIfNamesOrKeysDoAndHaveNothingOfTheKey) {
  const std::string mark = mark_of(vision());
  EXPECT_THAT(mark, testing::MatchesRegex("vision/[0-9a-f]{16}"));
  EXPECT_EQ(mark, mark_of(vision()));
  Tenant other = vision();
  other.key[31] ^= 1;
  EXPECT_NE(mark_of(other), mark);
  other = vision();
  other.name = "speech";
  EXPECT_NE(mark_of(other), mark);
  EXPECT_THAT(mark, Not(HasSubstr(kOfJob7.substr(0, 16)))) << "nor of a job's key";
  EXPECT_THAT(mark, Not(HasSubstr("0001020304050607")));
}

}  // namespace
}  // namespace atp
