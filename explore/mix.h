#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

// A digest of words and bytes, good enough for hash tables, whose users compare the keys as well.

namespace atp::explore {

class Mix {
 public:
  void add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15;
    value_ ^= value_ >> 29;
  }
  void add(std::span<const std::uint8_t> bytes) {
    add(bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, bytes.size() - at < 8 ? bytes.size() - at : 8);
      add(word);
    }
  }
  std::uint64_t value() const {
    const std::uint64_t v = value_ * 0xd6e8feb86659fd93;
    return v ^ (v >> 32);
  }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace atp::explore
