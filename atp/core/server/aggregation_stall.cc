#include <algorithm>

#include "atp/core/server/aggregation.h"
#include "atp/core/server/fragment.h"

// The timers of the sums: which fragments are stalled, and what the server does about them.
//
// All ranks send in sequence order, so all have sent every fragment below a complete one: its
// missing contributions were lost or lie in a switch. Any other fragment is stalled if a part of it
// arrived a while ago. A fragment of which nothing has arrived and that none has overtaken only
// waits for a slow peer, and a FLUSH would undo its aggregation.

namespace atp {
namespace {

// How many of a stream's oldest fragments get FLUSH and NACK at a time. Whatever holds them up,
// such as a slow rank, holds up later ones too; those follow once the oldest are complete.
constexpr std::size_t kPulledAtATime = 64;
constexpr std::size_t kVisitedAtATime = 256;

}  // namespace

void Aggregation::handle_timeout(Downlink& down) {
  next_timeout_ = kNever;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].check_at <= down.turn().now) check_stream(down, i);
    next_timeout_ = std::min(next_timeout_, streams_[i].check_at);
  }
}

void Aggregation::check_stream(Downlink& down, std::size_t stream) {
  ServerTurn& turn = down.turn();
  const Timing& timing = turn.config.timing;
  FragmentRing& ring = streams_[stream].ring;
  Instant next = kNever;
  std::uint64_t end = std::min(ring.seen_end(), ring.head() + kVisitedAtATime);
  bool is_oldest = true;
  std::size_t pulled = 0;
  for (std::uint64_t s = ring.head(); s < end && pulled < kPulledAtATime; ++s) {
    Fragment& fragment = ring.at(s);
    if (fragment.complete()) continue;
    if (fragment.stall.act_at == kNever) {
      if (s >= ring.completed_end()) continue;
      fragment.since = turn.now;
      restart_stall(fragment.stall, turn.now, timing);
    }
    if (is_oldest) next = std::min(next, announce_waiting_for(down, stream, fragment));
    is_oldest = false;
    // The server asks for it once it has a slot. However many such fragments there are, they must
    // not keep the loop from reaching those that hold a slot.
    if (fragment.mode == FragmentMode::kAwaitingFloatSlot) {
      end = std::min(ring.seen_end(), end + 1);
      continue;
    }
    next = std::min(next, pull_along(down, stream, fragment));
    ++pulled;
  }
  // watch() schedules the check of later ones, when the oldest are complete.
  streams_[stream].check_at = next;
}

Instant Aggregation::pull_along(Downlink& down, std::size_t stream, Fragment& fragment) {
  ServerTurn& turn = down.turn();
  if (turn.now < fragment.stall.act_at) return fragment.stall.act_at;
  // One packet per path. Without room for them the fragment waits for the next round.
  const RankSet asked = missing(fragment);
  if (!turn.out.has_room_for_copies(down.paths_to(asked)))
    return turn.now + turn.config.timing.nack_after;
  const bool is_float = fragment.mode == FragmentMode::kFloat;
  const std::size_t levels = is_float ? 0 : down.members().height();
  switch (next_stall_action(fragment.stall, turn.now, levels, turn.config.timing)) {
    case StallAction::kNone: break;
    case StallAction::kFlush: down.flush(name_of(stream, fragment), asked); break;
    case StallAction::kNack:
      down.nack(name_of(stream, fragment), is_float ? ATP_FLAG_FLOAT : 0,
                asked - down.members().gone(), {});
      break;
  }
  return fragment.stall.act_at;
}

std::optional<WaitedFor> Aggregation::waited_for(Instant now, Duration at_least) const {
  std::optional<WaitedFor> oldest;
  RankSet everywhere = all_;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const FragmentRing& ring = streams_[i].ring;
    const Fragment* head = ring.pending() ? ring.find(ring.head()) : nullptr;
    // While it waits for a slot its bitmap means nothing.
    const bool waits = head != nullptr && head->named && !head->complete() &&
                       head->mode != FragmentMode::kAwaitingFloatSlot;
    if (!waits || now < head->since + at_least) continue;
    everywhere &= missing(*head);
    if (oldest && oldest->since <= head->since) continue;
    oldest =
        WaitedFor{missing(*head), head->since, wire_stream(i), head->sequence, head->operation};
  }
  if (oldest && !everywhere.empty()) oldest->ranks = everywhere;
  return oldest;
}

