#include "atp/cli/status/status_dialogue.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace atp {
namespace {

using ::testing::HasSubstr;
using Kind = StatusRequest::Kind;

constexpr const char* kAddress = "10.0.0.1:5501";

std::string status_with(const std::string& held) {
  return R"({"role": "switch", "listen": "10.0.0.1:5501", "version": "1", "jobs": [], "drops": {},
            "aggregators": {"total": 1024, "held": )" +
         held + R"(}, "sums_completed": 1000, "collisions": 0})";
}

Result<std::string> answer(const std::string& document, bool json = false) {
  return status_answer(kAddress, std::string(kStatusLine) + document, json);
}

TEST(StatusRequest, IsOneLineInAnyNumberOfPieces) {
  struct Case {
    const char* text;
    Kind kind;
  };
  const std::string endless(64, 'a');
  const Case cases[] = {{"atp-status 1\n", Kind::kStatus},
                        {"atp-status 1\nand more", Kind::kStatus},
                        {"atp-status 2\n", Kind::kOtherVersion},
                        {"atp-status \n", Kind::kOtherVersion},
                        {"atp-drain 1\n", Kind::kDrain},
                        {"atp-drain 2\n", Kind::kOtherDrainVersion},
                        {"atp-drain", Kind::kIncomplete},
                        {"atp-drained 1\n", Kind::kNone},
                        {"atp-status", Kind::kIncomplete},
                        {"GET / HTTP/1.1\r\n", Kind::kNone},
                        {"\n", Kind::kNone},
                        {endless.c_str(), Kind::kNone}};
  for (const Case& c : cases) {
    EXPECT_EQ(StatusRequest().take(c.text), c.kind) << c.text;
    StatusRequest in_pieces;
    Kind kind = Kind::kIncomplete;
    for (const char* at = c.text; *at != 0 && kind == Kind::kIncomplete; ++at) {
      kind = in_pieces.take(std::string_view(at, 1));
    }
    EXPECT_EQ(kind, c.kind) << c.text;
  }
}

TEST(StatusAnswer, AReplyThatIsNotANodesIsRefused) {
  EXPECT_THAT(status_answer(kAddress, "HTTP/1.1 400\r\n", false).error().message,
              HasSubstr("is not an atp switch or server"));
  EXPECT_THAT(status_answer(kAddress, "atp-status 9\x1b[2J\n{}", false).error().message,
              HasSubstr("found \"atp-status 9 [2J\", expected \"atp-status 1\""));
  EXPECT_THAT(answer(status_with("12").substr(0, 80)).error().message, HasSubstr("ended early"));
}

TEST(DrainAnswer, IsReadFromEitherReply) {
  const std::string status =
      R"({"role": "server", "listen": "a", "version": "1", "draining": true, "jobs": [
      {"job": 7, "incarnation": 1, "first_stream": 0},
      {"job": 7, "incarnation": 1, "first_stream": 2},
      {"job": 7, "incarnation": 2, "first_stream": 0}]})";
  for (const std::string_view line : {kStatusLine, kDrainLine}) {
    const auto answer = read_node_status(kAddress, std::string(line) + status);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer.value().role, "server");
    EXPECT_TRUE(answer.value().draining);
    EXPECT_EQ(jobs_in(answer.value().jobs), 2u) << "a job with two stream ranges is one";
  }
}

TEST(DrainAnswer, CountsWhateverItSaysOfDraining) {
  for (const char* draining : {"", R"(, "draining": false)", R"(, "draining": true)"}) {
    const std::string document =
        R"({"role": "switch", "listen": "a", "version": "1")" + std::string(draining) + "}";
    EXPECT_TRUE(read_node_status(kAddress, std::string(kDrainLine) + document).ok()) << draining;
  }
}

TEST(DrainAnswer, SaysWhyThereIsNone) {
  struct Case {
    const char* reply;
    const char* message;
  };
  const Case cases[] = {
      {"atp-drain 1\n{\"refused\": \"not you\\u001b[2J\"}",
       "10.0.0.1:5501 does not drain: not you [2J"},
      {"atp-drain 2\n", "found \"atp-drain 2\", expected \"atp-drain 1\""},
      {"atp-status 2\n", "found \"atp-status 2\", expected \"atp-status 1\""},
      {"HTTP/1.1 400\r\n", "is not an atp switch or server"},
      {"atp-drain 1\n{", "cannot be read"},
      {"atp-drain 1\n[]", "cannot be read"},
      {"atp-drain 1\n{\"refused\": 3}", "cannot be read"},
      {"atp-drain 1\n{\"draining\": 1}", "cannot be read"},
      {"atp-status 1\n{\"refused\": \"not you\"}", "cannot be read"},
  };
  for (const Case& c : cases) {
    const auto answer = read_node_status(kAddress, c.reply);
    ASSERT_FALSE(answer.ok()) << c.reply;
    EXPECT_THAT(answer.error().message, HasSubstr(c.message));
    EXPECT_THAT(answer.error().message, HasSubstr(kAddress));
  }
}

TEST(StatusAnswer, EndlessNestingIsRefused) {
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  for (const bool json : {false, true}) {
    EXPECT_THAT(answer(deep, json).error().message, HasSubstr("cannot be read"));
  }
}

TEST(StatusAnswer, OfAStrangerIsReadInLittleTime) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  std::string objects = "[{}";
  while (objects.size() < kBytes) objects += ",{}";
  std::string in_jobs = R"({"role": "switch", "jobs": )" + objects + "]}";
  std::string keys = R"({"": 0)", few_keys = "[{", numbers = "[0";
  for (int i = 0; i < 400'000; ++i) keys += fmt::format(",\"{}\":0", i);
  for (int i = 0; few_keys.size() < kBytes; ++i) {
    few_keys += fmt::format("\"{}\":0{}", i, i % 500 == 499 ? "},{" : ",");
  }
  for (int i = 0; i < 3'000'000; ++i) numbers += ",0";
  struct Case {
    const char* name;
    std::string document;
  };
  const Case cases[] = {{"a list of objects", objects + "]"},
                        {"jobs without keys", in_jobs},
                        {"an object of many keys", keys + "}"},
                        {"objects of as many keys as a status may have", few_keys + "\"\":0}]"},
                        {"many numbers", numbers + "]"}};
  for (const Case& c : cases) {
    for (const bool json : {false, true}) {
      const auto begin = std::chrono::steady_clock::now();
      const Result<std::string> read = answer(c.document, json);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(took.count(), 5) << c.name << ": where it is quadratic, it takes minutes";
      EXPECT_FALSE(read.ok() && !json) << c.name;
    }
  }
  EXPECT_FALSE(answer(keys + "}", true).ok());
  EXPECT_FALSE(answer(numbers + "]", true).ok());
}

TEST(StatusAnswer, JsonCannotControlTheTerminalEither) {
  const Result<std::string> json = answer("{\"a\": \"\u009b31m\x7f\"}", true);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json.value(), "{\n  \"a\": \"\\u009b31m\\u007f\"\n}\n");
}

TEST(StatusAnswer, ACountIsAWholeNumber) {
  EXPECT_THAT(answer(status_with("12")).value(), HasSubstr("12 of 1,024 aggregators held"));
  for (const char* held : {"-1", "1e300", "0.5", "\"12\"", "null", "1e19"}) {
    EXPECT_FALSE(answer(status_with(held)).ok()) << held;
  }
}

}  // namespace
}  // namespace atp
