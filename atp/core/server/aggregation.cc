// What a GRADIENT changes: it adds integers or floats, hands out float slots, completes fragments
// and answers repeats. aggregation_stall.cc has the timers.
#include "atp/core/server/aggregation.h"

#include <algorithm>

#include "atp/base/check.h"
#include "atp/core/server/fragment.h"
#include "atp/wire/lanes.h"

namespace atp {
namespace {

constexpr std::uint32_t kLargestExact = 0x7fffffffU;

// How long a fragment whose ranks have all sent floats waits before another stream must give up a
// slot: many times as long as a fragment takes if all ranks can send it.
constexpr Duration kSlotPatience = std::chrono::milliseconds(100);

// Returns the ranks not answered within the pause, and marks them as answered.
RankSet take_due(AnswerState& answered, const RankSet& ranks, Instant now, Duration pause) {
  if (answered.since + pause <= now) answered = {RankSet{}, now};
  const RankSet due = ranks - answered.ranks;
  answered.ranks |= due;
  return due;
}

// Takes a fragment's operation and shape from its first contribution.
void name(Fragment& fragment, const atp_header& h) {
  if (fragment.named) return;
  fragment.named = true;
  fragment.operation = h.operation;
  fragment.aggregator_index = h.aggregator_index;
  fragment.kind = h.kind;
  fragment.value_count = h.value_count;
}

RankSet if_straight(Source source, const RankSet& ranks) {
  return source == Source::kStraight ? ranks : RankSet{};
}

std::size_t queue_capacity(const JobTerms& terms) {
  return std::size_t{terms.stream_count} * 2 * terms.wmax;
}

// Enough for every fragment of the express stream to be small, up to a bound on memory.
std::uint32_t small_slots(const JobTerms& terms) {
  constexpr std::uint32_t kMost = 1024;
  return terms.number_format == NumberFormat::kFixed ? 0 : std::min(2 * terms.wmax, kMost);
}

}  // namespace

Aggregation::Aggregation(const JobTerms& terms, const ServerConfig& config)
    : terms_(terms),
      all_(RankSet::first(terms.world_size)),
      floats_(config.float_slots, small_slots(terms), terms.value_count, queue_capacity(terms)),
      lateness_(terms.world_size, terms.stream_count) {
  streams_.reserve(terms.stream_count);
  for (std::size_t i = 0; i < terms.stream_count; ++i) {
    streams_.push_back({FragmentRing(config.placement, terms.key, wire_stream(i), terms.wmax,
                                     terms.value_count, config.first_sequence)});
  }
}

std::size_t Aggregation::bytes_needed(const JobTerms& terms, const ServerConfig& config) {
  return terms.stream_count * FragmentRing::bytes_needed(terms.wmax, terms.value_count) +
         FloatPool::bytes_needed(config.float_slots, small_slots(terms), terms.value_count,
                                 queue_capacity(terms)) +
         Lateness::bytes_needed(terms.world_size, terms.stream_count);
}

FragmentName Aggregation::name_of(std::size_t stream, const Fragment& fragment) const {
  // If nothing of the fragment has arrived, its operation is unknown: 0 stands for any.
  if (!fragment.named) {
    return {.stream = wire_stream(stream),
            .sequence = fragment.sequence,
            .aggregator_index = streams_[stream].ring.expected_index(fragment.sequence)};
  }
  return {wire_stream(stream), fragment.sequence, fragment.operation, fragment.aggregator_index,
          fragment.kind};
}

bool Aggregation::needs(const Fragment& fragment, const RankSet& ranks) const {
  if (fragment.complete()) return false;
  // Before floats are asked for, the bitmap is that of the integers, or empty.
  if (fragment.mode == FragmentMode::kAwaitingFloatSlot) return !ranks.empty();
  return missing(fragment).intersects(ranks);
}

bool Aggregation::lacks(const RankSet& ranks) const {
  for (const Stream& stream : streams_) {
    for (std::uint64_t s = stream.ring.head(); s < stream.ring.seen_end(); ++s) {
      const Fragment* fragment = stream.ring.find(s);
      if (fragment == nullptr || needs(*fragment, ranks)) return true;
    }
  }
  return false;
}

// Schedules a check, which will also find the fragments that this packet has overtaken.
void Aggregation::watch(Stream& stream, Instant now, const Timing& timing) {
  if (!stream.ring.pending()) return;
  stream.check_at = std::min(stream.check_at, now + timing.nack_after);
  next_timeout_ = std::min(next_timeout_, stream.check_at);
}

bool Aggregation::handle_gradient(Downlink& down, const Arrival& in, Source source) {
  ServerTurn& turn = down.turn();
  const std::size_t index = std::size_t{in.packet.header.stream} - terms_.first_stream;
  ATP_CHECK(index < streams_.size());
  Stream& stream = streams_[index];
  switch (stream.ring.place(in.packet.header.sequence)) {
    case RingPlace::kPast: turn.count(ServerCounter::kDropPastSequence); return false;
    case RingPlace::kFuture: turn.count(ServerCounter::kDropFutureSequence); return false;
    case RingPlace::kInside: break;
  }
  const atp_header& h = in.packet.header;
  if (!lateness_.goes_on(index, in.packet.ranks, h.sequence, h.operation, turn.now)) {
    note_operation(down, index, in.packet);
  }
  Fragment& fragment = stream.ring.at(in.packet.header.sequence);
  stream.ring.saw(in.packet.header.sequence);
  if (fragment.stall.act_at == kNever && !fragment.complete()) {
    fragment.since = turn.now;
    restart_stall(fragment.stall, turn.now, turn.config.timing);
  }
  // Both flags count even if the values are dropped. A collision does not count once the next index
  // is final, because workers would disagree on it.
  fragment.flags |= in.packet.header.flags & ATP_FLAG_ECN;
  if (!fragment.complete()) fragment.flags |= in.packet.header.flags & ATP_FLAG_COLLISION;

  apply(down, in, index, fragment, source);
  if (!fragment.disagreeing.empty() && !fragment.complete()) {
    note_mismatch(index, fragment, fragment.disagreeing);
    if (mismatch_announced_ + turn.config.timing.answer_pause <= turn.now) {
      mismatch_announced_ = turn.now;
      down.status(mismatch()->name, mismatch()->message(), down.present());
    }
  }
  watch(stream, turn.now, turn.config.timing);
  return needs(fragment, down.members().gone());
}

// A function of its own, to keep this off the path of packets that begin no operation.
void Aggregation::note_operation(Downlink& down, std::size_t stream, const PacketView& packet) {
  const atp_header& h = packet.header;
  lateness_.begin(stream, packet.ranks, h.sequence, h.operation, down.turn().now, down.present());
}

void Aggregation::apply(Downlink& down, const Arrival& in, std::size_t stream, Fragment& fragment,
                        Source source) {
  ServerTurn& turn = down.turn();
  const RankSet straight = if_straight(source, in.packet.ranks);
  const atp_header& h = in.packet.header;
  const bool is_float = in.packet.has(ATP_FLAG_FLOAT) || h.kind == ATP_KIND_SUM_EXACT;
  const Contribution how =
      judge(fragment, {in.packet.ranks, h.operation, h.kind, h.value_count, is_float});
  switch (how) {
    case Contribution::kFirst:
    case Contribution::kReplace:
    case Contribution::kAdd:
      if (fragment.mode == FragmentMode::kFloat) {
        take_floats(down, stream, fragment, in.packet);
      } else {
        take_integers(down, stream, fragment, in.packet, how);
      }
      return;
    case Contribution::kDuplicate:
      turn.count(ServerCounter::kDropDuplicate);
      answer_duplicate(down, in, stream, fragment, source);
      return;
    case Contribution::kOverlap:
      turn.count(ServerCounter::kDropOverlap);
      ask_again(down, stream, fragment, ATP_FLAG_DIRECT, missing(fragment),
                straight - fragment.bitmap);
      return;
    case Contribution::kComplete:
      turn.count(ServerCounter::kDropComplete);
      repeat_parameter(down, stream, fragment, in.packet.ranks, source);
      return;
    case Contribution::kOtherOperation:
      turn.count(ServerCounter::kDropWrongOperation);
      if (!fragment.complete()) fragment.disagreeing |= in.packet.ranks;
      return;
    case Contribution::kOtherShape: turn.count(ServerCounter::kDropWrongShape); return;
    case Contribution::kFloatsFromTheStart: start_floats(down, stream, fragment, in.packet); return;
    case Contribution::kFloatWaits: take_waiting_floats(down, stream, fragment, in.packet); return;
    case Contribution::kIntegerTooLate:
      turn.count(ServerCounter::kDropIntegerInFloatMode);
      ask_again(down, stream, fragment, ATP_FLAG_FLOAT, in.packet.ranks - fragment.bitmap,
                straight);
      return;
    case Contribution::kFloatTooEarly: turn.count(ServerCounter::kDropFloatInIntegerMode); return;
    case Contribution::kFloatsOfMany: turn.count(ServerCounter::kDropFloatOfSeveralRanks); return;
  }
}

void Aggregation::take_integers(Downlink& down, std::size_t stream, Fragment& fragment,
                                const PacketView& packet, Contribution how) {
  const atp_header& h = packet.header;
  std::uint8_t* row = streams_[stream].ring.values(fragment.sequence).data();
  const std::uint8_t overflow = h.flags & ATP_FLAG_OVERFLOW;
  if (how == Contribution::kAdd) {
    combine_lanes(h.kind, row, packet.body.data(), packet.body.size());
    fragment.bitmap |= packet.ranks;
    ++fragment.packets;
    fragment.magnitude = atp_add_magnitude(fragment.magnitude, h.magnitude);
    fragment.flags |= overflow;
  } else {
    // A sum of strictly more ranks contains everything that it replaces, marks included.
    store_lanes(h.kind, row, packet.body.data(), packet.body.size());
    fragment.bitmap = packet.ranks;
    fragment.packets = 1;
    fragment.magnitude = h.magnitude;
    fragment.flags = static_cast<std::uint8_t>((fragment.flags & ~ATP_FLAG_OVERFLOW) | overflow);
  }
  name(fragment, h);
  if (fragment.bitmap != all_) return;
  // Sums of other kinds fit by design or are meant to wrap.
  const bool is_too_large =
      (fragment.flags & ATP_FLAG_OVERFLOW) != 0 || fragment.magnitude > kLargestExact;
  if (fragment.kind == ATP_KIND_SUM_FIXED && is_too_large) {
    enter_float_mode(down, stream, fragment);
    return;
  }
  const JobMembers& members = down.members();
  if (members.height() > 0 && fragment.packets <= members.tree().children().size()) {
    ++progress_.in_least_packets;
    down.turn().count(ServerCounter::kFragmentsCompletedInLeastPackets);
  }
  down.turn().count(how == Contribution::kFirst ? ServerCounter::kFragmentsCompletedByOnePacket
                                                : ServerCounter::kFragmentsCompletedByServer);
  finish(down, stream, fragment);
}

// For floats from the start: their first packet takes the slot.
void Aggregation::start_floats(Downlink& down, std::size_t stream, Fragment& fragment,
                               const PacketView& packet) {
  name(fragment, packet.header);
  auto slot = floats_.take(fragment.value_count);
  if (!slot) slot = take_from_a_later_one(down, stream, fragment);
  if (!slot) {
    down.turn().count(ServerCounter::kDropFloatWaits);
    fragment.ready = packet.ranks;
    return await_slot(down, stream, fragment);
  }
  fragment.mode = FragmentMode::kFloat;
  fragment.float_slot = *slot;
  take_floats(down, stream, fragment, packet);
}

void Aggregation::take_waiting_floats(Downlink& down, std::size_t stream, Fragment& fragment,
                                      const PacketView& packet) {
  fragment.ready |= packet.ranks;
  auto slot = take_from_a_later_one(down, stream, fragment);
  if (!slot) slot = take_from_another_stream(down, stream, fragment);
  if (!slot) return down.turn().count(ServerCounter::kDropFloatWaits);
  floats_.cancel({static_cast<std::uint32_t>(stream), fragment.sequence});
  ask_for_floats(down, stream, fragment, *slot);
  take_floats(down, stream, fragment, packet);
}

// Takes the slot of the stream's last fragment that has a fitting one and queues that fragment
// again. A rank whose window ends before the later fragment cannot send it until the earlier one is
// complete, so without this each would wait for the other.
std::optional<std::uint32_t> Aggregation::take_from_a_later_one(Downlink& down, std::size_t stream,
                                                                const Fragment& fragment) {
  FragmentRing& ring = streams_[stream].ring;
  for (std::uint64_t s = ring.seen_end(); s-- > fragment.sequence + 1;) {
    const Fragment* found = ring.find(s);
    if (found == nullptr || found->mode != FragmentMode::kFloat) continue;
    if (!floats_.fits(found->float_slot, fragment.value_count)) continue;
    give_up_slot(down, stream, ring.at(s));
    return floats_.take(fragment.value_count);
  }
  return std::nullopt;
}

// All ranks have sent `fragment`, so it is sure to complete once it has a slot. Takes the slot of a
// fragment of another stream that some rank has not sent: it may belong to a later operation, which
// that rank begins only after this one. A fragment that all ranks have sent keeps its slot.
std::optional<std::uint32_t> Aggregation::take_from_another_stream(Downlink& down,
                                                                   std::size_t stream,
                                                                   const Fragment& fragment) {
  const bool waits_for_a_slot_alone = fragment.ready == all_ &&
                                      fragment.sequence == streams_[stream].ring.head() &&
                                      fragment.since + kSlotPatience <= down.turn().now;
  if (!waits_for_a_slot_alone) return std::nullopt;
  for (std::size_t other = 0; other < streams_.size(); ++other) {
    if (other == stream) continue;
    FragmentRing& ring = streams_[other].ring;
    for (std::uint64_t s = ring.seen_end(); s-- > ring.head();) {
      const Fragment* found = ring.find(s);
      if (found == nullptr || found->mode != FragmentMode::kFloat || found->ready == all_) continue;
      if (found->kind != ATP_KIND_SUM_EXACT) continue;
      if (!floats_.fits(found->float_slot, fragment.value_count)) continue;
      give_up_slot(down, other, ring.at(s));
      return floats_.take(fragment.value_count);
    }
  }
  return std::nullopt;
}

// Drops the floats of a fragment and queues it for a slot again.
void Aggregation::give_up_slot(Downlink& down, std::size_t stream, Fragment& fragment) {
  floats_.give_back(fragment.float_slot);
  fragment.ready |= fragment.bitmap;
  const bool is_exact = fragment.kind == ATP_KIND_SUM_EXACT;
  fragment.bitmap = is_exact ? RankSet{} : all_;
  await_slot(down, stream, fragment);
}

void Aggregation::finish(Downlink& down, std::size_t stream, Fragment& fragment) {
  ServerTurn& turn = down.turn();
  turn.count(ServerCounter::kFragmentsCompleted);
  ++progress_.fragments;
  const bool moves = turn.config.rehash && (fragment.flags & ATP_FLAG_COLLISION) != 0;
  const std::uint32_t next_index =
      (moves ? atp_fmix32(fragment.aggregator_index + 1) : fragment.aggregator_index) &
      ATP_INDEX_BITS;
  FragmentRing& ring = streams_[stream].ring;
  ring.complete(fragment, next_index,
                [&](const Fragment& forgotten) { forget(down, stream, forgotten); });
  fragment.answered = {all_, turn.now};
  down.parameter(name_of(stream, fragment), fragment, ring.values(fragment.sequence),
                 down.present(), {});
}

void Aggregation::enter_float_mode(Downlink& down, std::size_t stream, Fragment& fragment) {
  fragment.ready = fragment.bitmap;
  if (const auto slot = floats_.take(fragment.value_count)) {
    ask_for_floats(down, stream, fragment, *slot);
    return;
  }
  await_slot(down, stream, fragment);
}

void Aggregation::await_slot(Downlink& down, std::size_t stream, Fragment& fragment) {
  down.turn().count(ServerCounter::kFragmentsWaitedForFloatSlot);
  fragment.mode = FragmentMode::kAwaitingFloatSlot;
  floats_.enqueue({static_cast<std::uint32_t>(stream), fragment.sequence});
}

void Aggregation::ask_for_floats(Downlink& down, std::size_t stream, Fragment& fragment,
                                 std::uint32_t slot) {
  ServerTurn& turn = down.turn();
  fragment.mode = FragmentMode::kFloat;
  fragment.float_slot = slot;
  fragment.bitmap.clear();
  fragment.since = turn.now;  // ranks cannot be late with floats before they are asked for
  restart_stall(fragment.stall, turn.now, turn.config.timing);
  watch(streams_[stream], turn.now, turn.config.timing);
  fragment.answered = {all_, turn.now};
  down.nack(name_of(stream, fragment), ATP_FLAG_FLOAT, down.present(), {});
}

void Aggregation::take_floats(Downlink& down, std::size_t stream, Fragment& fragment,
                              const PacketView& packet) {
  floats_.add(fragment.float_slot, packet.body.data(), fragment.value_count);
  fragment.bitmap |= packet.ranks;
  if (fragment.bitmap == all_) finish_float(down, stream, fragment);
}

void Aggregation::finish_float(Downlink& down, std::size_t stream, Fragment& fragment) {
  const std::uint32_t slot = fragment.float_slot;
  floats_.round(slot, streams_[stream].ring.values(fragment.sequence).data(), fragment.value_count);
  fragment.flags |= ATP_FLAG_FLOAT;
  down.turn().count(ServerCounter::kFragmentsCompletedFloat);
  ++progress_.as_floats;
  finish(down, stream, fragment);
  pass_on_slot(down, slot);
}

void Aggregation::pass_on_slot(Downlink& down, std::uint32_t slot) {
  floats_.give_back(slot);
  while (const auto next = floats_.next()) {
    FragmentRing& ring = streams_[next->stream].ring;
    if (ring.place(next->sequence) != RingPlace::kInside) {  // about to be forgotten
      floats_.dequeue();
      continue;
    }
    Fragment& fragment = ring.at(next->sequence);
    ATP_CHECK(fragment.mode == FragmentMode::kAwaitingFloatSlot);
    const auto free = floats_.take(fragment.value_count);
    if (!free) return;  // the slot given back is a small one, and this fragment needs more
    floats_.dequeue();
    ask_for_floats(down, next->stream, fragment, *free);
  }
}

void Aggregation::forget(Downlink& down, std::size_t stream, const Fragment& fragment) {
  if (fragment.mode == FragmentMode::kAwaitingFloatSlot) {
    floats_.cancel({static_cast<std::uint32_t>(stream), fragment.sequence});
  } else if (fragment.mode == FragmentMode::kFloat) {
    pass_on_slot(down, fragment.float_slot);
  }
}

void Aggregation::answer_duplicate(Downlink& down, const Arrival& in, std::size_t stream,
                                   const Fragment& fragment, Source source) {
  // Float repeats carry no RESEND.
  if (source != Source::kStraight) return;
  if (!in.packet.has(ATP_FLAG_RESEND) && !in.packet.has(ATP_FLAG_FLOAT)) return;
  if (!down.may_answer_waiting_for(in.packet.ranks.lowest())) return;
  if (const Disagreement* first = mismatch()) {
    return down.status_to(in.from, ATP_FLAG_DIRECT, first->name, first->message(), in.packet.ranks);
  }
  down.status_to(in.from, ATP_FLAG_DIRECT, name_of(stream, fragment),
                 down.waiting_for(missing(fragment)), in.packet.ranks);
}

void Aggregation::repeat_parameter(Downlink& down, std::size_t stream, Fragment& fragment,
                                   const RankSet& ranks, Source source) {
  ServerTurn& turn = down.turn();
  // A worker takes at least this long to detect a gap; an earlier repeat is an echo (H17).
  const Duration pause = turn.config.timing.reorder_min / 2;
  const RankSet due = take_due(fragment.answered, ranks, turn.now, pause);
  if (due.empty()) return;
  turn.count(ServerCounter::kParametersRepeated);
  down.parameter(name_of(stream, fragment), fragment,
                 streams_[stream].ring.values(fragment.sequence), due, if_straight(source, due));
}

void Aggregation::ask_again(Downlink& down, std::size_t stream, Fragment& fragment,
                            std::uint8_t flags, const RankSet& ranks, const RankSet& straight_too) {
  ServerTurn& turn = down.turn();
  const RankSet due = take_due(fragment.answered, ranks, turn.now, turn.config.timing.answer_pause);
  down.nack(name_of(stream, fragment), flags, due, straight_too & due);
}

const Disagreement* Aggregation::mismatch() const {
  if (!mismatch_) return nullptr;
  const FragmentName& name = mismatch_->name;
  const Fragment* fragment = streams_[name.stream - terms_.first_stream].ring.find(name.sequence);
  return fragment != nullptr && !fragment->complete() ? &*mismatch_ : nullptr;
}

void Aggregation::note_mismatch(std::size_t stream, const Fragment& fragment,
                                const RankSet& others) {
  const Disagreement* first = mismatch();
  const FragmentName name = name_of(stream, fragment);
  if (first != nullptr && first->name != name) return;
  mismatch_ = {name, (fragment.bitmap | fragment.ready) - others, others};
}

}  // namespace atp
