#include <gmock/gmock.h>

#include <string>

#include "atp/core/dataplane/switch_rig_test.h"
#include "atp/core/testing_drops.h"
#include "atp/core/testing_fates.h"

// What a switch does with every type of message in every circumstance.

namespace atp::rig {
namespace {

using S = SwitchCounter;

// Two contributions of fragment kNow are already here; a PARAMETER has released kPast; kFuture is
// further ahead than a window allows.
constexpr std::uint64_t kPast = 4;
constexpr std::uint64_t kNow = 20;
constexpr std::uint64_t kFuture = 1000;

Rig busy_switch() {
  Rig rig;
  rig.join_all();
  rig.in(kServer, parameter(RankSet::first(4), kPast));
  rig.in(child(0), gradient(ranks({0}), kNow, 1));
  rig.in(child(1), gradient(ranks({1}), kNow, 1));
  return rig;
}

void move(atp_header& h, When when) {
  h.sequence = when == When::kPast ? kPast : kFuture;
  h.aggregator_index = atp_fmix32(static_cast<std::uint32_t>(h.sequence));
}

StatusMessage waiting_for_rank_3() {
  StatusMessage message;
  message.code = StatusCode::kWaitingFor;
  message.about = ranks({3});
  return message;
}

struct Message {
  const char* name;
  Bytes bytes;
  Endpoint from;
  Fates<S> fates;
};

// Control messages have no sequence and no operation, so those circumstances do not matter to them.
const Message kMessages[] = {
    {"GRADIENT",
     gradient(ranks({2}), kNow, 1),
     child(2),
     {S::kForwardedLate, S::kGradientsSummed, S::kForwardedBeyondLimit, S::kDuplicates,
      S::kDropUnknownJob, S::kDropUnknownJob, S::kOperationMismatches, S::kDropUnknownChild}},
    {"PARAMETER",
     parameter(RankSet::first(4), kNow),
     kServer,
     {S::kMarks, S::kReleases, S::kMarks, S::kMarks, S::kDropUnknownJob, S::kDropUnknownJob,
      S::kMulticastCopies, S::kDropNotFromParent}},
    {"FLUSH",
     bare(PacketType::kFlush, ranks({2, 3}), kNow),
     kServer,
     {S::kMulticastCopies, S::kFlushedSumsSent, S::kMulticastCopies, S::kMulticastCopies,
      S::kDropUnknownJob, S::kDropUnknownJob, S::kMulticastCopies, S::kDropNotFromParent}},
    {"NACK",
     bare(PacketType::kNack, ranks({2, 3}), kNow),
     kServer,
     {S::kMulticastCopies, S::kMulticastCopies, S::kMulticastCopies, S::kMulticastCopies,
      S::kDropUnknownJob, S::kDropUnknownJob, S::kMulticastCopies, S::kDropNotFromParent}},
    {"JOIN",
     join(2),
     child(2),
     {S::kJoinsRelayed, S::kJoinsRelayed, S::kJoinsRelayed, S::kJoinsRelayed, S::kTreesMade,
      S::kTreesMade, S::kJoinsRelayed,
      S::kJoinsRelayed /* the nonce is right: the rank has come by another path */}},
    {"JOIN_ACK",
     join_ack(ranks({2}), ack_body()),
     kServer,
     {S::kMulticastCopies, S::kMulticastCopies, S::kMulticastCopies, S::kMulticastCopies,
      S::kDropUnknownJob, S::kDropUnknownJob, S::kMulticastCopies, S::kDropNotFromParent}},
    {"LEAVE",
     leave(2, nonce(2)),
     child(2),
     {S::kLeavesRelayed, S::kLeavesRelayed, S::kLeavesRelayed, S::kLeavesRelayed,
      S::kDropUnknownJob, S::kDropUnknownJob, S::kLeavesRelayed, S::kDropUnknownChild}},
    {"STATUS",
     status(ranks({2}), waiting_for_rank_3()),
     kServer,
     {S::kMulticastCopies, S::kMulticastCopies, S::kMulticastCopies, S::kMulticastCopies,
      S::kDropUnknownJob, S::kDropUnknownJob, S::kMulticastCopies, S::kDropNotFromParent}},
};

void check(const Message& message, std::size_t circumstance) {
  const Circumstance& c = kCircumstances[circumstance];
  SCOPED_TRACE(std::string(message.name) + ", " + c.name);
  Rig rig = busy_switch();
  const Bytes bytes = in_circumstance(c, message.bytes, move);
  const Endpoint from = c.from_stranger ? kStranger : message.from;
  for (int i = 1; i < c.times; ++i) rig.in(from, bytes);

  const S fate = message.fates[circumstance];
  const std::uint64_t before = rig.count(fate);
  const std::uint64_t drops = rig.drops();
  rig.in(from, bytes);
  EXPECT_GT(rig.count(fate), before) << to_string(fate);
  const bool dropped = is_drop(to_string(fate));
  EXPECT_EQ(rig.drops(), drops + (dropped ? 1 : 0));
  if (!dropped) return;
  // The sum here is unchanged.
  rig.in(child(2), gradient(ranks({2}), kNow, 1));
  const auto sum = rig.in(child(3), gradient(ranks({3}), kNow, 1));
  ASSERT_THAT(receivers(sum), testing::ElementsAre(kServer));
  EXPECT_THAT(sum[0].values(), testing::Each(4u));
}

TEST(SwitchFates, OfEveryMessageInEveryCircumstance) {
  for (const Message& message : kMessages) {
    for (std::size_t i = 0; i < std::size(kCircumstances); ++i) check(message, i);
  }
}

}  // namespace
}  // namespace atp::rig
