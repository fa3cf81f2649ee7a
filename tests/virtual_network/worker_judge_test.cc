#include "atp/sim/worker_judge.h"

#include <gmock/gmock.h>

#include "tests/virtual_network/judged_packets.h"

// The objections of the judge of a worker to packets that no honest one sends.

namespace atp::sim::judged {
namespace {

using testing::IsEmpty;

class WorkerCourt {
 public:
  explicit WorkerCourt(const WorkerConfig& config = rules()) : judge_(config, kWmax) {}

  void sends(const Of& of, const Endpoint& to = kSwitch) {
    Outbox out;
    out.send(to, packet(PacketType::kGradient, of));
    judge_.end_turn(now, attached, room_cuts, out);
  }
  void sends_the_first(std::uint64_t count) {
    for (std::uint64_t sequence = 0; sequence < count; ++sequence) sends({sequence});
  }
  void gets(PacketType type, const Of& of) { judge_.took(kSwitch, packet(type, of)); }
  // The answer to the oldest, and nothing is sent.
  void is_answered(std::uint64_t sequence, bool collided, std::uint8_t part = 0) {
    gets(PacketType::kParameter, {.sequence = sequence,
                                  .flags = collided ? 1U * ATP_FLAG_COLLISION : 0U,
                                  .next_or_magnitude = 512,
                                  .part = part});
    judge_.end_turn(now, attached, room_cuts, Outbox());
  }
  void is_attached_after(Duration time, bool now_attached) {
    now += time;
    attached = now_attached;
    judge_.end_turn(now, attached, room_cuts, Outbox());
  }

  const std::vector<std::string>& violations() const { return judge_.violations(); }
  Instant now = kStart;
  bool attached = true;
  std::uint64_t room_cuts = 0;  // as the worker counts them

  static WorkerConfig rules() {
    WorkerConfig config;
    config.job = kJob;
    config.rank = 1;
    config.world_size = 4;
    config.route.push_back(kSwitch);
    config.route.push_back(kServer);
    config.overflow = OverflowPolicy::kProactive;
    return config;
  }

