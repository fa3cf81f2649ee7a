#include "atp/core/server/server_counter.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace atp {
namespace {

TEST(ServerCounter, EveryCounterHasItsOwnPublicName) {
  std::set<std::string_view> names;
  for (unsigned i = 0; i < static_cast<unsigned>(ServerCounter::kCount); ++i) {
    names.insert(to_string(static_cast<ServerCounter>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(ServerCounter::kCount));
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(ServerCounter, EveryParseErrorIsCountedUnderItsOwnName) {
  for (unsigned i = 0; i < static_cast<unsigned>(ParseError::kCount); ++i) {
    const auto error = static_cast<ParseError>(i);
    EXPECT_EQ(to_string(counter_of(error)), to_string(error));
  }
}

TEST(ServerCounter, EveryStatusIsCountedUnderItsCode) {
  for (unsigned i = 0; i < static_cast<unsigned>(StatusCode::kCount); ++i) {
    const auto code = static_cast<StatusCode>(i);
    std::string name = "status_" + std::string(to_string(code));
    for (char& c : name) c = c == ' ' ? '_' : c;
    EXPECT_EQ(to_string(counter_of(code)), name);
  }
}

}  // namespace
}  // namespace atp
