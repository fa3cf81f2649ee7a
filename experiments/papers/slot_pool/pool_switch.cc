#include "experiments/papers/slot_pool/pool_switch.h"

namespace slot_pool {
namespace {

// Modulo 2^32, as a switch adds.
void add(const PoolPacket& packet, PoolPacket& sum) {
  for (std::uint32_t i = 0; i < packet.count; ++i) {
    sum.values[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum.values[i]) +
                                              static_cast<std::uint32_t>(packet.values[i]));
  }
}

}  // namespace

PoolSwitch::PoolSwitch(std::uint32_t workers, std::uint32_t slots)
    : workers_(workers), slots_(slots) {}

const PoolPacket& PoolSwitch::sum(std::uint32_t chunk) const {
  const auto slots = static_cast<std::uint32_t>(slots_.size());
  return slots_[slot_of(chunk, slots)].versions[version_of(chunk, slots)].sum;
}

Verdict PoolSwitch::handle_packet(const PoolPacket& packet) {
  if (packet.rank >= workers_) return Verdict::kDrop;
  const auto slots = static_cast<std::uint32_t>(slots_.size());
  Slot& slot = slots_[slot_of(packet.chunk, slots)];
  const std::uint32_t number = version_of(packet.chunk, slots);
  Version& version = slot.versions[number];
  const std::uint64_t bit = std::uint64_t{1} << packet.rank;
  if (packet.chunk < slot.newest[packet.rank]) {
    ++counters_.late;
    return Verdict::kDrop;
  }
  slot.newest[packet.rank] = packet.chunk;
  if ((version.seen & bit) != 0) {
    ++(version.count == 0 ? counters_.answered : counters_.repeats);
    return version.count == 0 ? Verdict::kAnswerOne : Verdict::kDrop;
  }
  version.seen |= bit;
  slot.versions[1 - number].seen &= ~bit;
  version.count = (version.count + 1) % workers_;
  if (version.count == 1 % workers_) {
    version.sum = packet;
  } else {
    add(packet, version.sum);
  }
  if (version.count != 0) return Verdict::kDrop;
  ++counters_.completed;
  return Verdict::kAnswerAll;
}

}  // namespace slot_pool