 private:
  WorkerJudge judge_;
};

WorkerCourt court_of_the_papers_repeats() {
  WorkerConfig config = WorkerCourt::rules();
  config.plain_repeats = false;
  return WorkerCourt(config);
}

constexpr Of kAnswerOfTheFirst{.next_or_magnitude = 1024};

TEST(WorkerJudge, AcceptsAnHonestWorker) {
  WorkerCourt court;
  court.sends_the_first(4);
  court.gets(PacketType::kParameter, {.kind = ATP_KIND_SUM_PLAIN});  // no answer to it
  court.sends({});
  court.gets(PacketType::kParameter, kAnswerOfTheFirst);
  court.sends({.sequence = 4, .index = 1024});
  court.gets(PacketType::kNack, {.sequence = 2, .flags = ATP_FLAG_FLOAT});
  court.sends({.sequence = 2, .flags = ATP_FLAG_FLOAT | ATP_FLAG_DIRECT}, kServer);
  court.gets(PacketType::kParameter, {.sequence = 1, .next_or_magnitude = 512});
  court.gets(PacketType::kNack, {.sequence = 5, .operation = 0});
  court.sends({.sequence = 5, .flags = ATP_FLAG_RESEND});
  court.is_attached_after(std::chrono::milliseconds(1), false);
  court.sends({.sequence = 3, .flags = ATP_FLAG_DIRECT}, kServer);
  court.is_attached_after(std::chrono::milliseconds(1), true);
  court.is_attached_after(std::chrono::milliseconds(1), false);
  court.is_attached_after(std::chrono::milliseconds(250), true);
  EXPECT_THAT(court.violations(), IsEmpty());
}

// Four are in flight when the first answer collides, so the room is four, until the part that the
// switches say halves it.
void fill_a_room_of_two(WorkerCourt& court) {
  court.sends_the_first(4);
  court.room_cuts = 1;
  court.is_answered(0, true, 8);
  court.is_answered(1, false, 4);
  court.is_answered(2, false);
}

TEST(WorkerJudge, AcceptsAWorkerThatKeepsToItsRoom) {
  WorkerCourt court;
  fill_a_room_of_two(court);
  court.sends({.sequence = 4});
  court.is_answered(3, false);
  court.sends({.sequence = 5});
  EXPECT_THAT(court.violations(), IsEmpty());
}

TEST(WorkerJudge, AcceptsRepeatsAsInThePaper) {
  WorkerCourt court = court_of_the_papers_repeats();
  court.sends_the_first(2);
  court.sends({.sequence = 0, .flags = ATP_FLAG_RESEND});
  court.sends({.sequence = 1, .flags = ATP_FLAG_DIRECT | ATP_FLAG_FLOAT}, kServer);
  EXPECT_THAT(court.violations(), IsEmpty());
}

TEST(WorkerJudge, ObjectsToPacketsThatNoWorkerMaySend) {
  const Case<WorkerCourt> cases[] = {
      {"another rank's", [](WorkerCourt& c) { c.sends({.ranks = RankSet::of(2)}); }, "other ranks"},
      {"a hop too few is left", [](WorkerCourt& c) { c.sends({.hops = 15}); },
       "the wrong hop count"},
      {"to a stranger", [](WorkerCourt& c) { c.sends({}, kOtherWorker); }, "to a stranger"},
      {"floats without DIRECT", [](WorkerCourt& c) { c.sends({.flags = ATP_FLAG_FLOAT}); },
       "floats that may be merged"},
      {"plain while detached",
       [](WorkerCourt& c) {
         c.is_attached_after(std::chrono::milliseconds(1), false);
         c.sends({});
       },
       "while detached"},
      {"a fragment that was asked for, without RESEND",
       [](WorkerCourt& c) {
         c.gets(PacketType::kNack, {.sequence = 0});
         c.sends({});
       },
       "asked for, without RESEND"},
      {"integers where floats were asked for",
       [](WorkerCourt& c) {
         c.sends({});
         c.gets(PacketType::kNack, {.flags = ATP_FLAG_FLOAT});
         c.sends({});
       },
       "integers where floats"},
      {"a value that may overflow",
       [](WorkerCourt& c) { c.sends({.next_or_magnitude = 0x7fffffffU / 4 + 1}); }, "may overflow"},
      {"a window and one more", [](WorkerCourt& c) { c.sends_the_first(5); },
       "further ahead than Wmax"},
      {"a sequence is left out", [](WorkerCourt& c) { c.sends({.sequence = 1}); }, "out of order"},
      {"the index from before a collision",
       [](WorkerCourt& c) {
         c.sends_the_first(4);
         c.gets(PacketType::kParameter, kAnswerOfTheFirst);
         c.sends({.sequence = 4});
       },
       "whose index is not the one"},
      {"an answered fragment again",
       [](WorkerCourt& c) {
         c.sends_the_first(2);
         c.gets(PacketType::kParameter, {});
         c.sends({});
       },
       "a repeat of an answered fragment"},
      {"another operation",
       [](WorkerCourt& c) {
         c.sends({});
         c.sends({.operation = 78});
       },
       "a repeat as another operation"},
      {"a plain repeat by the paper's rules",
       [](WorkerCourt& c) {
         c = court_of_the_papers_repeats();
         c.sends({});
         c.sends({});
       },
       "that switches may add"},
      {"more in flight than the room",
       [](WorkerCourt& c) {
         fill_a_room_of_two(c);
         c.sends({.sequence = 4});
         c.sends({.sequence = 5});
       },
       "without room for it"},
      {"the room is not cut by the first collision",
       [](WorkerCourt& c) {
         c.sends_the_first(4);
         c.is_answered(0, true);
       },
       "cut 0 times instead of 1"},
      {"the room is cut without a collision",
       [](WorkerCourt& c) {
         c.sends_the_first(4);
         c.room_cuts = 1;
         c.is_answered(0, false);
       },
       "cut 1 times instead of 0"},
      {"a rank returns a second time too soon",
       [](WorkerCourt& c) {
         for (const int wait : {1, 1, 1, 249}) {
           c.is_attached_after(std::chrono::milliseconds(wait), !c.attached);
         }
       },
       "before its time"},
  };
  expect_objections(cases);
}

}  // namespace
}  // namespace atp::sim::judged
