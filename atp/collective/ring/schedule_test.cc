#include "atp/collective/ring/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "atp/collective/testing/ring.h"

namespace atp {
namespace {

using testing::bytes_of_vector;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::ptrdiff_t> blocks_received(const Schedule& schedule, const RingRequest& request) {
  std::vector<std::ptrdiff_t> blocks;
  for (const Schedule::Step& step : schedule.steps) {
    for (std::size_t b = 0; b < request.outputs.size(); ++b) {
      if (request.outputs[b].data() == step.to.data()) {
        blocks.push_back(static_cast<std::ptrdiff_t>(b));
      }
    }
  }
  return blocks;
}

TEST(Schedule, an_all_reduce_is_a_reduce_scatter_and_an_all_gather) {
  std::vector<double> values(4);
  const RingRequest request = all_reduce_request(ElementType::kFloat64, bytes_of_vector(values), 4);
  const Schedule schedule = make_schedule(request, 1, 4, {});
  EXPECT_EQ(schedule.first.data(), request.inputs[0].data());
  EXPECT_THAT(blocks_received(schedule, request), ElementsAre(3, 2, 1, 0, 3, 2));
  EXPECT_EQ(schedule.bytes_out(), 6 * 8U);
  EXPECT_EQ(schedule.bytes_in(), 6 * 8U);
}

TEST(Schedule, only_the_last_addition_divides) {
  std::vector<double> values(8, 1);
  RingRequest request = all_reduce_request(ElementType::kFloat64, bytes_of_vector(values), 4);
  request.reduction = Reduction::kAverage;
  const std::vector<double> incoming{7, 7};
  std::vector<double> results;
  for (const Schedule::Step& step : make_schedule(request, 1, 4, {}).steps) {
    if (!step.take) continue;
    step.take(0, std::as_bytes(std::span(incoming)));
    results.push_back(*reinterpret_cast<const double*>(step.to.data()));
  }
  EXPECT_THAT(results, ElementsAre(8, 8, 2));  // the others are stored unchanged
}

// In every collective, what a rank sends next is what the rank after it receives next.
TEST(Schedule, outgoing_blocks_match_the_next_ranks_incoming_ones) {
  for (const std::size_t ranks : {2U, 3U, 5U}) {
    std::vector<double> all(ranks * 3 + 1);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto at = [&](std::size_t r) {
        return make_schedule(all_reduce_request(ElementType::kFloat64, bytes_of_vector(all), ranks),
                             r, ranks, {});
      };
      const Schedule mine = at(rank);
      const Schedule next = at((rank + 1) % ranks);
      EXPECT_EQ(mine.first.size(), next.steps[0].to.size());
      for (std::size_t s = 0; s + 1 < mine.steps.size(); ++s) {
        EXPECT_EQ(mine.steps[s].to.data(), next.steps[s + 1].to.data());
      }
    }
  }
}

TEST(Schedule, partial_sums_of_a_reduce_scatter_stay_out_of_the_input) {
  std::vector<float> values(12);
  std::vector<float> own(3);
  const RingRequest request = reduce_scatter_request(ElementType::kFloat32, bytes_of_vector(values),
                                                     bytes_of_vector(own), 4);
  std::vector<std::byte> scratch(scratch_bytes(request, 2));
  EXPECT_EQ(scratch.size(),
            2 * 12U);  // all blocks except the one that starts here and this rank's own
  const Schedule schedule = make_schedule(request, 2, 4, scratch);
  ASSERT_EQ(schedule.steps.size(), 3U);
  EXPECT_EQ(schedule.steps[0].to.data(), scratch.data());
  EXPECT_EQ(schedule.steps[1].to.data(), scratch.data() + 12);
  EXPECT_EQ(schedule.steps[2].to.data(), bytes_of_vector(own).data());
  values.assign(12, 1);
  const std::vector<float> incoming{1, 2, 3};
  schedule.steps[2].take(0, std::as_bytes(std::span(incoming)));
  EXPECT_THAT(own, ElementsAre(2, 3, 4));
  EXPECT_EQ(values, std::vector<float>(12, 1));
}

struct Refusal {
  std::string name;
  RingRequest request;
  std::string why;
};

std::vector<Refusal> refusals() {
  static std::vector<float> memory(12);
  static std::vector<float> other(12);
  const Bytes bytes = bytes_of_vector(memory);
  std::vector<Refusal> all;
  all.push_back({"blocks_for_other_ranks", all_reduce_request(ElementType::kFloat32, bytes, 3),
                 "expected 2 input and 2 output blocks, found 3 and 3"});
  all.push_back({"an_own_block_of_another_length",
                 reduce_scatter_request(ElementType::kFloat32, bytes, bytes.first(4), 2),
                 "the block of rank 0 has 24 bytes in the input and 4 in the output"});
  all.push_back({"half_an_element",
                 all_gather_request(ElementType::kFloat64, bytes.first(12), bytes.first(24), 2),
                 "not a whole number of elements"});
  all.push_back({"a_sum_of_bytes", all_reduce_request(ElementType::kByte, bytes, 2),
                 "a ring cannot add untyped bytes"});
  RingRequest moved = all_reduce_request(ElementType::kFloat32, bytes, 2);
  moved.inputs[1] = bytes_of_vector(other).subspan(24);
  all.push_back({"an_all_reduce_into_other_memory", moved, "an all_reduce works in place"});
  RingRequest fixed = all_reduce_request(ElementType::kFloat32, bytes, 2);
  fixed.format = NumberFormat::kFixed;
  all.push_back({"a_sum_by_a_fixed_scale", fixed, "a ring does not support the fixed scale"});
  RingRequest segmented = all_reduce_request(ElementType::kFloat32, bytes, 2);
  segmented.segments = {5, 8};
  all.push_back(
      {"tensors_of_other_lengths", segmented, "its segments have 13 values and the tensor has 12"});
  RingRequest apart = all_reduce_request(ElementType::kFloat32, bytes, 2);
  apart.inputs[1] = apart.outputs[1] = bytes_of_vector(other).subspan(24);
  all.push_back({"float32_in_two_places", apart, "must be contiguous"});
  return all;
}

class BadRequest : public ::testing::TestWithParam<Refusal> {};

TEST_P(BadRequest, is_refused) {
  const Status refused = check(GetParam().request, 0, 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(with, BadRequest, ::testing::ValuesIn(refusals()),
                         [](const ::testing::TestParamInfo<Refusal>& test) {
                           return test.param.name;
                         });

}  // namespace
}  // namespace atp
