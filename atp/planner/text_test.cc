#include "atp/planner/text.h"

#include <gtest/gtest.h>

namespace atp::planner {
namespace {

TEST(Text, FactorsHaveThreeDigitsThatMeanSomething) {
  struct Case {
    double factor;
    const char* text;
  };
  const Case cases[] = {
      {1, "1"},
      {1.0814285, "1.08"},
      {0.346768, "0.347"},
      {1.00041, "1.00041"},  // not 1: it says that something changes
      {99.96, "100"},
      {1024, "1024"},
      {123456.7, "123457"},
  };
  for (const Case& each : cases) EXPECT_EQ(factor_text(each.factor), each.text);
}

}  // namespace
}  // namespace atp::planner
