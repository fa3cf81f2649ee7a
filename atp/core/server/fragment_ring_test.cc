#include "atp/core/server/fragment_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace atp {
namespace {

constexpr std::uint32_t kWmax = 4;
constexpr JobKey kJob{77, 5};

FragmentRing make_ring() { return {Placement{}, kJob, 3, kWmax, 2}; }

void complete(FragmentRing& ring, std::uint64_t sequence) {
  ring.saw(sequence);
  ring.complete(ring.at(sequence), 100 + static_cast<std::uint32_t>(sequence),
                [](const Fragment&) { FAIL() << "nothing may be forgotten here"; });
}

TEST(FragmentRing, HoldsEverythingThatAWorkerMaySendWithinItsWindow) {
  struct Row {
    std::string name;
    std::uint64_t completed;  // sequences 0 … completed − 1
    std::uint64_t sequence;
    RingPlace place;
  };
  const Row rows[] = {
      {"the first sequence", 0, 0, RingPlace::kInside},
      {"the last of the first window", 0, 3, RingPlace::kInside},
      {"beyond the first window", 0, 4, RingPlace::kFuture},
      {"the largest number", 0, UINT64_MAX, RingPlace::kFuture},
      {"one window behind the highest complete", 6, 2, RingPlace::kInside},
      {"provably received by all", 6, 1, RingPlace::kPast},
      {"one window ahead", 6, 9, RingPlace::kInside},
      {"more than a window ahead", 6, 10, RingPlace::kFuture},
      {"the largest number later", 6, UINT64_MAX, RingPlace::kFuture},
  };
  for (const Row& row : rows) {
    FragmentRing ring = make_ring();
    for (std::uint64_t s = 0; s < row.completed; ++s) complete(ring, s);
    EXPECT_EQ(ring.place(row.sequence), row.place) << row.name;
  }
}

TEST(FragmentRing, ASlotIsClearedForItsNextSequence) {
  FragmentRing ring = make_ring();
  for (std::uint64_t s = 0; s < 6; ++s) {
    ring.at(s).bitmap = RankSet::of(1);
    complete(ring, s);
  }
  EXPECT_TRUE(ring.at(5).complete());
  EXPECT_TRUE(ring.at(2).complete()) << "still needed for repeats";
  EXPECT_EQ(ring.find(8), nullptr);
  EXPECT_FALSE(ring.at(8).complete()) << "shares its slot with sequence 0";
  EXPECT_TRUE(ring.at(8).bitmap.empty());
  EXPECT_EQ(ring.find(0), nullptr);
}

TEST(FragmentRing, ValuesOfDifferentFragmentsDoNotOverlap) {
  FragmentRing ring = make_ring();
  for (std::uint64_t s = 0; s < kWmax; ++s) {
    for (auto& byte : ring.values(s)) byte = static_cast<std::uint8_t>(s);
  }
  for (std::uint64_t s = 0; s < kWmax; ++s) {
    const auto row = ring.values(s);
    EXPECT_EQ(std::vector<std::uint8_t>(row.begin(), row.end()),
              std::vector<std::uint8_t>(8, static_cast<std::uint8_t>(s)));
  }
}

TEST(FragmentRing, TheHeadWaitsForTheLowestIncomplete) {
  FragmentRing ring = make_ring();
  EXPECT_FALSE(ring.pending());
  complete(ring, 1);
  complete(ring, 2);
  EXPECT_EQ(ring.head(), 0u);
  EXPECT_EQ(ring.completed_end(), 3u);
  EXPECT_TRUE(ring.pending());
  complete(ring, 0);
  EXPECT_EQ(ring.head(), 3u);
  EXPECT_FALSE(ring.pending());
}

TEST(FragmentRing, AnIndexIsAHashAtFirstAndThenTheOneInTheParameter) {
  FragmentRing ring = make_ring();
  const std::uint32_t first =
      atp_fmix32(atp_fmix32(atp_fmix32(kJob.job) ^ kJob.incarnation) ^ (3 * 65536 + 1));
  EXPECT_EQ(ring.expected_index(1), first);
  complete(ring, 0);
  complete(ring, 1);
  EXPECT_EQ(ring.expected_index(5), 101u);
  EXPECT_NE(ring.expected_index(2), ring.expected_index(3));
}

TEST(FragmentRing, GoesOnBeyond32BitsAndHoldsNothingFromBeforeItsFirst) {
  constexpr std::uint64_t kFirst = (std::uint64_t{1} << 32) - 3;
  FragmentRing ring(Placement{}, kJob, 3, kWmax, 2, kFirst);
  EXPECT_EQ(ring.place(kFirst - 1), RingPlace::kPast);
  for (std::uint64_t s = kFirst; s < kFirst + 2 * kWmax; ++s) {
    EXPECT_EQ(ring.place(s), RingPlace::kInside) << s;
    EXPECT_EQ(ring.place(s + kWmax), RingPlace::kFuture) << s;
    EXPECT_EQ(ring.find(s), nullptr) << s;
    complete(ring, s);
    EXPECT_EQ(ring.head(), s + 1);
    EXPECT_EQ(ring.completed_end(), s + 1);
    EXPECT_FALSE(ring.pending());
  }
  EXPECT_EQ(ring.place(kFirst), RingPlace::kPast);
}

TEST(FragmentRing, AMemberThatRunsAheadOfItsWindowCannotKeepAFragmentForever) {
  FragmentRing ring = make_ring();
  ring.at(0).bitmap = RankSet::of(0);
  complete(ring, 3);
  std::vector<std::uint64_t> forgotten;
  ring.complete(ring.at(7), 0, [&](const Fragment& f) { forgotten.push_back(f.sequence); });
  EXPECT_EQ(forgotten, std::vector<std::uint64_t>{0});
  EXPECT_EQ(ring.head(), 4u);
}

}  // namespace
}  // namespace atp
