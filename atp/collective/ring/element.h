#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// What a ring moves. It adds floats of both widths; anything else it only carries, as bytes.

namespace atp {

enum class ElementType : std::uint8_t { kFloat32 = 1, kFloat64 = 2, kByte = 3 };

constexpr std::size_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return 4;
    case ElementType::kFloat64: return 8;
    case ElementType::kByte: break;
  }
  return 1;
}

constexpr std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "float32";
    case ElementType::kFloat64: return "float64";
    case ElementType::kByte: break;
  }
  return "byte";
}

// What becomes of a value that comes in.
enum class Arithmetic : std::uint8_t {
  kStore,
  kAdd,         // to the local one
  kAddAndMean,  // the last addition: then divided by the number of ranks
};

// to[i] = incoming[i] (+ local[i]) (/ ranks), for `bytes` bytes, a whole number of elements.
// `to` may be `local`. The pointers are aligned to the element but for kByte.
void combine(ElementType type, Arithmetic arithmetic, std::size_t ranks, const std::byte* incoming,
             const std::byte* local, std::byte* to, std::size_t bytes);

}  // namespace atp
