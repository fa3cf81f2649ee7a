#include "atp/cli/node/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace atp {
namespace {

ServeOptions options_of(std::uint32_t lanes, const std::string& stats_file = "") {
  ServeOptions options;
  options.lanes = lanes;
  options.stats_file = stats_file;
  return options;
}

Endpoint at(std::uint16_t port) { return Endpoint::ipv4(10, 0, 0, 9, port); }

TEST(LaneOptions, OneLaneIsTheNodeItself) {
  ServeOptions options = options_of(1, "out/server.jsonl");
  options.listen = "a name:0";
  EXPECT_EQ(options_of_lane(options, at(0), 0).listen, "a name:0");
  EXPECT_EQ(options_of_lane(options, at(0), 0).stats_file, "out/server.jsonl");
  EXPECT_EQ(text_of_lanes(options, at(5500)), "10.0.0.9:5500");
}

TEST(LaneOptions, EachLaneHasItsOwnPortAndFile) {
  struct Row {
    const char* name;
    std::uint32_t lane;
    const char* file;
    const char* listen;
    const char* file_of_lane;
  };
  const Row rows[] = {
      {"the first", 0, "", "10.0.0.9:5500", ""},
      {"the last", 3, "out/server.jsonl", "10.0.0.9:5503", "out/server-3.jsonl"},
      {"a file without a folder", 1, "counters", "10.0.0.9:5501", "counters-1"},
  };
  for (const Row& row : rows) {
    const ServeOptions lane = options_of_lane(options_of(4, row.file), at(5500), row.lane);
    EXPECT_EQ(lane.listen, row.listen) << row.name;
    EXPECT_EQ(lane.stats_file, row.file_of_lane) << row.name;
  }
  EXPECT_EQ(text_of_lanes(options_of(4), at(5500)), "10.0.0.9:5500-5503");
}

TEST(LaneOptions, NonexistentPortsAreRefused) {
  EXPECT_THROW(options_of_lane(options_of(2), at(0), 0), CommandError);
  EXPECT_THROW(options_of_lane(options_of(2), at(65535), 0), CommandError);
  EXPECT_NO_THROW(options_of_lane(options_of(2), at(65534), 0));
}

}  // namespace
}  // namespace atp
