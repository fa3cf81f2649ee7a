#include "atp/collective/shm/segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

#include "atp/collective/shm/presence.h"

namespace atp {
namespace {

using ::testing::HasSubstr;

TEST(Segment, IsPrivateAndOfAFixedSize) {
  const Segment segment = Segment::create(3).value();
  struct stat found{};
  ASSERT_EQ(fstat(segment.descriptor(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
  EXPECT_NE(ftruncate(segment.descriptor(), 0), 0) << "a process could make the others crash";
  EXPECT_NE(ftruncate(segment.descriptor(), 2 * found.st_size), 0);
}

TEST(Segment, IsTheSameMemoryForEveryRankThatOpensIt) {
  const Segment mine = Segment::create(2).value();
  const Segment theirs = Segment::open(dup(mine.descriptor()), 2).value();
  mine.row(1, 1)[mine.row_bytes() - 1] = std::byte{7};
  EXPECT_EQ(theirs.row(1, 1)[theirs.row_bytes() - 1], std::byte{7});
  mine.board_of(1).called.store(5);
  EXPECT_EQ(theirs.board_of(1).called.load(), 5U);
  EXPECT_EQ(theirs.board_of(0).called.load(), 0U);
}

TEST(Segment, ADifferentNumberOfRanksIsRefused) {
  const Segment two = Segment::create(2).value();
  const auto opened = Segment::open(dup(two.descriptor()), 5);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message, HasSubstr("same version of atp"));
}

TEST(Segment, HasARowPerRankInEverySlotAndIsNotMuchLargerForManyRanks) {
  for (const std::size_t ranks : {1U, 2U, 8U, 64U, 300U}) {
    const Segment segment = Segment::create(ranks).value();
    std::set<std::byte*> rows;
    for (std::size_t slot = 0; slot < segment.slots(); ++slot) {
      for (std::size_t rank = 0; rank < ranks; ++rank) rows.insert(segment.row(slot, rank));
    }
    EXPECT_EQ(rows.size(), segment.slots() * ranks);
    const auto span = static_cast<std::size_t>(*rows.rbegin() - *rows.begin());
    EXPECT_EQ(span, (rows.size() - 1) * segment.row_bytes());
    EXPECT_LE(span, std::size_t{10} << 20);
  }
}

TEST(Segment, WithSeveralHostsEverySlotHasRoomForTheWordsThatLeaveTheHost) {
  for (const std::size_t ranks : {1U, 4U, 300U}) {
    const SegmentShape shape = SegmentShape::of_several_hosts(ranks, 300);
    EXPECT_EQ(shape.piece_values, SegmentShape::of_several_hosts(1, 300).piece_values);
    EXPECT_EQ(shape.row_bytes, 4 * shape.piece_values);
    const Segment segment = Segment::create(shape).value();
    EXPECT_TRUE(segment.is_of_several_hosts());
    const auto* rows_end = reinterpret_cast<const std::byte*>(segment.words(0));
    EXPECT_EQ(segment.row(segment.slots() - 1, ranks - 1) + segment.row_bytes(), rows_end);
    for (std::size_t slot = 0; slot < segment.slots(); ++slot) {
      EXPECT_EQ(segment.words(slot) + shape.words, segment.exponents(slot));
      if (slot > 0) {
        EXPECT_LE(segment.exponents(slot - 1) + shape.piece_values, segment.words(slot));
      }
    }
    const std::size_t last = segment.slots() - 1;
    segment.exponents(last)[shape.piece_values - 1] = 7;
    segment.words(last)[0] = 5;
    const Segment same = Segment::open(dup(segment.descriptor()), shape).value();
    EXPECT_EQ(same.exponents(last)[shape.piece_values - 1], 7);
    EXPECT_EQ(same.words(last)[0], 5);
  }
}

TEST(Segment, WakesSleepersAndNeverSleepsAfterAMissedEvent) {
  const Segment segment = Segment::create(1).value();
  constexpr std::int64_t kMinute = 60'000'000'000;
  const std::uint32_t before = segment.board().events.load();
  std::thread other([&] {
    while (segment.board().sleepers.load() == 0) std::this_thread::yield();
    segment.signal();
  });
  segment.sleep(before, kMinute);
  other.join();
  segment.sleep(before, kMinute);  // it has happened already
  EXPECT_EQ(segment.board().sleepers.load(), 0U);
}

TEST(Presence, EndsWithTheProcessHoweverItEnds) {
  const Segment segment = Segment::create(3).value();
  const Presence mine = Presence::of(segment.descriptor(), 0).value();
  EXPECT_FALSE(mine.is_there(1)) << "no process has claimed the rank";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto its = Presence::of(segment.descriptor(), 1);
    static_cast<void>(write(ready[1], "", 1));
    pause();
    _exit(its.ok() ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(mine.is_there(1));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(mine.is_there(1));
  close(ready[0]);
  close(ready[1]);
}

TEST(Presence, ARankCanBeClaimedOnce) {
  const Segment segment = Segment::create(2).value();
  const auto first = Presence::of(segment.descriptor(), 1);
  EXPECT_TRUE(first.ok());
  const auto second = Presence::of(segment.descriptor(), 1);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("cannot lock"));
}

TEST(CopyBytes, CopiesEveryLengthToEveryAddressAndNothingElse) {
  constexpr std::byte kUntouched{0xee};
  std::vector<std::byte> from(1000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
  for (const std::size_t length : {0U, 1U, 31U, 127U, 128U, 129U, 256U, 700U}) {
    for (std::size_t offset = 0; offset < 40; offset += 3) {
      std::vector<std::byte> to(1000, kUntouched);
      copy_bytes(to.data() + offset, from.data() + 2 * offset, length);
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool is_copied = i >= offset && i < offset + length;
        ASSERT_EQ(to[i], is_copied ? from[i + offset] : kUntouched) << length << " at " << offset;
      }
    }
  }
}

}  // namespace
}  // namespace atp
