#include "atp/collective/shards.h"

#include <gmock/gmock.h>

#include <string>

namespace atp {
namespace {

using testing::ElementsAre;
using Part = Shards::Part;

constexpr std::size_t kPart = Shards::kLeastPart;

TEST(Shards, OneShardTakesEverything) {
  Shards shards(1);
  EXPECT_THAT(shards.split(10 * kPart + 1), ElementsAre(Part{0, 0, 10 * kPart + 1}));
  EXPECT_THAT(shards.split(0), ElementsAre(Part{0, 0, 0}));
}

TEST(Shards, ASmallTensorGoesWholeToWhoHasHadTheFewest) {
  Shards shards(3);
  EXPECT_THAT(shards.split(10), ElementsAre(Part{0, 0, 10}));
  EXPECT_THAT(shards.split(20), ElementsAre(Part{1, 0, 20}));
  EXPECT_THAT(shards.split(2 * kPart - 1), ElementsAre(Part{2, 0, 2 * kPart - 1}));
  EXPECT_THAT(shards.split(5), ElementsAre(Part{0, 0, 5}));
  EXPECT_THAT(shards.split(5), ElementsAre(Part{0, 0, 5})) << "15 against 20";
  EXPECT_THAT(shards.split(1), ElementsAre(Part{0, 0, 1})) << "ties to the lowest";
}

TEST(Shards, ALargeTensorIsCutIntoEqualParts) {
  Shards shards(3);
  EXPECT_THAT(shards.split(3 * kPart + 2),
              ElementsAre(Part{0, 0, kPart + 1}, Part{1, kPart + 1, kPart + 1},
                          Part{2, 2 * kPart + 2, kPart}));
  EXPECT_THAT(shards.split(2 * kPart), ElementsAre(Part{2, 0, kPart}, Part{0, kPart, kPart}))
      << "no part is smaller than a window";
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

TEST(After, NothingToCallStaysNothing) { EXPECT_FALSE(after(2, nullptr)); }

}  // namespace
}  // namespace atp
