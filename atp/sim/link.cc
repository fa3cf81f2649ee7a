#include "atp/sim/link.h"

#include <algorithm>

namespace atp::sim {
namespace {

constexpr Picoseconds kBitTimeNumerator = 8'000'000'000'000;

// Converts a limit in bytes to a time at the link's rate; a link without a rate has no queue.
Picoseconds limit(std::uint64_t bytes, Picoseconds per_byte) {
  return bytes == 0 || per_byte == 0 ? kNeverPs : static_cast<Picoseconds>(bytes) * per_byte;
}

}  // namespace

Link::Link(const LinkPlan& plan)
    : per_byte_(
          plan.bits_per_s == 0 ? 0 : kBitTimeNumerator / static_cast<Picoseconds>(plan.bits_per_s)),
      per_packet_(picoseconds(plan.packet_time)),
      delay_(picoseconds(plan.delay)),
      queue_limit_(limit(plan.queue_bytes, per_byte_)),
      ecn_limit_(limit(plan.ecn_bytes, per_byte_)),
      ring_(8) {}

Link::Offer Link::offer(Picoseconds now, std::uint64_t bytes, std::uint64_t number,
                        std::uint32_t flight) {
  const Picoseconds waiting = std::max<Picoseconds>(busy_until_ - now, 0);
  if (waiting > queue_limit_) return Offer::kLost;
  const auto wire_bytes = static_cast<Picoseconds>(bytes + kWireOverheadBytes);
  busy_until_ = now + waiting + per_packet_ + wire_bytes * per_byte_;
  put({busy_until_ + delay_, number, flight});
  return waiting > ecn_limit_ ? Offer::kMarked : Offer::kTaken;
}

void Link::put(const Waiting& waiting) {
  if (count_ == ring_.size()) {
    std::vector<Waiting> larger(2 * ring_.size());
    for (std::size_t i = 0; i < count_; ++i) larger[i] = ring_[(first_ + i) & (ring_.size() - 1)];
    ring_.swap(larger);
    first_ = 0;
  }
  ring_[(first_ + count_++) & (ring_.size() - 1)] = waiting;
}

}  // namespace atp::sim
