#include "atp/cli/line_tagger.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

TEST(LineTagger, TagsWholeLinesOnly) {
  LineTagger tagger("[3] ");
  EXPECT_EQ(tagger.add("one\ntw"), "[3] one\n");
  EXPECT_EQ(tagger.add(""), "");
  EXPECT_EQ(tagger.add("o"), "");
  EXPECT_EQ(tagger.add("\n\nthree"), "[3] two\n[3] \n");
  EXPECT_EQ(tagger.finish(), "[3] three\n");
  EXPECT_EQ(tagger.finish(), "");
}

}  // namespace
}  // namespace atp
