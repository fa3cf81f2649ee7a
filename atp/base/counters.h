#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// Named counters: one enum per role lists everything that role counts, and to_string(Enum) gives
// each its public name. Every dropped packet increments exactly one (docs/inside/protocol §7.4).
// Enum must be contiguous from 0 and end with kCount.

namespace atp {

template <class Enum>
class Counters {
 public:
  static constexpr std::size_t kSize = static_cast<std::size_t>(Enum::kCount);

  void add(Enum counter, std::uint64_t amount = 1) {
    values_[static_cast<std::size_t>(counter)] += amount;
  }
  std::uint64_t operator[](Enum counter) const {
    return values_[static_cast<std::size_t>(counter)];
  }
  Counters& operator+=(const Counters& more) {
    for (std::size_t i = 0; i < kSize; ++i) values_[i] += more.values_[i];
    return *this;
  }

  // Calls visit(name, value) for every counter in the order of the enum.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < kSize; ++i) visit(to_string(static_cast<Enum>(i)), values_[i]);
  }

  bool operator==(const Counters&) const = default;

 private:
  std::array<std::uint64_t, kSize> values_{};
};

}  // namespace atp
