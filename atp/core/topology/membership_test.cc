#include "atp/core/topology/membership.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "atp/base/random.h"

namespace atp {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1h};
constexpr Endpoint kLeft = Endpoint::ipv4(10, 0, 0, 1, 1);
constexpr Endpoint kRight = Endpoint::ipv4(10, 0, 0, 2, 1);

Member statement(const Endpoint& child, std::uint32_t detachments = 0, bool detached = false) {
  return {child, 42, detachments, detached, kStart + 5s};
}

RankSet ranks(std::initializer_list<int> list) {
  RankSet set;
  for (const int rank : list) set.insert(static_cast<Rank>(rank));
  return set;
}

TEST(Membership, IsEmptyAtFirst) {
  const Membership membership(8);
  EXPECT_EQ(membership.world_size(), 8u);
  EXPECT_TRUE(membership.known().empty());
  EXPECT_TRUE(membership.behind(kLeft).empty());
  EXPECT_TRUE(membership.children().empty());
  EXPECT_EQ(membership.next_expiry(), kNever);
  EXPECT_FALSE(membership.knows(7));
  EXPECT_FALSE(membership.knows(8)) << "beyond the world";
  EXPECT_FALSE(membership.knows(1023));
}

TEST(Membership, RanksAreBehindTheChildThatTheirJoinCameThrough) {
  Membership membership(8);
  membership.refresh(3, statement(kRight));
  membership.refresh(1, statement(kLeft));
  membership.refresh(2, statement(kRight));
  EXPECT_EQ(membership.behind(kLeft), ranks({1}));
  EXPECT_EQ(membership.behind(kRight), ranks({2, 3}));
  EXPECT_EQ(membership.attached(), ranks({1, 2, 3}));
  ASSERT_EQ(membership.children().size(), 2u);
  EXPECT_EQ(membership.children()[0].endpoint, kLeft) << "sorted";
}

TEST(Membership, TheNewestJoinDecidesTheChildAndAChildWithoutRanksIsDropped) {
  Membership membership(8);
  membership.refresh(1, statement(kLeft));
  membership.refresh(2, statement(kLeft));
  membership.refresh(1, statement(kRight));
  EXPECT_EQ(membership.behind(kLeft), ranks({2}));
  EXPECT_EQ(membership.behind(kRight), ranks({1}));
  membership.refresh(2, statement(kRight));
  EXPECT_TRUE(membership.behind(kLeft).empty());
  ASSERT_EQ(membership.children().size(), 1u);
}

