// Leases, leaving and detaching (docs/inside/protocol §2, §6).
#include <algorithm>

#include "atp/core/server/job.h"

namespace atp {

void Job::end_leases(ServerTurn& turn) {
  const RankSet first = members_.expire(turn.now);
  RankSet ended = first;
  // Ranks that fell silent together sent their last JOINs at different times. The job is over, and
  // the others should hear of all of them (docs/inside/protocol §6, *Leases*).
  if (!ended.empty() && !joining()) {
    ended |= members_.expire(turn.now + turn.config.timing.lease / 4);
  }
  leases_at_ = members_.next_expiry();
  if (joining()) {
    finished_ = members_.known().empty();
    return;
  }
  if (!ended.empty()) {
    find_culprit();
    members_.lose(ended);
    note_failure(turn.now, first.lowest(), {});
    turn.count(ServerCounter::kRanksLost, ended.size());
    announce_gone(turn);
    gone_at_ = std::min(gone_at_, turn.now + turn.config.timing.waiting_for);
  }
  finish_if_all_gone();
}

StatusMessage left_status(const PacketView& packet, const Leave& leave) {
  StatusMessage message;
  message.code = StatusCode::kLeft;
  message.about = packet.ranks;
  message.nonce = leave.nonce;
  return message;
}

bool Job::handle_leave(ServerTurn& turn, const Arrival& in, const Leave& leave) {
  const Rank rank = in.packet.ranks.lowest();
  if (const ServerCounter fault = fault_of_leave(in, leave); fault != ServerCounter::kCount) {
    turn.count(fault);
    return true;
  }
  if (!members_.known().contains(rank)) return false;
  answer(turn, in, in.packet.ranks, left_status(in.packet, leave));
  if (members_.left().contains(rank)) return true;
  if (joining()) {
    members_.forget(rank);
    finished_ = members_.known().empty();
    return true;
  }
  members_.leave(rank);
  if (!leave.cause.empty()) note_failure(turn.now, rank, leave.cause);
  if (departure_count_ < departures_.size()) departures_[departure_count_++] = {rank, leave.cause};
  if (aggregation_->lacks(RankSet::of(rank))) announce_gone(turn);
  gone_at_ = std::min(gone_at_, turn.now + turn.config.timing.waiting_for);
  finish_if_all_gone();
  return true;
}

ServerCounter Job::fault_of_leave(const Arrival& in, const Leave& leave) const {
  const Rank rank = in.packet.ranks.lowest();
  if (in.packet.header.bitmap_words != terms_.bitmap_words()) {
    return ServerCounter::kDropWrongBitmapWidth;
  }
  if (!members_.all().contains(rank)) return ServerCounter::kDropForeignRanks;
  if (!members_.known().contains(rank)) return ServerCounter::kCount;
  // Without a lease of its straight path the rank's address is unknown: its nonce must do.
  const bool unheard = in.packet.has(ATP_FLAG_DIRECT) && !members_.straight().knows(rank);
  if (!unheard && members_.source_of(in.from, in.packet.ranks) == Source::kForeign) {
    return ServerCounter::kDropWrongSource;
  }
  return members_.record(rank).nonce == leave.nonce ? ServerCounter::kCount
                                                    : ServerCounter::kDropWrongNonce;
}

// The first one counts: others leave because of it.
void Job::note_failure(Instant now, Rank rank, const CauseText& cause) {
  if (failure_) return;
  failure_ = JobFailure{terms_.key, rank, members_.record(rank).own, cause, now};
}

std::optional<JobFailure> Job::take_failure() {
  if (failure_taken_ || !failure_) return std::nullopt;
  failure_taken_ = true;
  return failure_;
}

void Job::finish_if_all_gone() { finished_ = members_.gone() == members_.all(); }

void Job::find_culprit() {
  if (!members_.lost().empty()) return;  // the cause of the departures that follow
  for (std::size_t i = 0; i < departure_count_ && !culprit_; ++i) {
    if (aggregation_->lacks(RankSet::of(departures_[i].rank))) culprit_ = departures_[i];
  }
}

// The cause in place of its effects: ranks that fail leave, or let leases end. In a message of its
// own, it might be lost.
Job::Gone Job::gone(Downlink& down) {
  if (const Disagreement* first = aggregation_->mismatch()) {
    return {first->name, first->message(StatusMessage::kSomeAreGone)};
  }
  find_culprit();
  Gone gone;
  gone.name.stream = terms_.first_stream;
  if (culprit_) {
    gone.message.code = StatusCode::kLeft;
    gone.message.about = RankSet::of(culprit_->rank);
    gone.message.cause = culprit_->cause;
  } else if (!members_.lost().empty()) {
    gone.message.code = StatusCode::kLeaseEnded;
    gone.message.about = members_.lost();
  } else {
    gone.message.code = StatusCode::kLeft;
    gone.message.about = members_.left();
  }
  down.add_homes(gone.message);
  return gone;
}

void Job::announce_gone(ServerTurn& turn) {
  gone_announced_ = turn.now;
  Downlink down = downlink(turn);
  const Gone all = gone(down);
  down.status(all.name, all.message, down.present());
}

void Job::announce_detached(ServerTurn& turn) {
  detached_at_ = turn.now + turn.config.timing.join_refresh;
  StatusMessage message;
  message.code = StatusCode::kDetached;
  Downlink down = downlink(turn);
  std::size_t count = 0;
  const auto send = [&] {
    if (count > 0) down.status_to_switches(message);
    message.about.clear();
    count = 0;
  };
  members_.detached().for_each([&](Rank rank) {
    message.about.insert(rank);
    message.numbers[count++] = members_.record(rank).detachments;
    if (count == StatusMessage::kMaxNumbers) send();
  });
  send();
}

}  // namespace atp
