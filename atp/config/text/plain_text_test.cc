#include "atp/config/text/plain_text.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

struct Case {
  const char* name;
  std::string_view text;
  std::string_view plain;
};

class PlainText : public ::testing::TestWithParam<Case> {};

TEST_P(PlainText, IsWellFormedUtf8WithoutControlCharacters) {
  EXPECT_EQ(made_plain(GetParam().text), GetParam().plain);
  EXPECT_EQ(is_plain(GetParam().text), GetParam().text == GetParam().plain);
  EXPECT_TRUE(is_plain(made_plain(GetParam().text)));
}

using namespace std::string_view_literals;

INSTANTIATE_TEST_SUITE_P(
    Table, PlainText,
    ::testing::Values(Case{"Nothing", "", ""}, Case{"Ascii", "two racks", "two racks"},
                      Case{"Letters", "caf\u00e9 \u4e16 \U0001f600", "caf\u00e9 \u4e16 \U0001f600"},
                      Case{"Latin1", "caf\xe9", "caf?"}, Case{"Escape", "\x1b[31m", " [31m"},
                      Case{"LineFeed", "a\nb", "a b"}, Case{"Nul", "a\0b"sv, "a b"},
                      Case{"Delete", "a\x7f", "a "}, Case{"C1", "a\xc2\x9b", "a "},
                      Case{"CutLetter", "a\xe4\xb8", "a??"},
                      Case{"StrayContinuation", "a\x80", "a?"}, Case{"Overlong", "\xc0\xaf", "??"},
                      Case{"OverlongOfThree", "\xe0\x80\xaf", "???"},
                      Case{"Surrogate", "\xed\xa0\x80", "???"},
                      Case{"BeyondUnicode", "\xf4\x90\x80\x80", "????"},
                      Case{"LineSeparator", "a\u2028b", "a b"},
                      Case{"RightToLeft", "rank \u202e1\u202c", "rank  1 "},
                      Case{"IsolatedAndMarked", "\u2067a\u2069\u200f", " a  "},
                      Case{"NoCharacter", "\xef\xbf\xbf", "?"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace atp