TEST(Membership, TheStatementWithTheHigherNumberCountsAndAtEqualNumbersAttached) {
  struct Case {
    const char* name;
    std::uint32_t known;
    bool known_detached;
    std::uint32_t said;
    bool said_detached;
    bool detached_afterwards;
  };
  const Case cases[] = {
      {"a higher number detaches", 0, false, 1, true, true},
      {"a higher number attaches", 1, true, 2, false, false},
      {"at equal numbers attached counts", 1, true, 1, false, false},
      {"at equal numbers detached does not count", 1, false, 1, true, false},
      {"a lower number does not detach", 3, false, 2, true, false},
      {"a lower number does not attach", 3, true, 2, false, true},
      {"a repeated statement changes nothing", 3, true, 3, true, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Membership membership(4);
    membership.refresh(0, statement(kLeft, c.known, c.known_detached));
    membership.refresh(0, statement(kLeft, c.said, c.said_detached));
    EXPECT_EQ(membership.detached().contains(0), c.detached_afterwards);
    EXPECT_EQ(membership.attached().contains(0), !c.detached_afterwards);
    EXPECT_EQ(membership.known(), ranks({0}));
  }
}

TEST(Membership, AnOldStatementStillRenewsTheLeaseAndTheChild) {
  Membership membership(4);
  membership.refresh(0, statement(kLeft, 3, true));
  Member old = statement(kRight, 2, false);
  old.lease_end = kStart + 9s;
  membership.refresh(0, old);
  EXPECT_EQ(membership.behind(kRight), ranks({0}));
  EXPECT_EQ(membership.next_expiry(), kStart + 9s);
  EXPECT_EQ(membership.detached(), ranks({0}));
}

TEST(Membership, AnotherSocketRestartsTheCount) {
  Membership membership(4);
  membership.refresh(0, statement(kLeft, 7, true));
  Member other = statement(kRight, 0, false);
  other.nonce = 43;
  membership.refresh(0, other);
  EXPECT_EQ(membership.attached(), ranks({0}));
  EXPECT_EQ(membership.member(0).detachments, 0u);
}

TEST(Membership, AStatusDetachesOnlyWithAHigherNumber) {
  Membership membership(4);
  membership.refresh(0, statement(kLeft, 2, false));
  EXPECT_FALSE(membership.detach(0, 1));
  EXPECT_FALSE(membership.detach(0, 2)) << "it has returned since";
  EXPECT_EQ(membership.attached(), ranks({0}));
  EXPECT_TRUE(membership.detach(0, 3));
  EXPECT_EQ(membership.detached(), ranks({0}));
  EXPECT_FALSE(membership.detach(0, 3)) << "already known";
  EXPECT_FALSE(membership.detach(1, 9)) << "unknown";
  EXPECT_FALSE(membership.detach(1000, 9)) << "beyond the world";
  EXPECT_EQ(membership.behind(kLeft), ranks({0})) << "it stays behind its child";
}

TEST(Membership, ALeaseEndsExactlyOnTime) {
  Membership membership(4);
  membership.refresh(0, statement(kLeft));
  Member longer = statement(kLeft, 1, true);
  longer.lease_end = kStart + 6s;
  membership.refresh(1, longer);
  EXPECT_EQ(membership.next_expiry(), kStart + 5s);
  EXPECT_TRUE(membership.expire(kStart + 5s - 1ns).empty());
  EXPECT_EQ(membership.expire(kStart + 5s), ranks({0}));
  EXPECT_FALSE(membership.knows(0));
  EXPECT_EQ(membership.behind(kLeft), ranks({1}));
  EXPECT_EQ(membership.expire(kStart + 6s), ranks({1}));
  EXPECT_TRUE(membership.detached().empty());
  EXPECT_TRUE(membership.children().empty());
  EXPECT_EQ(membership, Membership(4)) << "as if no rank had ever joined";
}

TEST(Membership, RemovingAnUnknownRankDoesNothing) {
  Membership membership(4);
  membership.remove(3);
  membership.remove(900);
  EXPECT_EQ(membership, Membership(4));
}

// Children are sorted, and none is empty. Their ranks are disjoint and together those known, as are
// the attached and the detached ranks.
TEST(Membership, HoldsItsInvariantsUnderAnySequenceOfEvents) {
  constexpr std::size_t kWorld = 70;
  Random random(5);
  Membership membership(kWorld);
  Instant now = kStart;
  for (int i = 0; i < 20'000; ++i) {
    const auto rank = static_cast<Rank>(random.below(kWorld));
    const auto number = static_cast<std::uint32_t>(random.below(4));
    switch (random.below(8)) {
      case 0: membership.remove(rank); break;
      case 1: membership.detach(rank, number); break;
      case 2:
        now += 100ms;
        membership.expire(now);
        break;
      default: {
        const auto host = static_cast<std::uint8_t>(random.below(5));
        membership.refresh(rank, {Endpoint::ipv4(10, 0, 0, host, 1), random.below(2), number,
                                  random.chance(0.5), now + 5s});
      }
    }
    RankSet together;
    const Child* before = nullptr;
    for (const Child& child : membership.children()) {
      ASSERT_FALSE(child.ranks.empty());
      ASSERT_FALSE(together.intersects(child.ranks));
      ASSERT_TRUE(before == nullptr || before->endpoint < child.endpoint);
      child.ranks.for_each([&](Rank r) { ASSERT_EQ(membership.member(r).child, child.endpoint); });
      together |= child.ranks;
      before = &child;
    }
    ASSERT_EQ(together, membership.known());
    ASSERT_FALSE(membership.attached().intersects(membership.detached()));
    ASSERT_EQ(membership.attached() | membership.detached(), membership.known());
  }
}

}  // namespace
}  // namespace atp
