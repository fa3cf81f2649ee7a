#include "explore/packets.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "atp/base/check.h"

namespace atp::explore {
namespace {

std::int64_t lane(std::uint8_t kind, const std::uint8_t* at) {
  if (atp_value_bytes(kind) == 2) return static_cast<std::int16_t>(atp_load16(at));
  return static_cast<std::int32_t>(atp_load32(at));
}

double float_lane(const std::uint8_t* at) {
  const std::uint32_t bits = atp_load32(at);
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

bool is_maximum(std::uint8_t kind) { return (kind & 1U) != 0; }

// Whether the result is a valid lane: a sum modulo 2^32, since it is added in the network, or a
// maximum.
bool is_lane_of(std::uint8_t kind, std::int64_t result, std::int64_t sum, std::int64_t maximum) {
  if (is_maximum(kind)) return result == maximum;
  if (atp_value_bytes(kind) == 2) return result == static_cast<std::int16_t>(sum);
  return result == static_cast<std::int32_t>(static_cast<std::uint32_t>(sum));
}

bool fits(std::int64_t sum) { return std::abs(sum) <= std::numeric_limits<std::int32_t>::max(); }

}  // namespace

std::string Contributions::judge(const PacketView& packet, bool by_worker, std::size_t world_size) {
  if (packet.type() == PacketType::kGradient) {
    const bool is_own = by_worker && packet.ranks.is_single();
    return is_own ? learn(packet) : compare(packet, packet.ranks);
  }
  // A PARAMETER has the sum of all ranks, whichever are addressed.
  if (packet.type() == PacketType::kParameter) {
    return compare(packet, RankSet::first(world_size));
  }
  return {};
}

std::string Contributions::learn(const PacketView& packet) {
  const atp_header& h = packet.header;
  const Contribution one{.kind = h.kind,
                         .magnitude = h.magnitude,
                         .overflow = packet.has(ATP_FLAG_OVERFLOW),
                         .values = {packet.body.begin(), packet.body.end()}};
  const Key key{packet.job(), h.stream, h.sequence, packet.has(ATP_FLAG_FLOAT),
                packet.ranks.lowest()};
  const auto [at, is_new] = known_.try_emplace(key, one);
  return is_new || at->second == one ? "" : "a worker contributes something different than before";
}

std::string Contributions::compare(const PacketView& packet, const RankSet& ranks) const {
  const atp_header& h = packet.header;
  const bool is_float = packet.has(ATP_FLAG_FLOAT);
  std::vector<const Contribution*> parts;
  std::uint32_t magnitude = 0;
  bool overflow = false;
  bool known = true;
  ranks.for_each([&](Rank rank) {
    const auto at = known_.find(Key{packet.job(), h.stream, h.sequence, is_float, rank});
    known = known && at != known_.end() && at->second.kind == h.kind &&
            at->second.values.size() == packet.body.size();
    if (!known) return;
    parts.push_back(&at->second);
    magnitude = atp_add_magnitude(magnitude, at->second.magnitude);
    overflow = overflow || at->second.overflow;
  });
  if (!known) return "a sum names a rank that has not contributed";

  const bool is_final = packet.type() == PacketType::kParameter;
  const std::size_t bytes = atp_value_bytes(h.kind);
  for (std::size_t at = 0; at < packet.body.size(); at += bytes) {
    std::int64_t sum = 0;
    std::int64_t maximum = std::numeric_limits<std::int64_t>::min();
    double floats = 0;
    for (const Contribution* part : parts) {
      sum += is_float ? 0 : lane(h.kind, part->values.data() + at);
      maximum = std::max(maximum, lane(h.kind, part->values.data() + at));
      floats += is_float ? float_lane(part->values.data() + at) : 0;
    }
    const std::uint8_t* result = packet.body.data() + at;
    const bool right = is_float ? float_lane(result) == floats
                                : is_lane_of(h.kind, lane(h.kind, result), sum, maximum);
    if (!right) return "a sum is not that of the ranks in its bitmap";
    if (is_final && h.kind == ATP_KIND_SUM_FIXED && !is_float && !fits(sum)) {
      return "a sum that does not fit was finished as integers";
    }
  }
  if (is_final || is_float) return {};
  if (h.magnitude != magnitude) return "a sum's magnitude is not that of its contributions";
  if (overflow && !packet.has(ATP_FLAG_OVERFLOW)) return "a sum has lost the flag OVERFLOW";
  return {};
}

std::string PacketPool::key_of(const Packet& packet) {
  std::string key{static_cast<char>(packet.from), static_cast<char>(packet.to)};
  key.append(packet.bytes.begin(), packet.bytes.end());
  return key;
}

PacketPool::Id PacketPool::next_id() const {
  ATP_CHECK(packets_.size() <= std::numeric_limits<Id>::max());
  return static_cast<Id>(packets_.size());
}

}  // namespace atp::explore
