#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

// A fixed number of T, all zero bytes at first. The kernel provides a page only when it is touched,
// so creating an array of 150 MB takes a few microseconds and unused parts cost nothing. A server
// needs this for its tables, which one small packet from a stranger can make it allocate
// (docs/inside/protocol §6).

namespace atp {

// Zeroed bytes, aligned to a page or as the allocator aligns them; no memory for 0 bytes.
class ZeroedMemory {
 public:
  ZeroedMemory() = default;
  explicit ZeroedMemory(std::size_t bytes);
  ~ZeroedMemory();
  ZeroedMemory(const ZeroedMemory& other);
  ZeroedMemory(ZeroedMemory&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  ZeroedMemory& operator=(ZeroedMemory other) noexcept {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* at() { return at_; }
  const void* at() const { return at_; }
  std::size_t bytes() const { return bytes_; }
  // The bytes of all live objects together.
  static std::size_t held_now();

 private:
  void* at_ = nullptr;
  std::size_t bytes_ = 0;
};

template <class T>
class ZeroedArray {
  // Zero bytes must be a valid T, and a copy of its bytes a valid copy.
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  ZeroedArray() = default;
  explicit ZeroedArray(std::size_t size) : memory_(size * sizeof(T)) {}

  std::size_t size() const { return memory_.bytes() / sizeof(T); }
  T* data() { return static_cast<T*>(memory_.at()); }
  const T* data() const { return static_cast<const T*>(memory_.at()); }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }

  bool operator==(const ZeroedArray& other) const {
    return std::equal(data(), data() + size(), other.data(), other.data() + other.size());
  }

 private:
  ZeroedMemory memory_;
};

}  // namespace atp
