#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "explore/cluster.h"
#include "explore/plan.h"

// The names of tests over all worlds and over all planted bugs: TwoFragments.

namespace atp::explore {

inline std::ostream& operator<<(std::ostream& out, const Plan& plan) { return out << plan.about; }
inline std::ostream& operator<<(std::ostream& out, const Bug& bug) { return out << bug.about; }

// "two-fragments" as an identifier.
inline std::string in_camel_case(const std::string& words) {
  std::string name;
  bool begins = true;
  for (const char letter : words) {
    if (letter != '-') name += begins ? static_cast<char>(letter - 'a' + 'A') : letter;
    begins = letter == '-';
  }
  return name;
}

template <class Named>
std::string test_name(const testing::TestParamInfo<Named>& info) {
  return in_camel_case(info.param.name);
}

}  // namespace atp::explore
