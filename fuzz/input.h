#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

// The bytes of one input, taken from the front; zeros once they are used up.

namespace atp::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  // The next `count` bytes, or as many as are left.
  std::vector<std::uint8_t> bytes(std::size_t count) {
    count = std::min(count, left_);
    std::vector<std::uint8_t> taken(data_, data_ + count);
    data_ += count;
    left_ -= count;
    return taken;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

}  // namespace atp::fuzz
