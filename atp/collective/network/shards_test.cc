#include "atp/collective/network/shards.h"

#include <gmock/gmock.h>

#include <string>

namespace atp {
namespace {

using testing::ElementsAre;
using Part = Shards::Part;

constexpr std::size_t kPart = Shards::kLeastPart;

std::vector<Part> split(Shards& shards, std::size_t values) {
  return shards.split(BlockLayout(values));
}

TEST(Shards, OneShardTakesEverything) {
  Shards shards(1);
  EXPECT_THAT(split(shards, 10 * kPart + 1), ElementsAre(Part{0, 0, 10 * kPart + 1}));
  EXPECT_THAT(split(shards, 0), ElementsAre(Part{0, 0, 0}));
}

TEST(Shards, ASmallTensorGoesWholeToTheShardWithTheFewestValues) {
  Shards shards(3);
  EXPECT_THAT(split(shards, 10), ElementsAre(Part{0, 0, 10}));
  EXPECT_THAT(split(shards, 20), ElementsAre(Part{1, 0, 20}));
  EXPECT_THAT(split(shards, 2 * kPart - 1), ElementsAre(Part{2, 0, 2 * kPart - 1}));
  EXPECT_THAT(split(shards, 5), ElementsAre(Part{0, 0, 5}));
  EXPECT_THAT(split(shards, 5), ElementsAre(Part{0, 0, 5})) << "it has 15 values, the other 20";
  EXPECT_THAT(split(shards, 1), ElementsAre(Part{0, 0, 1})) << "the lowest of equal ones";
}

TEST(Shards, ALargeTensorIsCutIntoNearlyEqualPartsAtBlockBoundaries) {
  Shards shards(3);
  constexpr std::size_t kThird = kPart + 1000;  // 3 whole blocks and 232 values more
  EXPECT_THAT(split(shards, 3 * kThird),
              ElementsAre(Part{0, 0, kPart + 768}, Part{1, kPart + 768, 2 * kPart + 1792},
                          Part{2, 2 * kPart + 1792, 3 * kThird}));
  EXPECT_THAT(split(shards, 2 * kPart), ElementsAre(Part{0, 0, kPart}, Part{1, kPart, 2 * kPart}))
      << "no part is smaller than a window";
}

TEST(Shards, ATensorOfSeveralSegmentsIsCutAtTheirBlockBoundaries) {
  Shards shards(2);
  const std::size_t lengths[] = {100, 4 * kPart};  // blocks begin at 100, 356, …
  const auto parts = shards.split(BlockLayout(lengths));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].end, 100 + 2 * kPart - 256) << "the block that holds the middle";
  const std::size_t one_too_few[] = {100, 2 * kPart - 100};
  EXPECT_THAT(shards.split(BlockLayout(one_too_few)), testing::SizeIs(1))
      << "a cut at a block would leave less than a window";
}

TEST(Shards, TheCutsDependOnTheLengthAlone) {
  Shards fresh(3);
  Shards loaded(3);
  for (const std::size_t values : {7UL, 5 * kPart, 2 * kPart + 3, 1UL}) split(loaded, values);
  const auto first = split(fresh, 4 * kPart + 77);
  const auto later = split(loaded, 4 * kPart + 77);
  ASSERT_EQ(first.size(), later.size());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].end, later[i].end);
}

TEST(After, CallsOnceWithTheFirstError) {
  std::vector<std::string> said;
  const auto done = after(3, [&](const Status& status) {
    said.push_back(status.ok() ? "ok" : status.error().message);
  });
  done(ok_status());
  done(Error{"first"});
  EXPECT_TRUE(said.empty());
  done(Error{"second"});
  EXPECT_THAT(said, ElementsAre("first"));
}

TEST(After, AnEmptyFunctionStaysEmpty) { EXPECT_FALSE(after(2, nullptr)); }

}  // namespace
}  // namespace atp
