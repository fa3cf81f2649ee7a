#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "atp/wire/number_format.h"
#include "atp/wire/values.h"

// Converts one value of a tensor to float32 and back, by type, in loops over many values
// (wire/values.h). All three types are subsets of float32, so loading is exact; storing rounds
// once, to nearest even, and keeps NaN and ±Inf.

namespace atp::element {

// Without a branch, so that compilers turn the loops into SIMD.
ATP_IN_VALUE_LOOP std::uint32_t mask_of(bool condition) {
  return 0U - static_cast<std::uint32_t>(condition);
}
ATP_IN_VALUE_LOOP std::uint32_t select(std::uint32_t mask, std::uint32_t yes, std::uint32_t no) {
  return (yes & mask) | (no & ~mask);
}

struct Float32 {
  static constexpr std::size_t kBytes = 4;
  ATP_IN_VALUE_LOOP static float load(const std::byte* at) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  ATP_IN_VALUE_LOOP static void store(std::byte* at, float value) {
    std::memcpy(at, &value, sizeof value);
  }
};

struct BFloat16 {
  static constexpr std::size_t kBytes = 2;
  ATP_IN_VALUE_LOOP static float load(const std::byte* at) {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
  ATP_IN_VALUE_LOOP static void store(std::byte* at, float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t to_even = 0x7fffU + ((bits >> 16) & 1U);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const auto rounded = static_cast<std::uint16_t>(
        select(mask_of(is_nan), (bits >> 16) | 0x40U, (bits + to_even) >> 16));
    std::memcpy(at, &rounded, sizeof rounded);
  }
};

struct Float16 {
  static constexpr std::size_t kBytes = 2;
  ATP_IN_VALUE_LOOP static float load(const std::byte* at) {
    std::uint16_t half;
    std::memcpy(&half, at, sizeof half);
    const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16;
    const std::uint32_t rest = half & 0x7fffU;
    // Normal numbers get another exponent bias. Denormals, multiples of 2^-24, are converted from
    // integers, because arithmetic on denormals is slow on some processors.
    const std::uint32_t normal =
        (rest << 13) + (112U << 23) + (mask_of(rest >= 0x7c00U) & (112U << 23));
    const float denormal = static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-24F;
    const std::uint32_t magnitude =
        select(mask_of(rest < 0x400U), std::bit_cast<std::uint32_t>(denormal), normal);
    return std::bit_cast<float>(sign | magnitude);
  }
  ATP_IN_VALUE_LOOP static void store(std::byte* at, float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    // Normal: round away 13 bits of the fraction, to nearest even. A carry raises the exponent, up
    // to infinity.
    const std::uint32_t normal =
        (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    // Denormal: adding 0.5, whose last bit is worth 2^-24, leaves the rounded multiple of 2^-24 in
    // the fraction.
    const std::uint32_t denormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    std::uint32_t half = select(mask_of(magnitude < 0x38800000U), denormal, normal);
    half = select(mask_of(magnitude >= 0x47800000U), 0x7c00U, half);  // 65536 and more
    half = select(mask_of(magnitude > 0x7f800000U), 0x7e00U, half);   // NaN
    const auto result = static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000U));
    std::memcpy(at, &result, sizeof result);
  }
};

// Calls act with an object of the struct for the type.
template <class Act>
ATP_IN_VALUE_LOOP auto with_float(DataType type, Act&& act) {
  switch (type) {
    case DataType::kBFloat16: return act(BFloat16{});
    case DataType::kFloat16: return act(Float16{});
    default: return act(Float32{});
  }
}

}  // namespace atp::element
