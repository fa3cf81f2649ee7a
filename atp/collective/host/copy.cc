#include "atp/collective/host/copy.h"

#include <cstring>

#include "atp/wire/values.h"

namespace atp {
namespace {

// 32 bytes at any address.
using Wide = long long __attribute__((vector_size(32), aligned(1), may_alias));

}  // namespace

ATP_VALUE_LOOP void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kStep = 4 * sizeof(Wide);
  std::size_t at = 0;
  // All loads before the stores: the compiler would make memcpy() of what it recognizes as a copy.
  for (; at + kStep <= bytes; at += kStep) {
    const auto* source = reinterpret_cast<const Wide*>(from + at);
    auto* target = reinterpret_cast<Wide*>(to + at);
    const Wide first = source[0];
    const Wide second = source[1];
    const Wide third = source[2];
    const Wide fourth = source[3];
    target[0] = first;
    target[1] = second;
    target[2] = third;
    target[3] = fourth;
  }
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace atp
