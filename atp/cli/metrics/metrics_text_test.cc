#include "atp/cli/metrics/metrics_text.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

TEST(MetricsText, HasOneHeaderPerFamilyAndOneLinePerSample) {
  MetricsText metrics;
  metrics.begin("atp_things_total", MetricType::kCounter, "Things that came.");
  metrics.sample({}, 7);
  metrics.begin("atp_late_seconds", MetricType::kSummary, "How late.");
  metrics.sample({{"rank", "3"}, {"quantile", "0.5"}}, 0.0125);
  metrics.sample({{"rank", "3"}}, 4, "_count");
  EXPECT_EQ(metrics.text(),
            "# HELP atp_things_total Things that came.\n"
            "# TYPE atp_things_total counter\n"
            "atp_things_total 7\n"
            "# HELP atp_late_seconds How late.\n"
            "# TYPE atp_late_seconds summary\n"
            "atp_late_seconds{rank=\"3\",quantile=\"0.5\"} 0.0125\n"
            "atp_late_seconds_count{rank=\"3\"} 4\n");
}

TEST(MetricsText, OmitsAFamilyWithoutSamples) {
  MetricsText metrics;
  metrics.begin("atp_none", MetricType::kGauge, "Of nothing.");
  metrics.begin("atp_one", MetricType::kGauge, "Of one.");
  metrics.sample({}, 1);
  EXPECT_EQ(metrics.text(), "# HELP atp_one Of one.\n# TYPE atp_one gauge\natp_one 1\n");
}

TEST(MetricsText, EscapesWhatWouldEndALabel) {
  MetricsText metrics;
  metrics.begin("atp_x", MetricType::kGauge, "A \\ and\na line.");
  metrics.sample({{"listen", "a\"b\\c\nd"}}, 1);
  EXPECT_EQ(metrics.text(),
            "# HELP atp_x A \\\\ and\\na line.\n# TYPE atp_x gauge\n"
            "atp_x{listen=\"a\\\"b\\\\c\\nd\"} 1\n");
}

TEST(MetricsText, WritesLargeCountsInFull) {
  MetricsText metrics;
  metrics.begin("atp_x", MetricType::kCounter, "X.");
  metrics.sample({}, 123456789012.0);
  EXPECT_NE(metrics.text().find("atp_x 123456789012\n"), std::string::npos) << metrics.text();
}

}  // namespace
}  // namespace atp
