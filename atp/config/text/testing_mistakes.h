#pragma once

#include <gmock/gmock.h>

#include <string>

// For tests: files with one error, and the message it must produce.

namespace atp {

// `wrong` replaces `right` in a valid file: the message begins with `place` and contains `rest`.
struct Mistake {
  std::string name;
  std::string right;
  std::string wrong;
  std::string place;
  std::string rest;
};

// `parse` makes a Result of the file's text.
template <class Parse>
void expect_refused(std::string text, const Mistake& mistake, Parse&& parse) {
  const std::size_t at = text.find(mistake.right);
  ASSERT_NE(at, std::string::npos) << mistake.name;
  text.replace(at, mistake.right.size(), mistake.wrong);
  const auto parsed = parse(text);
  ASSERT_FALSE(parsed) << mistake.name;
  EXPECT_THAT(parsed.error().message, ::testing::StartsWith(mistake.place)) << mistake.name;
  EXPECT_THAT(parsed.error().message, ::testing::HasSubstr(mistake.rest)) << mistake.name;
}

}  // namespace atp
