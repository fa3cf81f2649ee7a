#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// A table from 64-bit keys other than 0 to numbers. It holds tens of millions of entries, so it is
// a single array without pointers.

namespace atp::explore {

class IdMap {
 public:
  // The number under the key, or null. Valid until the next insert().
  const std::uint32_t* find(std::uint64_t key) const {
    for (std::size_t at = place(key);; at = (at + 1) & mask()) {
      if (entries_[at].key == key) return &entries_[at].value;
      if (entries_[at].key == 0) return nullptr;
    }
  }
  // The key must not be in the table.
  void insert(std::uint64_t key, std::uint32_t value) {
    if (3 * (size_ + 1) > 2 * entries_.size()) grow();
    put({key, value});
    ++size_;
  }
  std::size_t size() const { return size_; }

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint32_t value = 0;
  };

  std::size_t mask() const { return entries_.size() - 1; }
  std::size_t place(std::uint64_t key) const {
    const std::uint64_t mixed = key * 0x9e3779b97f4a7c15;
    return (mixed ^ (mixed >> 32)) & mask();
  }
  void put(const Entry& entry) {
    std::size_t at = place(entry.key);
    while (entries_[at].key != 0) at = (at + 1) & mask();
    entries_[at] = entry;
  }
  void grow() {
    const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(2 * entries_.size()));
    for (const Entry& entry : old) {
      if (entry.key != 0) put(entry);
    }
  }

  std::vector<Entry> entries_ = std::vector<Entry>(1024);
  std::size_t size_ = 0;
};

}  // namespace atp::explore
