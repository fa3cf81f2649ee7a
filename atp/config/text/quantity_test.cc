#include "atp/config/text/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace atp {
namespace {

using testing::HasSubstr;

TEST(Quantity, BandwidthsAreBytesPerSecondInOneDirection) {
  const struct {
    const char* text;
    double expected;
  } rows[] = {
      {"200 Gbit/s per direction", 25e9},       {"25 GB/s per direction", 25e9},
      {"600 GB/s both directions", 300e9},      {"25GB/s per direction", 25e9},
      {"  1.5   TB/s   per direction", 1.5e12}, {"2.5e1 GB/s per direction", 25e9},
      {"1 GiB/s per direction", 1073741824},    {"100 Mbit/s per direction", 12.5e6},
      {"1.6 Tbit/s per direction", 0.2e12},     {"8 kbit/s per direction", 1e3},
      {"1 MiB/s both directions", 524288},
  };
  for (const auto& row : rows) {
    const Parsed parsed = parse_bandwidth(row.text);
    EXPECT_EQ(parsed.problem, "") << row.text;
    EXPECT_DOUBLE_EQ(parsed.value, row.expected) << row.text;
  }
}

TEST(Quantity, AnAmbiguousBandwidthIsRefusedWithBothMeanings) {
  const struct {
    const char* text;
    const char* advice;
  } rows[] = {
      {"200 Gb/s per direction", "\"200 Gbit/s ...\" for bits or \"200 GB/s ...\" for bytes"},
      {"200 Gbps", "\"200 Gbit/s ...\""},
      {"200 GBps", "\"200 GB/s ...\""},
      {"200 G", "the units are"},
      {"40 gbit/s per direction", "\"40 Gbit/s ...\""},
      {"200 GB/s", "\"200 GB/s per direction\" if each direction carries that much"},
      {"200 GB/s one way", "\"per direction\" or \"both directions\""},
      {"200", "\"200 Gbit/s per direction\" for bits or \"200 GB/s per direction\" for bytes"},
      {"-1 GB/s per direction", "above 0"},
      {"0 GB/s per direction", "above 0"},
      {"nan GB/s per direction", "start with a number"},
      {"fast", "start with a number"},
      {"", "start with a number"},
      {"1e300 TB/s per direction", "from 1 B/s to"},
      {"200 parsec per direction", "the units are kB/s"},
  };
  for (const auto& row : rows) {
    const Parsed parsed = parse_bandwidth(row.text);
    EXPECT_NE(parsed.problem, "") << row.text;
    EXPECT_THAT(parsed.advice, HasSubstr(row.advice)) << row.text;
  }
}

TEST(Quantity, TheProblemReadsAsPartOfASentence) {
  EXPECT_EQ(parse_bandwidth("200 Gb/s per direction").problem,
            "the unit \"Gb/s\", which may mean bits or bytes");
}

TEST(Quantity, ARateOfATensorHasNoDirection) {
  EXPECT_DOUBLE_EQ(parse_rate("1.2 GB/s").value, 1.2e9);
  EXPECT_THAT(parse_rate("1.2 GB/s per direction").advice, HasSubstr("no direction"));
}

TEST(Quantity, TimesHaveAUnitAndAreNotNegative) {
  EXPECT_DOUBLE_EQ(parse_duration("5 us").value, 5e-6);
  EXPECT_DOUBLE_EQ(parse_duration("0.5ms").value, 5e-4);
  EXPECT_DOUBLE_EQ(parse_duration("0 s").value, 0);
  for (const char* wrong : {"5", "-5 us", "5 minutes", "us", "5 us or so", "1e9 s"}) {
    EXPECT_NE(parse_duration(wrong).problem, "") << wrong;
  }
}

}  // namespace
}  // namespace atp
