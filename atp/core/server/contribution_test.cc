#include "atp/core/server/contribution.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace atp {
namespace {

RankSet ranks(std::initializer_list<Rank> list) {
  RankSet set;
  for (Rank r : list) set.insert(r);
  return set;
}

constexpr std::uint32_t kOperation = 7;
constexpr bool kIntegers = false;
constexpr bool kFloats = true;

struct Row {
  std::string name;
  FragmentMode mode;
  RankSet stored;
  RankSet packet;
  bool is_float;
  Contribution expected;
  std::uint8_t kind = ATP_KIND_SUM_FIXED;
};

TEST(Contribution, TheFirstMatchingRowDecides) {
  using enum FragmentMode;
  const RankSet none;
  const RankSet all = ranks({0, 1, 2, 3});
  const Row rows[] = {
      {"nothing stored", kCollecting, none, ranks({2}), kIntegers, Contribution::kFirst},
      {"nothing stored, all ranks in one packet", kCollecting, none, all, kIntegers,
       Contribution::kFirst},
      {"disjoint", kCollecting, ranks({0, 1}), ranks({2}), kIntegers, Contribution::kAdd},
      {"the same", kCollecting, ranks({0, 1}), ranks({0, 1}), kIntegers, Contribution::kDuplicate},
      {"a part of it", kCollecting, ranks({0, 1}), ranks({1}), kIntegers, Contribution::kDuplicate},
      {"strictly more", kCollecting, ranks({0, 1}), ranks({0, 1, 2}), kIntegers,
       Contribution::kReplace},
      {"overlapping", kCollecting, ranks({0, 1}), ranks({1, 2}), kIntegers, Contribution::kOverlap},
      {"a float without a request", kCollecting, ranks({0, 1}), ranks({2}), kFloats,
       Contribution::kFloatTooEarly},
      {"a float as the first packet", kCollecting, none, ranks({2}), kFloats,
       Contribution::kFloatTooEarly},
      {"waiting for a float slot", kAwaitingFloatSlot, all, ranks({2}), kIntegers,
       Contribution::kDuplicate},
      {"the first float", FragmentMode::kFloat, none, ranks({2}), kFloats, Contribution::kAdd},
      {"another float", FragmentMode::kFloat, ranks({0}), ranks({2}), kFloats, Contribution::kAdd},
      {"a repeated float", FragmentMode::kFloat, ranks({0, 2}), ranks({2}), kFloats,
       Contribution::kDuplicate},
      {"an integer whose float is missing", FragmentMode::kFloat, ranks({0}), ranks({2}), kIntegers,
       Contribution::kIntegerTooLate},
      {"a sum of integers, one float missing", FragmentMode::kFloat, ranks({0}), ranks({0, 2}),
       kIntegers, Contribution::kIntegerTooLate},
      {"an integer whose float has arrived", FragmentMode::kFloat, ranks({0}), ranks({0}),
       kIntegers, Contribution::kDuplicate},
      {"floats added on the path", FragmentMode::kFloat, ranks({0}), ranks({1, 2}), kFloats,
       Contribution::kFloatsOfMany},
      {"complete", kComplete, all, ranks({2}), kIntegers, Contribution::kComplete},
      {"complete, a float", kComplete, all, ranks({2}), kFloats, Contribution::kComplete},
      {"floats from the start, the first", kCollecting, none, ranks({2}), kFloats,
       Contribution::kFloatsFromTheStart, ATP_KIND_SUM_EXACT},
      {"floats from the start, added on the path", kCollecting, none, ranks({1, 2}), kFloats,
       Contribution::kFloatsOfMany, ATP_KIND_SUM_EXACT},
      {"floats from the start, another", FragmentMode::kFloat, ranks({0}), ranks({2}), kFloats,
       Contribution::kAdd, ATP_KIND_SUM_EXACT},
      {"floats from the start, without a slot", kAwaitingFloatSlot, none, ranks({2}), kFloats,
       Contribution::kFloatWaits, ATP_KIND_SUM_EXACT},
      {"floats added on the path, without a slot", kAwaitingFloatSlot, none, ranks({1, 2}), kFloats,
       Contribution::kFloatsOfMany, ATP_KIND_SUM_EXACT},
  };
  for (const Row& row : rows) {
    Fragment fragment;
    fragment.mode = row.mode;
    fragment.bitmap = row.stored;
    fragment.operation = kOperation;
    fragment.named = !row.stored.empty();
    fragment.kind = row.kind;
    const ContributionHeader packet{
        .ranks = row.packet, .operation = kOperation, .kind = row.kind, .is_float = row.is_float};
    EXPECT_EQ(judge(fragment, packet), row.expected) << row.name;
  }
}

TEST(Contribution, AnotherOperationNeverJoinsANamedFragment) {
  for (const FragmentMode mode : {FragmentMode::kCollecting, FragmentMode::kAwaitingFloatSlot,
                                  FragmentMode::kFloat, FragmentMode::kComplete}) {
    Fragment fragment;
    fragment.mode = mode;
    fragment.operation = kOperation;
    fragment.named = true;
    EXPECT_EQ(judge(fragment, {.ranks = ranks({1}), .operation = kOperation + 1}),
              Contribution::kOtherOperation);
  }
  EXPECT_EQ(judge(Fragment{}, {.ranks = ranks({1}), .operation = kOperation + 1}),
            Contribution::kFirst);
}

TEST(Contribution, AnotherShapeNeverJoinsANamedFragment) {
  Fragment fragment;
  fragment.named = true;
  fragment.kind = ATP_KIND_SUM_BLOCKS;
  fragment.value_count = 8;
  const ContributionHeader same{.kind = ATP_KIND_SUM_BLOCKS, .value_count = 8};
  EXPECT_EQ(judge(fragment, same), Contribution::kFirst);
  ContributionHeader other = same;
  other.kind = ATP_KIND_SUM_BLOCKS_INT16;
  EXPECT_EQ(judge(fragment, other), Contribution::kOtherShape);
  other = same;
  other.value_count = 7;
  EXPECT_EQ(judge(fragment, other), Contribution::kOtherShape);
}

}  // namespace
}  // namespace atp
