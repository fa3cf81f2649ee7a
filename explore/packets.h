#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "atp/wire/packet_view.h"

// Numbers every packet that was ever sent in a world; the packets in flight are a multiset of these
// numbers. Each packet is checked once, when it is new: a sum must be exactly that of its bitmap.

namespace atp::explore {

using HostId = std::uint8_t;

struct Packet {
  HostId from = 0;
  HostId to = 0;
  std::vector<std::uint8_t> bytes;
  std::string objection;  // what is wrong with it; empty if nothing is
  bool operator==(const Packet&) const = default;
};

// The contribution of each rank to each fragment, taken from its first packet, and the sums that
// follow from them. It does its own arithmetic.
class Contributions {
 public:
  // `by_worker`: a worker's own contribution, not a sum. Returns what is wrong, or an empty text.
  std::string judge(const PacketView& packet, bool by_worker, std::size_t world_size);

 private:
  struct Contribution {
    std::uint8_t kind = 0;
    std::uint32_t magnitude = 0;
    bool overflow = false;
    std::vector<std::uint8_t> values;
    bool operator==(const Contribution&) const = default;
  };
  using Key = std::tuple<JobKey, std::uint16_t, std::uint64_t, bool, Rank>;

  std::string learn(const PacketView& packet);
  std::string compare(const PacketView& packet, const RankSet& ranks) const;

  std::map<Key, Contribution> known_;
};

class PacketPool {
 public:
  using Id = std::uint16_t;

  // The number of a packet. A new one gets its objection from judge(packet).
  template <class Judge>
  Id put(const Packet& packet, Judge&& judge) {
    const auto [at, is_new] = ids_.try_emplace(key_of(packet), 0);
    if (is_new) {
      at->second = next_id();
      packets_.push_back(packet);
      packets_.back().objection = judge(packets_.back());
    }
    return at->second;
  }
  const Packet& operator[](Id id) const { return packets_[id]; }
  std::size_t size() const { return packets_.size(); }

 private:
  static std::string key_of(const Packet& packet);
  Id next_id() const;

  std::vector<Packet> packets_;
  std::unordered_map<std::string, Id> ids_;
};

}  // namespace atp::explore
