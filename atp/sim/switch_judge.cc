// The table of docs/inside/protocol §4, row by row.
#include "atp/sim/switch_judge.h"

#include <algorithm>

namespace atp::sim {
namespace {

using S = SwitchCounter;

constexpr std::uint8_t kSticky = ATP_FLAG_COLLISION | ATP_FLAG_ECN | ATP_FLAG_OVERFLOW;
constexpr std::uint8_t kExact = 0x1c;

// The maximum number of values in a fragment: K of four bytes, or 2K of two.
std::uint32_t most_values(std::uint8_t kind, std::uint32_t k) {
  return (kind >> 1 & 3) == 1 ? 2 * k : k;
}

std::uint32_t saturating_sum(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{a} + b, 0xffffffff));
}

}  // namespace

void SwitchJudge::judge_gradient(const Turn& turn) {
  const Row row = row_of(turn);
  expect(turn.node, row.counter, 1);
  if (row.sum) return expect_sums(turn.now, turn.out, {*row.sum});
  expect_sums(turn.now, turn.out, {});
}

SwitchJudge::Row SwitchJudge::row_of(const Turn& turn) {
  if (const auto drop = drop_of(turn)) return {*drop};
  const PacketView& p = turn.packet;
  const auto pass = [&](S counter, std::uint8_t more_flags) {
    return Row{counter,
               Sum{p.identity(), p.ranks, static_cast<std::uint8_t>(p.header.flags | more_flags),
                   p.header.hops, p.header.magnitude, turn.tree->parent()}};
  };
  if (const auto way = way_past(turn)) return pass(*way, ATP_FLAG_DIRECT);
  if (turn.share.size == 0) return pass(S::kForwardedNoRegion, 0);
  Cell& cell = aggregator_of(turn);
  const bool is_same = cell.aggregating && cell.identity == p.identity();
  const Row row = is_same ? meet_same(turn, cell) : meet_other(turn, cell);
  switch (row.counter) {
    case S::kForwardedShape:
    case S::kForwardedOverlap: return pass(row.counter, ATP_FLAG_DIRECT);
    case S::kForwardedLate:
    case S::kForwardedResend:
    case S::kForwardedAfterCollision: return pass(row.counter, 0);
    case S::kOperationMismatches:
    case S::kForwardedOverQuota:
    case S::kCollisions: return pass(row.counter, ATP_FLAG_COLLISION);
    default: return row;
  }
}

// The switch itself says which ranks are behind whom; the judge derives what follows from that.
std::optional<SwitchCounter> SwitchJudge::drop_of(const Turn& turn) const {
  const PacketView& p = turn.packet;
  if (turn.tree == nullptr) return S::kDropUnknownJob;
  const RankSet& child = turn.tree->membership().behind(turn.from);
  if (child.empty()) return S::kDropUnknownChild;
  if (p.header.bitmap_words != bitmap_words_for(turn.tree->world_size())) {
    return S::kDropWrongBitmapWidth;
  }
  const std::uint16_t agreed = turn.tree->value_count();
  if (agreed != 0 && p.header.value_count > most_values(p.header.kind, agreed)) {
    return S::kDropWrongValueCount;
  }
  if (p.ranks.empty()) return S::kDropEmptyBitmap;
  if (!child.contains(p.ranks)) return S::kDropForeignRanks;
  return std::nullopt;
}

std::optional<SwitchCounter> SwitchJudge::way_past(const Turn& turn) const {
  const PacketView& p = turn.packet;
  if (p.has(ATP_FLAG_DIRECT) || p.has(ATP_FLAG_FLOAT) || p.header.kind == kExact) {
    return S::kForwardedDirect;
  }
  if (p.ranks.intersects(turn.tree->membership().detached())) return S::kForwardedDetached;
  if (is_beyond_limit(turn)) return S::kForwardedBeyondLimit;
  if (p.header.value_count > most_values(p.header.kind, config_.max_value_count)) {
    return S::kForwardedShape;
  }
  return std::nullopt;
}

bool SwitchJudge::is_beyond_limit(const Turn& turn) const {
  const auto highest = highest_parameter_.find({turn.packet.job(), turn.packet.header.stream});
  if (highest == highest_parameter_.end()) return false;
  const std::uint64_t sequence = turn.packet.header.sequence;
  return sequence > highest->second && sequence - highest->second > 2 * std::uint64_t{wmax_};
}

