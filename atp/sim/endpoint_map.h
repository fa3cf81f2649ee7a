#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "atp/wire/endpoint.h"

namespace atp::sim {

// Which host answers at an endpoint: asked for every packet, so a flat table with open addressing,
// at most half full, that never forgets.
class EndpointMap {
 public:
  void insert(const Endpoint& endpoint, std::uint32_t host) {
    if (2 * ++size_ > entries_.size()) grow();
    entries_[place_of(endpoint)] = {endpoint, host};
  }
  std::optional<std::uint32_t> find(const Endpoint& endpoint) const {
    const Entry& entry = entries_[place_of(endpoint)];
    return entry.host == kFree ? std::nullopt : std::optional(entry.host);
  }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};
  struct Entry {
    Endpoint endpoint;
    std::uint32_t host = kFree;
  };

  static std::uint64_t hash(const Endpoint& endpoint) {
    std::uint64_t low = 0;
    std::memcpy(&low, endpoint.address.data() + 8, sizeof low);
    return (low ^ endpoint.port) * 0x9e3779b97f4a7c15 >> 20;
  }
  // Where it is, or where it belongs.
  std::size_t place_of(const Endpoint& endpoint) const {
    std::size_t at = hash(endpoint) & (entries_.size() - 1);
    while (entries_[at].host != kFree && entries_[at].endpoint != endpoint) {
      at = (at + 1) & (entries_.size() - 1);
    }
    return at;
  }
  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.host != kFree) entries_[place_of(entry.endpoint)] = entry;
    }
  }

  std::vector<Entry> entries_ = std::vector<Entry>(16);
  std::size_t size_ = 0;
};

}  // namespace atp::sim
