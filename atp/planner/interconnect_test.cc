#include "atp/planner/interconnect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using ::testing::HasSubstr;

struct Refusal {
  const char* name;
  void (*spoil)(Interconnect&);
  const char* message;
};

class RefusedInterconnect : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedInterconnect, SaysWhatWasExpected) {
  Interconnect interconnect =
      testing::two_levels(testing::switched("node", 4, 25), testing::switched("gpu", 4, 300));
  ASSERT_TRUE(validate(interconnect).ok());
  GetParam().spoil(interconnect);
  const Status status = validate(interconnect);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedInterconnect,
    ::testing::Values(
        Refusal{"NoLevels", [](Interconnect& i) { i.levels.clear(); }, "1 to 12 levels, found 0"},
        Refusal{"TooManyLevels", [](Interconnect& i) { i.levels.resize(13, i.levels[0]); },
                "1 to 12 levels, found 13"},
        Refusal{"NoChildren", [](Interconnect& i) { i.levels[1].count = 0; },
                "level 2 'gpu': a unit needs at least 1 child, found 0"},
        Refusal{"TooManyDevices", [](Interconnect& i) { i.levels[0].count = 1u << 30; },
                "more than 1048576 devices"},
        Refusal{"NegativeBandwidth", [](Interconnect& i) { i.levels[0].bandwidth = {-25e9}; },
                "level 1 'node': the bandwidth of a link must be positive and finite, found "
                "-2.5e+10"},
        Refusal{"InfiniteBandwidth",
                [](Interconnect& i) {
                  i.levels[0].bandwidth = {std::numeric_limits<double>::infinity()};
                },
                "positive and finite"},
        Refusal{"BandwidthThatIsNotANumber",
                [](Interconnect& i) {
                  i.levels[0].bandwidth = {std::numeric_limits<double>::quiet_NaN()};
                },
                "positive and finite"},
        Refusal{"NegativeLatency", [](Interconnect& i) { i.levels[0].latency_s = -1; },
                "latency must not be negative"},
        Refusal{"PairsOfFour", [](Interconnect& i) { i.levels[1].kind = LevelKind::kPairs; },
                "pairs have exactly 2 children, found 4"},
        Refusal{"SwitchBelowATorus", [](Interconnect& i) { i.levels[0].kind = LevelKind::kTorus; },
                "level 2 'gpu': below a torus level only torus levels"},
        Refusal{"AggregationWithoutASwitch",
                [](Interconnect& i) {
                  i.levels[1].kind = LevelKind::kRing;
                  i.levels[1].aggregation = Aggregation{};
                },
                "only a switch can aggregate, but the kind is ring"},
        Refusal{"NoPayload",
                [](Interconnect& i) { i.levels[0].aggregation = Aggregation{.payload_bytes = 0}; },
                "payload of at least 1 byte"},
        Refusal{"SlotsWithoutWindow",
                [](Interconnect& i) { i.levels[0].aggregation = Aggregation{.slots = 64}; },
                "slots require window (fragments in flight per group)"},
        Refusal{
            "FallbackShareBeyondOne",
            [](Interconnect& i) { i.levels[0].aggregation = Aggregation{.fallback_share = 1.5}; },
            "must be in [0, 1], found 1.5"},
        Refusal{"NoShareForStreams",
                [](Interconnect& i) { i.levels[0].aggregation = Aggregation{.stream_share = 0}; },
                "the share of streams must be above 0 and at most 1, found 0"},
        Refusal{"NegativeServerBandwidth",
                [](Interconnect& i) {
                  i.levels[0].aggregation = Aggregation{.server_bandwidth = {-1}};
                },
                "servers' bandwidth must be positive"},
        Refusal{"NegativeWireBytes",
                [](Interconnect& i) {
                  i.levels[0].aggregation = Aggregation{.wire_bytes_per_value = -2};
                },
                "wire bytes per value must not be negative"},
        Refusal{"MatrixOfOtherSize",
                [](Interconnect& i) {
                  i.point_to_point = PointToPointMatrix{8, std::vector<BytesPerSecond>(64, {1})};
                },
                "must have 16 rows of 16 bandwidths"},
        Refusal{"MatrixThatIsNotSquare",
                [](Interconnect& i) {
                  i.point_to_point = PointToPointMatrix{16, std::vector<BytesPerSecond>(255, {1})};
                },
                "found 255 values for 16 rows"},
        Refusal{"NegativeMatrixEntry",
                [](Interconnect& i) {
                  i.point_to_point = PointToPointMatrix{16, std::vector<BytesPerSecond>(256, {1})};
                  i.point_to_point->bandwidth[3] = {-1};
                },
                "from device 0 to 3 must not be negative"},
        Refusal{"MeasurementOfOtherDevices",
                [](Interconnect& i) { i.measured = {{{4, 2}, {{{1}}}, {{{1}}}}}; },
                "the measurement of mesh (4,2) must have 16 devices, found 8"},
        Refusal{"MeasurementWithoutBandwidth",
                [](Interconnect& i) { i.measured = {{{8, 2}, {{{1}}}, {}}}; },
                "needs a positive bandwidth on dimension 2"}),
    [](const auto& each) { return each.param.name; });

TEST(Interconnect, CountsDevices) {
  const Interconnect figure = testing::figure_7a();
  EXPECT_EQ(device_count(figure), 16u);
  EXPECT_EQ(devices_per_child(figure, 0), 4u);
  EXPECT_EQ(devices_per_child(figure, 1), 1u);
}

}  // namespace
}  // namespace atp::planner