RankSet Aggregation::named_of(Instant now, const Fragment& fragment) const {
  // Other streams count if they have been stalled for nearly as long.
  constexpr Duration kNearly = std::chrono::milliseconds(250);
  const auto waited = waited_for(now, kNearly);
  if (fragment.mode == FragmentMode::kAwaitingFloatSlot) {
    // The ranks awaited by the fragments with slots are the ones that hold everything up.
    return waited ? waited->ranks : RankSet{};
  }
  const RankSet lacking = missing(fragment);
  return waited && lacking.intersects(waited->ranks) ? waited->ranks & lacking : lacking;
}

Instant Aggregation::announce_waiting_for(Downlink& down, std::size_t stream, Fragment& fragment) {
  ServerTurn& turn = down.turn();
  const Duration period = turn.config.timing.waiting_for;
  Instant& announced = streams_[stream].waiting_announced;
  const Instant due = std::max(fragment.since, announced) + period;
  if (turn.now < due) return due;
  if (!turn.out.has_room_for_copies(down.paths_to(down.present()))) {
    return turn.now + turn.config.timing.nack_after;
  }
  announced = turn.now;
  if (mismatch() == nullptr) {
    // It may have been seen while an earlier mismatch held.
    if (!fragment.disagreeing.empty()) {
      note_mismatch(stream, fragment, fragment.disagreeing);
    } else if (is_crossed_for_good(down, stream, fragment)) {
      note_mismatch(stream, fragment, streams_[stream].crossing->others);
    }
  }
  if (const Disagreement* first = mismatch()) {
    down.status(first->name, first->message(), down.present());
  } else {
    StatusMessage message = down.waiting_for(named_of(turn.now, fragment));
    message.cause = description_of(fragment.operation);
    down.status(name_of(stream, fragment), message, down.present());
  }
  return turn.now + period;
}

CauseText Aggregation::description_of(std::uint32_t operation) const {
  for (const Stream& stream : streams_) {
    if (stream.described.operation == operation) return stream.described.text;
  }
  return {};
}

void Aggregation::describe(ServerTurn& turn, const atp_header& header, const CauseText& text) {
  Stream& stream = streams_[header.stream - terms_.first_stream];
  const Fragment* head = stream.ring.pending() ? stream.ring.find(stream.ring.head()) : nullptr;
  const bool waits = head != nullptr && head->named && !head->complete() &&
                     head->operation == header.operation &&
                     turn.now >= head->since + turn.config.timing.waiting_for;
  if (!waits) return turn.count(ServerCounter::kDropNotAwaited);
  turn.count(ServerCounter::kDescriptions);
  // The first one counts, so a rank cannot make the server announce at will.
  if (stream.described.operation == header.operation || text.empty()) return;
  stream.described = {header.operation, text};
  stream.waiting_announced = kLongAgo;
  stream.check_at = std::min(stream.check_at, turn.now);
  next_timeout_ = std::min(next_timeout_, turn.now);
}

// docs/inside/protocol §6, *Waiting for*, rules 4 and 5.
RankSet Aggregation::crossed_with(const Downlink& down, std::size_t stream,
                                  const Fragment& fragment) const {
  const ServerTurn& turn = down.turn();
  const Timing& timing = turn.config.timing;
  if (!fragment.named || fragment.mode == FragmentMode::kAwaitingFloatSlot) return {};
  const RankSet heard = down.members().heard_since(turn.now, 2 * timing.join_refresh, timing.lease);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const FragmentRing& ring = streams_[i].ring;
    const Fragment* head = i != stream && ring.pending() ? ring.find(ring.head()) : nullptr;
    if (head == nullptr || !head->named || head->complete()) continue;
    if (head->mode == FragmentMode::kAwaitingFloatSlot) continue;
    if (head->operation == fragment.operation || turn.now < head->since + timing.waiting_for)
      continue;
    const RankSet lacking = missing(fragment) | missing(*head);
    if (!missing(fragment).intersects(missing(*head)) && heard.contains(lacking))
      return head->bitmap;
  }
  return {};
}

bool Aggregation::is_crossed_for_good(Downlink& down, std::size_t stream,
                                      const Fragment& fragment) {
  std::optional<Crossing>& crossing = streams_[stream].crossing;
  const RankSet others = crossed_with(down, stream, fragment);
  if (others.empty()) {
    crossing.reset();
    return false;
  }
  const Instant now = down.turn().now;
  if (!crossing || crossing->sequence != fragment.sequence || crossing->ranks != fragment.bitmap ||
      crossing->others != others) {
    crossing = Crossing{fragment.sequence, fragment.bitmap, others, now};
  }
  return now >= crossing->since + down.turn().config.timing.crossed;
}

}  // namespace atp
