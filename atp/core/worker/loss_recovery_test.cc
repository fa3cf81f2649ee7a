#include "atp/core/worker/loss_recovery.h"

#include <gtest/gtest.h>

#include <vector>

// The rules of loss recovery without a worker: no packet, no outbox, time is a number.

namespace atp {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

using Sequences = std::vector<std::uint64_t>;

struct LadderCase {
  const char* name;
  SentFragment fragment;
  Rung least;
  bool attached;
  Rung rung;
  unsigned flags;
  bool straight;
  WorkerCounter counter;
};

constexpr unsigned kResend = ATP_FLAG_RESEND;
constexpr unsigned kDirect = ATP_FLAG_DIRECT;
constexpr unsigned kFloat = ATP_FLAG_FLOAT;
using enum WorkerCounter;
const LadderCase kLadder[] = {
    {"first plain", {}, Rung::kNone, true, Rung::kPlain, 0, false, kRepeatsPlain},
    {"then RESEND",
     {.rung = Rung::kPlain},
     Rung::kNone,
     true,
     Rung::kResend,
     kResend,
     false,
     kRepeatsResend},
    {"then past all switches",
     {.rung = Rung::kResend},
     Rung::kNone,
     true,
     Rung::kDirect,
     kResend | kDirect,
     true,
     kRepeatsDirect},
    {"and no further",
     {.rung = Rung::kDirect},
     Rung::kNone,
     true,
     Rung::kDirect,
     kResend | kDirect,
     true,
     kRepeatsDirect},
    {"directly to the requested rung",
     {},
     Rung::kDirect,
     true,
     Rung::kDirect,
     kResend | kDirect,
     true,
     kRepeatsDirect},
    {"never back",
     {.rung = Rung::kResend},
     Rung::kPlain,
     true,
     Rung::kDirect,
     kResend | kDirect,
     true,
     kRepeatsDirect},
    {"detached: the same rung, straight",
     {},
     Rung::kNone,
     false,
     Rung::kPlain,
     kDirect,
     true,
     kRepeatsPlain},
    {"floats go straight from the first repeat on",
     {.float_mode = true},
     Rung::kNone,
     true,
     Rung::kPlain,
     kFloat | kDirect,
     true,
     kRepeatsFloat},
    {"floats need no RESEND",
     {.rung = Rung::kResend, .float_mode = true},
     Rung::kNone,
     true,
     Rung::kDirect,
     kFloat | kDirect,
     true,
     kRepeatsFloat},
};

TEST(NextRepeat, ClimbsTheLadderInTheFormThatTheFragmentNeeds) {
  for (const LadderCase& c : kLadder) {
    SCOPED_TRACE(c.name);
    const Repeat repeat = next_repeat(c.fragment, c.least, c.attached);
    EXPECT_EQ(repeat.rung, c.rung);
    EXPECT_EQ(repeat.flags, c.flags);
    EXPECT_EQ(repeat.straight, c.straight);
    EXPECT_EQ(repeat.counter, c.counter);
  }
}

TEST(RetransmissionTimeout, ATimeOutDoublesPerFiringUpToItsMaximumAndJittersByAnEighth) {
  const Timing timing;
  RetransmissionTimeout clock(timing, 7);
  for (int i = 0; i < 50; ++i) clock.sample(milliseconds(1));
  const Duration once = clock.rto();
  for (const unsigned firings : {0U, 1U, 2U, 3U, 20U}) {
    const Duration least = std::min(once * (1 << std::min(firings, 10U)), timing.rto_max);
    const Duration wait = clock.backed_off(firings);
    EXPECT_GE(wait, least) << firings;
    EXPECT_LE(wait, least + least / 8) << firings;
  }
  EXPECT_NE(clock.backed_off(0), clock.backed_off(0)) << "workers must not repeat in step";
}

// In one of four samples a rank waits for a peer whose own timer must fire; in the others, for
// nobody.
TEST(RetransmissionTimeout, RanksThatWaitForEachOthersTimersDoNotDriveThemUp) {
  const Timing timing;
  RetransmissionTimeout clock(timing, 1);
  clock.bound(microseconds(200));
  for (int i = 0; i < 4000; ++i) {
    clock.sample(i % 4 == 3 ? clock.rto() : Duration(microseconds(200)));
    ASSERT_LT(clock.rto(), milliseconds(35)) << "after " << i << " samples";
  }
}

TEST(RetransmissionTimeout, FollowsASlowerNetworkWithinAWindowOfSamples) {
  RetransmissionTimeout clock(Timing{}, 1);
  clock.bound(microseconds(200));
  for (int i = 0; i < 64; ++i) clock.sample(milliseconds(300));
  EXPECT_GT(clock.rto(), milliseconds(300));
}

TEST(RetransmissionTimeout, AProbeComesBeforeTheTimeOutOrNotAtAll) {
  struct Case {
    milliseconds round_trip;
    bool probed;
    bool probed_again;
  };
  // A time-out is 25 ms more than the round trip here, a probe twice the round trip and 2 ms.
  for (const Case c : {Case{milliseconds(1), true, true}, Case{milliseconds(5), true, true},
                       Case{milliseconds(15), true, false}, Case{milliseconds(30), false, false}}) {
    RetransmissionTimeout clock(Timing{}, 1);
    for (int i = 0; i < 50; ++i) clock.sample(c.round_trip);
    EXPECT_FALSE(clock.probe_after(Instant{}, 0)) << "without a loss";
    clock.saw_loss(Instant{});
    EXPECT_EQ(clock.probe_after(Instant{}, 0).has_value(), c.probed) << c.round_trip.count();
    EXPECT_EQ(clock.probe_after(Instant{}, 1).has_value(), c.probed_again) << c.round_trip.count();
    EXPECT_FALSE(clock.probe_after(Instant{}, 2));
  }
}

TEST(RetransmissionTimeout, ReorderingLastsARoundTripAndAQuarterButAtLeastItsMinimum) {
  const Timing timing;
  RetransmissionTimeout clock(timing, 1);
  for (int i = 0; i < 100; ++i) clock.sample(milliseconds(1));
  EXPECT_EQ(clock.reordering_ends(), milliseconds(1) + timing.reorder_min);
  RetransmissionTimeout far(timing, 1);
  far.sample(milliseconds(100));
  EXPECT_EQ(far.reordering_ends(), milliseconds(125));
}

// A stream with a window of 16 and this many fragments in flight.
struct Flow {
  explicit Flow(std::uint64_t fragments) {
    window.extend(fragments);
    while (window.may_send()) window.send(now);
    recovery.start_timer(now, clock);
  }
  void advance(Duration by) { now += by; }
  // Advances to the next timer. If it asks to repeat the oldest fragment, does so and returns true.
  bool fire() {
    now = recovery.due();
    const TimerAction action = recovery.on_timer(now, window, clock);
    if (action != TimerAction::kTimeout && action != TimerAction::kProbe) return false;
    repeat(window.base(), true);
    return true;
  }
  void repeat(std::uint64_t sequence, bool timer = false) {
    SentFragment& fragment = window.at(sequence);
    fragment.rung = next_rung(fragment.rung);
    fragment.last_sent = now;
    fragment.by_timer = fragment.by_timer || timer;
  }
  bool answer(std::uint64_t sequence) {
    const SentFragment before = window.at(sequence);
    window.answer(sequence);
    return recovery.on_answer(now, before, window, clock);
  }
  Sequences send_paced() {
    Sequences sent;
    while (const auto sequence = recovery.next_paced(window)) {
      repeat(*sequence);
      recovery.repeated_paced();
      sent.push_back(*sequence);
    }
    return sent;
  }

