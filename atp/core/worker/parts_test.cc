#include <gtest/gtest.h>

#include <set>

#include "atp/core/placement.h"
#include "atp/core/worker/operation_queue.h"
#include "atp/core/worker/retransmission_timeout.h"
#include "atp/core/worker/send_window.h"

namespace atp {
namespace {

using std::chrono::milliseconds;

TEST(IndexMap, StartsWithTheHashThatTheProtocolStates) {
  const IndexMap map(Placement{}, {7, 9}, 3, 8);
  for (std::uint32_t slot = 0; slot < 8; ++slot) {
    const std::uint32_t expected =
        atp_fmix32(atp_fmix32(atp_fmix32(7) ^ 9U) ^ (3U * 65536U + slot));
    EXPECT_EQ(map.at(slot), expected);
    EXPECT_EQ(map.at(slot + 8), expected) << "slot = sequence mod Wmax";
  }
}

TEST(IndexMap, CountsThroughTheAggregatorsWhenPlacementIsLinear) {
  const IndexMap map(Placement{.linear_aggregators = 6}, {7, 9}, 3, 8);
  for (std::uint32_t sequence = 0; sequence < 16; ++sequence) {
    const std::uint32_t slot = 3 * 8 + sequence % 8;
    EXPECT_EQ(atp_slot_of_index(map.at(sequence), 6), slot % 6) << sequence;
  }
}

TEST(SendWindow, HoldsAtMostWmaxFromTheOldestUnanswered) {
  SendWindow window(4);
  window.extend(10);
  const Instant now{};
  for (int i = 0; i < 4; ++i) window.send(now);
  EXPECT_FALSE(window.may_send());
  window.answer(2);
  window.answer(1);
  EXPECT_FALSE(window.may_send());
  EXPECT_EQ(window.answered_beyond(), 2u);
  window.answer(0);
  EXPECT_EQ(window.base(), 3u);
  EXPECT_EQ(window.answered_beyond(), 0u);
  EXPECT_TRUE(window.may_send());
  EXPECT_FALSE(window.in_flight(2));
  EXPECT_TRUE(window.in_flight(3));
  EXPECT_FALSE(window.in_flight(4));
}

TEST(SendWindow, GoesOnBeyond32Bits) {
  constexpr std::uint64_t kFirst = (std::uint64_t{1} << 32) - 3;
  SendWindow window(4, kFirst);
  EXPECT_TRUE(window.idle());
  EXPECT_EQ(window.extend(8), kFirst);
  for (std::uint64_t s = kFirst; s < kFirst + 8; ++s) {
    EXPECT_EQ(window.send(Instant{}), s);
    EXPECT_TRUE(window.in_flight(s));
    window.answer(s);
    EXPECT_EQ(window.base(), s + 1);
  }
  EXPECT_FALSE(window.may_send());
}

TEST(SendWindow, FragmentsThatGoPastTheSwitchesDoNotOvertakeThoseAddedThere) {
  SendWindow window(16);
  window.extend(12);
  // 0 is added in a switch, 1 to 4 go straight, and 5 to 7 are added in a switch again.
  for (std::uint64_t s = 0; s < 8; ++s) window.at(window.send(Instant{})).exact = s >= 1 && s <= 4;
  window.answer(2);
  window.answer(3);
  window.answer(4);
  EXPECT_EQ(window.next_overtaken(), std::nullopt) << "only straight ones have overtaken 0";
  for (const std::uint64_t s : {5, 6, 7}) window.answer(s);
  EXPECT_EQ(window.next_overtaken(), 0U) << "others have overtaken 0 too";
  window.at(0).repeated_early = true;
  EXPECT_EQ(window.next_overtaken(), 1U) << "any fragment can overtake a straight one";
}

TEST(OperationQueue, FindsTheOperationOfASequenceAcrossTheRingsEnd) {
  OperationQueue queue(4);
  std::uint64_t next = 0;
  for (OperationId id = 0; id < 40; ++id) {
    Operation operation;
    operation.id = id;
    operation.first_sequence = next;
    operation.fragments = 1 + id % 3;
    next += operation.fragments;
    if (queue.full()) queue.pop_front();
    queue.push_back(operation);
    for (std::uint64_t s = queue.front().first_sequence; s < next; ++s) {
      EXPECT_TRUE(queue.find(s).holds(s));
    }
  }
}

TEST(RttEstimator, TheTimeOutFollowsTheSamplesWithinItsLimits) {
  const Timing timing;
  RttEstimator rtt;
  EXPECT_EQ(rtt.rto(timing), timing.rto_initial);
  for (int i = 0; i < 50; ++i) rtt.sample(milliseconds(1), timing);
  EXPECT_EQ(rtt.rto(timing), milliseconds(1) + timing.rto_min);
  for (int i = 0; i < 200; ++i) rtt.sample(milliseconds(100), timing);
  EXPECT_GT(rtt.rto(timing), milliseconds(99) + timing.rto_min);
  EXPECT_LT(rtt.rto(timing), milliseconds(130) + timing.rto_min);
  for (int i = 0; i < 50; ++i) rtt.sample(std::chrono::seconds(20), timing);
  EXPECT_EQ(rtt.rto(timing), timing.rto_max);
}

TEST(OperationFingerprint, ChangesWithEverythingThatMustAgree) {
  const OperationSpec spec{.count = 10};
  const auto of = [](OperationId id, const OperationSpec& what, atp_kind kind) {
    return operation_fingerprint(id, what, static_cast<std::uint8_t>(kind));
  };
  std::set<std::uint32_t> different{of(3, spec, ATP_KIND_SUM_BLOCKS),
                                    of(4, spec, ATP_KIND_SUM_BLOCKS),
                                    of(3, spec, ATP_KIND_SUM_BLOCKS_INT16)};
  void (*const changes[])(OperationSpec&) = {
      [](OperationSpec& s) { s.count = 11; },
      [](OperationSpec& s) { s.type = DataType::kBFloat16; },
      [](OperationSpec& s) { s.reduction = Reduction::kAverage; },
      [](OperationSpec& s) { s.small = true; },
      [](OperationSpec& s) { s.layout = 1; },
      [](OperationSpec& s) { s.tag = 1; },
  };
  for (const auto change : changes) {
    OperationSpec other = spec;
    change(other);
    different.insert(of(3, other, ATP_KIND_SUM_BLOCKS));
  }
  EXPECT_EQ(different.size(), 3 + std::size(changes));
}

// The vectors of docs/inside/protocol §5.
TEST(OperationFingerprint, MatchesThePage) {
  EXPECT_EQ(operation_fingerprint(0, {.count = 1}, ATP_KIND_SUM_BLOCKS), 0x0da892feU);
  EXPECT_EQ(operation_fingerprint((1ULL << 32) + 7,
                                  {.count = 3ULL << 33,
                                   .type = DataType::kBFloat16,
                                   .reduction = Reduction::kAverage,
                                   .layout = 0xba300f28,
                                   .tag = 9},
                                  ATP_KIND_SUM_BLOCKS_INT16),
            0xf9e87db9U);
  EXPECT_EQ(operation_fingerprint(5,
                                  {.count = 4,
                                   .type = DataType::kInt32,
                                   .reduction = Reduction::kMin,
                                   .small = true,
                                   .tag = 1},
                                  ATP_KIND_MAX_PLAIN),
            0xf830fd54U);
}

}  // namespace
}  // namespace atp
