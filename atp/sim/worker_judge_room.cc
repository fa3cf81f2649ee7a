#include "atp/sim/worker_judge_room.h"

#include <algorithm>
#include <utility>

#include "atp/sim/parameter_bytes.h"

namespace atp::sim {
namespace {

constexpr std::uint64_t kLeastRoom = 2;
constexpr std::uint32_t kRoundsToGrow = 24;
constexpr std::uint32_t kRoundsToGrowAlone = 6;  // while nobody has said a part

}  // namespace

bool WorkerJudgeRoom::sends_new(std::uint16_t stream) {
  std::uint64_t& of_stream = in_flight_of_[stream];
  const bool fits = !room_ || of_stream == 0 || in_flight_ < *room_;
  ++of_stream;
  in_flight_at_send_ = ++in_flight_;
  return fits;
}

void WorkerJudgeRoom::takes_answer(std::uint16_t stream, bool collided, std::uint8_t part) {
  --in_flight_of_[stream];
  --in_flight_;
  if (!has_room_) return;
  const bool is_first = !std::exchange(has_answer_, true);
  if (is_first && room_) {
    if (part == 0) room_.reset();
    if (part != 0) set(std::max(kFirstRoom, kAggregatorsOfPart[part] / servers_));
  }
  if (part != 0) note_part(kAggregatorsOfPart[part]);
  if (!room_) {
    if (!collided) return;
    room_ = std::max(in_flight_at_send_, kLeastRoom);
    uncounted_ = 0;
    clean_rounds_ = 0;
    ++cuts_;
    return begin_round();
  }
  if (uncounted_ > 0) {
    --uncounted_;
    return;
  }
  collided_ += collided ? 1 : 0;
  if (++answers_ >= *room_) end_round();
}

// Another part than before changes the room in proportion.
void WorkerJudgeRoom::note_part(std::uint64_t part) {
  const std::uint64_t before = std::exchange(part_, part);
  if (!room_ || before == 0 || part == before) return;
  set(std::max(kLeastRoom, (2 * *room_ * part + before) / (2 * before)));
}

void WorkerJudgeRoom::begin_round() {
  answers_ = 0;
  collided_ = 0;
}

void WorkerJudgeRoom::end_round() {
  const std::uint64_t before = *room_;
  const bool is_clean = collided_ == 0;
  const std::uint64_t shrunk = before - std::min(before, collided_);
  clean_rounds_ = is_clean ? clean_rounds_ + 1 : 0;
  const bool grows = clean_rounds_ >= (part_ == 0 ? kRoundsToGrowAlone : kRoundsToGrow);
  if (grows) clean_rounds_ = 0;
  const std::uint64_t after = std::max(shrunk + (grows ? 1 : 0), least());
  if (after < before) ++cuts_;
  uncounted_ = is_clean ? 0 : in_flight_;
  begin_round();
  set(after);
}

// What allows each stream a whole window is no bound any more.
void WorkerJudgeRoom::set(std::uint64_t room) {
  room_ = room;
  if (room >= most_) room_.reset();
}

std::uint64_t WorkerJudgeRoom::least() const {
  return std::max(kLeastRoom, part_ * 5 / (servers_ * 8));
}

}  // namespace atp::sim
