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
  // Without a time per packet, a busy link is always sending.
  const Picoseconds queue = per_packet_ == 0 ? waiting : sending_time(now);
  if (queue > queue_limit_) return Offer::kLost;
  const auto wire_bytes = static_cast<std::uint32_t>(bytes + kWireOverheadBytes);
  busy_until_ = now + waiting + service(wire_bytes);
  put({busy_until_ + delay_, number, flight, wire_bytes});
  return queue > ecn_limit_ ? Offer::kMarked : Offer::kTaken;
}

Picoseconds Link::service(std::uint32_t bytes) const {
  return per_packet_ + static_cast<Picoseconds>(bytes) * per_byte_;
}

// What the bytes in the queue take on the wire. Those of the packet in service leave evenly during
// its service, the host's time included.
Picoseconds Link::sending_time(Picoseconds now) {
  while (sent_ < count_ && at(sent_).arrival - delay_ <= now) pass_sent();
  if (sent_ == count_) return 0;
  const std::uint32_t head = at(sent_).bytes;
  const Picoseconds all = service(head);
  const Picoseconds left = at(sent_).arrival - delay_ - now;
  const Picoseconds gone = head * (all - left) / all;
  return (static_cast<Picoseconds>(queued_bytes_) - gone) * per_byte_;
}

void Link::put(const Waiting& waiting) {
  if (count_ == ring_.size()) {
    std::vector<Waiting> larger(2 * ring_.size());
    for (std::size_t i = 0; i < count_; ++i) larger[i] = at(i);
    ring_.swap(larger);
    first_ = 0;
  }
  ring_[(first_ + count_++) & (ring_.size() - 1)] = waiting;
  queued_bytes_ += waiting.bytes;
}

}  // namespace atp::sim
