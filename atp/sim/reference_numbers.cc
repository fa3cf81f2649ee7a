#include "atp/sim/reference_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "atp/sim/reference_sum.h"

namespace atp::sim {
namespace {

using Inputs = std::vector<std::vector<double>>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Decodes an IEEE 754 number with this many exponent and fraction bits.
double decoded(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = ((bits >> (exponent_bits + fraction_bits)) & 1) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? kNan : sign * HUGE_VAL;
  const double hidden = exponent == 0 ? 0 : std::ldexp(1.0, fraction_bits);
  return sign * std::ldexp(hidden + fraction, std::max(exponent, 1) - bias - fraction_bits);
}

std::uint32_t bits_at(std::span<const std::byte> bytes, std::size_t i, std::size_t size) {
  std::uint32_t bits = 0;
  for (std::size_t b = size; b-- > 0;) {
    bits = bits << 8 | std::to_integer<std::uint32_t>(bytes[i * size + b]);
  }
  return bits;
}

// Rounds to `digits` binary digits, none of them worth less than 2^lowest; 2^beyond and above
// become infinite.
double rounded(double value, int digits, int lowest, int beyond) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int unit = std::max(std::ilogb(value) - digits + 1, lowest);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(result) >= std::ldexp(1.0, beyond) ? std::copysign(HUGE_VAL, value) : result;
}

// Divides and rounds a float32 sum as the operation demands.
double finished(const OperationSpec& spec, float sum, std::size_t ranks) {
  if (spec.reduction == Reduction::kAverage) {
    sum = static_cast<float>(static_cast<double>(sum) / static_cast<double>(ranks));
  }
  return rounded_to(spec.type, sum);
}

float exact_sum(const Inputs& inputs, std::size_t i) {
  std::vector<float> column;
  for (const std::vector<double>& input : inputs) column.push_back(static_cast<float>(input[i]));
  return reference_sum(column);
}

// The result in a special block of 16 bits: finite values are lost, even those whose sum would be
// infinite.
double sum_of_classes(const Inputs& inputs, std::size_t i) {
  double sum = 0;
  for (const std::vector<double>& input : inputs) sum += std::isfinite(input[i]) ? 0 : input[i];
  return std::isfinite(sum) ? kNan : sum;
}

int ceil_log2(std::size_t ranks) {
  int c = 0;
  while ((std::size_t{1} << c) < ranks) ++c;
  return c;
}

void sum_block(const OperationSpec& spec, const Inputs& inputs, std::size_t begin, std::size_t end,
               std::vector<double>& result) {
  double largest = 0;
  bool special = false;
  for (const std::vector<double>& input : inputs) {
    for (std::size_t i = begin; i < end; ++i) {
      special |= !std::isfinite(input[i]);
      if (!special) largest = std::max(largest, std::fabs(input[i]));
    }
  }
  const bool narrow = spec.format == NumberFormat::kBlocksInt16;
  const int c = ceil_log2(inputs.size());
  const int bits = narrow ? 15 : 30;
  const int unit = largest == 0 ? 0 : std::max(std::ilogb(largest) + 1 + c - bits, -149);
  const double limit = narrow ? std::ldexp(1.0, 15 - c) - 1 : HUGE_VAL;
  for (std::size_t i = begin; i < end; ++i) {
    if (special && narrow) {
      result.push_back(sum_of_classes(inputs, i));
      continue;
    }
    if (special) {
      result.push_back(finished(spec, exact_sum(inputs, i), inputs.size()));
      continue;
    }
    double sum = 0;  // integers far below 2^53, so it is exact
    for (const std::vector<double>& input : inputs) {
      sum += std::clamp(std::nearbyint(std::ldexp(input[i], -unit)), -limit, limit);
    }
    sum = sum == 0 ? 0 : std::ldexp(sum, unit);  // +0 even of negative zeros
    result.push_back(finished(spec, static_cast<float>(sum), inputs.size()));
  }
}

}  // namespace

std::vector<double> values_of(DataType type, std::span<const std::byte> bytes) {
  std::vector<double> values;
  for (std::size_t i = 0; i < bytes.size() / bytes_of(type); ++i) {
    const std::uint32_t bits = bits_at(bytes, i, bytes_of(type));
    switch (type) {
      case DataType::kFloat32: values.push_back(decoded(bits, 8, 23)); break;
      case DataType::kBFloat16: values.push_back(decoded(bits, 8, 7)); break;
      case DataType::kFloat16: values.push_back(decoded(bits, 5, 10)); break;
      case DataType::kInt32: values.push_back(static_cast<std::int32_t>(bits)); break;
    }
  }
  return values;
}

double rounded_to(DataType type, float value) {
  switch (type) {
    case DataType::kBFloat16: return rounded(static_cast<double>(value), 8, -133, 128);
    case DataType::kFloat16: return rounded(static_cast<double>(value), 11, -24, 16);
    default: return static_cast<double>(value);
  }
}

bool same_value(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

std::vector<double> plain_result(const OperationSpec& spec, const Inputs& inputs) {
  std::vector<double> result;
  for (std::size_t i = 0; i < inputs[0].size(); ++i) {
    if (is_sum(spec.reduction)) {
      double sum = 0;
      for (const std::vector<double>& input : inputs) sum += input[i];
      sum = std::fmod(sum, 0x1p32);
      if (sum < -0x1p31) sum += 0x1p32;
      if (sum >= 0x1p31) sum -= 0x1p32;
      result.push_back(sum == 0 ? 0 : sum);
      continue;
    }
    double best = inputs[0][i];
    for (const std::vector<double>& input : inputs) {
      if (std::isnan(best)) break;
      const double value = input[i];
      const bool is_max = spec.reduction == Reduction::kMax;
      const bool below_zero = value == best && std::signbit(value) != std::signbit(best);
      const bool better =
          below_zero ? std::signbit(value) != is_max : (is_max ? value > best : value < best);
      if (std::isnan(value) || better) best = value;
    }
    result.push_back(best);
  }
  return result;
}

std::vector<double> exact_result(const OperationSpec& spec, const Inputs& inputs) {
  std::vector<double> result;
  result.reserve(inputs[0].size());
  for (std::size_t i = 0; i < inputs[0].size(); ++i) {
    result.push_back(finished(spec, exact_sum(inputs, i), inputs.size()));
  }
  return result;
}

std::vector<double> block_result(const OperationSpec& spec, std::span<const std::size_t> segments,
                                 const Inputs& inputs) {
  const std::size_t all[] = {inputs[0].size()};
  std::vector<double> result;
  std::size_t begin = 0;
  for (const std::size_t length : segments.empty() ? std::span<const std::size_t>(all) : segments) {
    for (std::size_t at = 0; at < length; at += 256) {
      sum_block(spec, inputs, begin + at, begin + std::min<std::size_t>(at + 256, length), result);
    }
    begin += length;
  }
  return result;
}

}  // namespace atp::sim