// The cell holds p's identity, perhaps only since p has claimed it.
SwitchJudge::Row SwitchJudge::meet_same(const Turn& turn, Cell& cell) {
  const PacketView& p = turn.packet;
  const bool has_claimed = cell.ranks.empty();
  if (cell.kind != p.header.kind || cell.value_count != p.header.value_count) {
    return {S::kForwardedShape};
  }
  const bool is_new = !cell.ranks.intersects(p.ranks);
  if (!is_new && !cell.ranks.contains(p.ranks)) return {S::kForwardedOverlap};
  if (is_new) {
    cell.ranks |= p.ranks;
    cell.flags |= p.header.flags & kSticky;
    cell.hops = std::min(cell.hops, p.header.hops);
    cell.magnitude = saturating_sum(cell.magnitude, p.header.magnitude);
  }
  const Membership& members = turn.tree->membership();
  const bool complete =
      cell.ranks.contains(members.known() - members.detached() - turn.tree->left());
  Sum sum{cell.identity, cell.ranks, cell.flags, cell.hops, cell.magnitude, turn.tree->parent()};
  if (p.has(ATP_FLAG_RESEND)) {
    sum.flags |= ATP_FLAG_RESEND;
    release(turn, cell);
    return {S::kPartialSumsSent, sum};
  }
  cell.used = turn.now;
  cell.flags |= p.header.flags & ATP_FLAG_ECN;
  sum.flags = cell.flags;
  if (complete) return {is_new ? S::kCompleteSumsSent : S::kDuplicatesReemitted, sum};
  return {is_new || has_claimed ? S::kGradientsSummed : S::kDuplicates};
}

// The cell is EMPTY or holds another identity.
SwitchJudge::Row SwitchJudge::meet_other(const Turn& turn, Cell& cell) {
  const Identity identity = turn.packet.identity();
  if (has_fragment(cell, identity)) return {S::kOperationMismatches};
  Notes& notes = notes_of(turn);
  if (notes.returned == identity || is_later(notes.returned, identity)) return {S::kForwardedLate};
  if (cell.aggregating) {
    notes.passed = identity;
    note_active(identity.job);
    if (has_parts() && !holds_its_part(identity.job)) contested_ = config_.aggregators;
    return {S::kCollisions};
  }
  if (turn.packet.has(ATP_FLAG_RESEND)) return {S::kForwardedResend};
  if (notes.passed == identity) return {S::kForwardedAfterCollision};
  if (holds_its_quota(identity.job) || (contested_ > 0 && holds_its_part(identity.job))) {
    notes.passed = identity;
    return {S::kForwardedOverQuota};
  }
  claim(turn, cell);
  return meet_same(turn, cell);
}

void SwitchJudge::claim(const Turn& turn, Cell& cell) {
  const atp_header& header = turn.packet.header;
  cell = {.aggregating = true,
          .identity = turn.packet.identity(),
          .index = header.aggregator_index,
          .hops = header.hops,
          .kind = header.kind,
          .value_count = header.value_count};
  ++held_[{header.job, header.tenant}];
  note_active(cell.identity.job);
  count_claim();
}

bool SwitchJudge::is_expired(const Cell& cell, Instant now) const {
  return cell.aggregating && now - cell.used > config_.timing.reclaim;
}

// The effect of the parent's PARAMETER on its aggregator.
void SwitchJudge::judge_parameter(const Turn& turn) {
  const Identity identity = turn.packet.identity();
  std::vector<Sum> leaving;
  std::optional<S> counter;
  if (turn.share.size > 0) {
    Cell& cell = aggregator_of(turn);
    Notes& notes = notes_of(turn);
    if (cell.aggregating && cell.identity == identity) {
      counter = S::kReleases;
      release(turn, cell);
    } else if (is_expired(cell, turn.now)) {
      counter = S::kReclaims;
      add_swept(turn.node, cell, leaving);
      release_other(turn.node, cell);
    } else if (!is_later(notes.returned, identity)) {
      counter = S::kMarks;
      notes.returned = identity;
    }
  }
  for (const S each : {S::kReleases, S::kReclaims, S::kMarks}) {
    expect(turn.node, each, counter == each ? 1 : 0);
  }
  expect_sums(turn.now, turn.out, leaving);
  if (turn.tree->value_count() == 0) return;
  std::uint64_t& highest = highest_parameter_[{identity.job, identity.stream}];
  highest = std::max(highest, identity.sequence);
}

// Returns whether the FLUSH was answered here and goes no further.
bool SwitchJudge::judge_flush(const Turn& turn) {
  const Identity identity = turn.packet.identity();
  if (turn.share.size == 0) return false;
  Cell& cell = aggregator_of(turn);
  const bool is_held = has_fragment(cell, identity) &&
                       (identity.operation == 0 || cell.identity.operation == identity.operation);
  expect(turn.node, S::kFlushedSumsSent, is_held ? 1 : 0);
  if (!is_held) return false;
  const auto flags = static_cast<std::uint8_t>(cell.flags | ATP_FLAG_RESEND);
  expect_sums(turn.now, turn.out,
              {{cell.identity, cell.ranks, flags, cell.hops, cell.magnitude, turn.tree->parent()}});
  release(turn, cell);
  return true;
}

}  // namespace atp::sim