  Instant now{std::chrono::seconds(1)};
  SendWindow window{16};
  RetransmissionTimeout clock{Timing{}, 1};
  LossRecovery recovery;
};

TEST(LossRecovery, ATimeOutRepeatsTheOldestAloneAndWaitsLongerForItsAnswer) {
  Flow flow(8);
  const Duration first = flow.recovery.due() - flow.now;
  EXPECT_TRUE(flow.fire());
  EXPECT_TRUE(flow.send_paced().empty());
  const Duration second = flow.recovery.due() - flow.now;
  EXPECT_GE(second, first * 16 / 9) << "doubled, but for the jitter";
  flow.answer(1);
  EXPECT_LE(flow.recovery.due() - flow.now, first * 9 / 8) << "an answer ends the doubling";
}

TEST(LossRecovery, AfterAnAnsweredTimeOutTheOthersFollowTwoPerAnswer) {
  Flow flow(8);
  flow.fire();
  EXPECT_FALSE(flow.answer(0)) << "the time-out already counted this loss";
  EXPECT_TRUE(flow.send_paced().empty()) << "the timer may have been early";
  EXPECT_EQ(flow.recovery.due(), flow.now + flow.clock.reordering_ends());
  EXPECT_FALSE(flow.fire()) << "not a time-out";
  EXPECT_EQ(flow.send_paced(), (Sequences{1, 2}));
  EXPECT_TRUE(flow.answer(1)) << "the repeat was needed: more than one was lost";
  EXPECT_EQ(flow.send_paced(), (Sequences{3, 4}));
}

TEST(LossRecovery, AnAnswerToAnUnrepeatedFragmentEndsThePacedRepeats) {
  Flow early(8);
  early.fire();
  early.answer(0);
  early.answer(3);
  early.fire();
  EXPECT_TRUE(early.send_paced().empty()) << "before they began";

  Flow later(8);
  later.fire();
  later.answer(0);
  later.fire();
  EXPECT_EQ(later.send_paced(), (Sequences{1, 2}));
  EXPECT_FALSE(later.answer(5));
  EXPECT_TRUE(later.send_paced().empty()) << "and after they began";
}

TEST(LossRecovery, OnANewPathAnEarlierTimeOutChangesNothing) {
  Flow flow(8);
  flow.fire();
  flow.answer(0);  // the others would be repeated next
  flow.recovery.repeat_all(flow.window);
  flow.fire();
  EXPECT_EQ(flow.send_paced(), (Sequences{1, 2}));
  EXPECT_FALSE(flow.answer(5)) << "it was not repeated";
  EXPECT_EQ(flow.send_paced(), (Sequences{3, 4})) << "everything is repeated, not only losses";
}

TEST(LossRecovery, OnANewPathEverythingOutstandingIsRepeatedFromTheFirstRung) {
  Flow flow(6);
  flow.answer(1);
  flow.repeat(0);
  flow.repeat(0);
  ASSERT_EQ(flow.window.at(0).rung, Rung::kResend);
  flow.recovery.repeat_all(flow.window);
  EXPECT_EQ(flow.send_paced(), (Sequences{0, 2}));
  EXPECT_EQ(flow.window.at(0).rung, Rung::kPlain);
  EXPECT_FALSE(flow.answer(4)) << "no loss, though it was not repeated";
  EXPECT_EQ(flow.send_paced(), (Sequences{3, 5}));
}

TEST(LossRecovery, AFragmentThatThreeLaterAnswersOvertookIsLostOnceItIsTooLateForReordering) {
  Flow flow(12);
  flow.answer(1);
  flow.answer(2);
  flow.advance(flow.clock.reordering_ends());
  EXPECT_FALSE(flow.recovery.next_overtaken(flow.now, flow.window, flow.clock))
      << "only two later answers";
  flow.answer(3);
  const auto lost = flow.recovery.next_overtaken(flow.now, flow.window, flow.clock);
  EXPECT_EQ(lost, 0u);

  Flow soon(12);
  for (const std::uint64_t sequence : {1u, 2u, 3u}) soon.answer(sequence);
  soon.advance(soon.clock.reordering_ends() - Duration(1));
  EXPECT_FALSE(soon.recovery.next_overtaken(soon.now, soon.window, soon.clock));
}

TEST(LossRecovery, ALostRepeatOfAnOvertakenFragmentIsNoticedAfterATimeOut) {
  Flow flow(8);
  for (const std::uint64_t sequence : {1u, 2u, 3u}) flow.answer(sequence);
  flow.advance(milliseconds(20));
  flow.repeat(0);
  flow.advance(flow.clock.rto());
  EXPECT_FALSE(flow.recovery.lost_again(flow.now, flow.window, flow.clock))
      << "it was not repeated early";
  flow.window.at(0).repeated_early = true;
  EXPECT_EQ(flow.recovery.lost_again(flow.now, flow.window, flow.clock), 0u);
  flow.window.at(0).last_sent += Duration(1);
  EXPECT_FALSE(flow.recovery.lost_again(flow.now, flow.window, flow.clock));
}

TEST(LossRecovery, NothingIsDueWhenEverythingIsAnsweredOrTheJobIsOver) {
  Flow flow(2);
  flow.answer(0);
  EXPECT_NE(flow.recovery.due(), kNever);
  flow.answer(1);
  EXPECT_EQ(flow.recovery.due(), kNever);

  Flow over(8);
  over.recovery.repeat_all(over.window);
  over.recovery.stop();
  EXPECT_EQ(over.recovery.due(), kNever);
  EXPECT_TRUE(over.send_paced().empty());
}

TEST(LossRecovery, IsAValue) {
  Flow one(8);
  Flow other(8);
  one.fire();
  EXPECT_NE(one.recovery, other.recovery);
  other.fire();
  EXPECT_EQ(one.recovery, other.recovery);
}

}  // namespace
}  // namespace atp
