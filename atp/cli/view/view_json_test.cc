#include "atp/cli/view/view_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace atp {
namespace {

TEST(ViewJson, ALateRankHasItsOwnNumberAndItsDelay) {
  ClusterView view;
  view.jobs.push_back({.job = 7, .incarnation = 1});
  view.jobs[0].ranks.push_back(
      {.rank = 3, .delay = RankDelay{.rank = 9, .operations = 5, .last_p50_us = 900}});
  Watch watch;
  watch.take(view);
  const auto document = nlohmann::json::parse(view_json("small", watch, 1));
  const auto& row = document["jobs"][0]["ranks"][0];
  EXPECT_EQ(row["rank"], 3);
  EXPECT_EQ(row["operations"], 5);
  EXPECT_EQ(row["last_p50_us"], 900);
}

}  // namespace
}  // namespace atp
