#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "explore/world.h"

// All visited states, each once and exactly, numbered in the order in which they were found. A
// state takes about fifty bytes, since nodes, packets and times are numbers.

namespace atp::explore {

class StateTable {
 public:
  using Id = std::uint32_t;

  // `hosts`: the number of hosts in the world.
  explicit StateTable(std::size_t hosts) : hosts_(hosts) {}

  // The state's number, and whether it is new.
  std::pair<Id, bool> put(const State& state);
  void get(Id id, State& state) const;
  std::size_t size() const { return places_.size(); }
  std::size_t bytes() const;

 private:
  static constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

  std::span<const std::uint8_t> bytes_of(Id id) const;
  void encode(const State& state);
  void store();
  void grow();

  std::size_t hosts_;
  std::vector<std::unique_ptr<std::uint8_t[]>> chunks_;
  std::size_t used_ = kChunkBytes;     // of the last chunk
  std::vector<std::uint64_t> places_;  // chunk · kChunkBytes + offset in it
  // Open addressing: the upper half is a part of the digest, the lower half the number plus 1.
  std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(1024);
  std::vector<std::uint8_t> code_;
};

}  // namespace atp::explore
