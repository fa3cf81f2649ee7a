#include "atp/wire/exact_sum.h"

#include <algorithm>
#include <bit>

#include "atp/wire/values.h"

namespace atp {
namespace {

constexpr std::uint8_t kNanMark = 1;
constexpr std::uint8_t kPlusInfinityMark = 2;
constexpr std::uint8_t kMinusInfinityMark = 4;

constexpr std::uint32_t kSignBit = 0x80000000U;
constexpr std::uint32_t kInfinity = 0x7f800000U;
constexpr std::uint32_t kQuietNan = 0x7fc00000U;
constexpr std::uint32_t kFractionMask = 0x007fffffU;
constexpr std::uint32_t kHiddenBit = 0x00800000U;

std::uint8_t mark_of(std::uint32_t bits) {
  if ((bits & kFractionMask) != 0) return kNanMark;
  return (bits & kSignBit) != 0 ? kMinusInfinityMark : kPlusInfinityMark;
}

// Adds `addend` at word w and propagates the carry.
template <class Words>
void add_at(Words& words, std::size_t w, std::uint64_t addend) {
  for (; addend != 0 && w < words.size(); ++w) {
    words[w] += addend;
    addend = words[w] < addend ? 1 : 0;
  }
}

template <class Words>
void subtract_at(Words& words, std::size_t w, std::uint64_t subtrahend) {
  for (; subtrahend != 0 && w < words.size(); ++w) {
    const std::uint64_t before = words[w];
    words[w] -= subtrahend;
    subtrahend = before < subtrahend ? 1 : 0;
  }
}

template <class Words>
Words negated(const Words& words) {
  Words result{};
  for (std::size_t w = 0; w < words.size(); ++w) result[w] = ~words[w];
  add_at(result, 0, 1);
  return result;
}

// The position of the highest bit set, or -1.
template <class Words>
int top_bit(const Words& words) {
  for (std::size_t w = words.size(); w-- > 0;) {
    if (words[w] != 0) return static_cast<int>(64 * w) + 63 - std::countl_zero(words[w]);
  }
  return -1;
}

// The 24 bits from position `shift` up.
template <class Words>
std::uint32_t bits_from(const Words& words, unsigned shift) {
  const unsigned w = shift / 64;
  const unsigned bit = shift % 64;
  std::uint64_t result = words[w] >> bit;
  if (bit > 0 && w + 1 < words.size()) result |= words[w + 1] << (64 - bit);
  return static_cast<std::uint32_t>(result) & 0x00ffffffU;
}

template <class Words>
bool bit_at(const Words& words, unsigned position) {
  return ((words[position / 64] >> (position % 64)) & 1) != 0;
}

template <class Words>
bool any_below(const Words& words, unsigned position) {
  std::uint64_t any = 0;
  for (unsigned w = 0; w < position / 64; ++w) any |= words[w];
  any |= words[position / 64] & ((std::uint64_t{1} << (position % 64)) - 1);
  return any != 0;
}

}  // namespace

void ExactSum::add(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = (bits >> 23) & 0xffU;
  if (exponent == 0xff) {
    marks_ = static_cast<std::uint8_t>(marks_ | mark_of(bits));
    return;
  }
  // Denormals share the unit of exponent 1 and lack the hidden bit.
  const std::uint64_t mantissa = (bits & kFractionMask) | (exponent == 0 ? 0 : kHiddenBit);
  const std::uint32_t shift = exponent == 0 ? 0 : exponent - 1;
  const std::size_t w = shift / 64;
  const std::uint32_t bit = shift % 64;
  const std::uint64_t low = mantissa << bit;
  const std::uint64_t high = bit == 0 ? 0 : mantissa >> (64 - bit);
  if ((bits & kSignBit) != 0) {
    subtract_at(words_, w, low);
    subtract_at(words_, w + 1, high);
  } else {
    add_at(words_, w, low);
    add_at(words_, w + 1, high);
  }
}

std::uint32_t ExactSum::finite_bits(const Words& magnitude) {
  const int top = top_bit(magnitude);
  // Below 2^24 units (denormals and exponent 1) the number of units is the encoding itself.
  if (top < 24) return static_cast<std::uint32_t>(magnitude[0]);

  const auto shift = static_cast<unsigned>(top - 23);
  if (shift + 1 >= 0xff) return kInfinity;
  std::uint32_t bits = ((shift + 1) << 23) + (bits_from(magnitude, shift) - kHiddenBit);
  const bool half = bit_at(magnitude, shift - 1);
  const bool more = any_below(magnitude, shift - 1);
  // A carry out of the fraction raises the exponent, correctly, up to infinity.
  if (half && (more || (bits & 1) != 0)) ++bits;
  return bits;
}

float ExactSum::rounded() const {
  const bool both = (marks_ & kPlusInfinityMark) != 0 && (marks_ & kMinusInfinityMark) != 0;
  if ((marks_ & kNanMark) != 0 || both) return std::bit_cast<float>(kQuietNan);
  if ((marks_ & kPlusInfinityMark) != 0) return std::bit_cast<float>(kInfinity);
  if ((marks_ & kMinusInfinityMark) != 0) return std::bit_cast<float>(kSignBit | kInfinity);

  const bool negative = (words_.back() >> 63) != 0;
  const std::uint32_t bits = finite_bits(negative ? negated(words_) : words_);
  return std::bit_cast<float>(negative ? kSignBit | bits : bits);
}

namespace {

constexpr unsigned kPartBits = 22;
constexpr std::uint32_t kPartMask = (1U << kPartBits) - 1;
// The last part holds the highest two of the 288 bits (a carry out of them is dropped, as two's
// complement demands) and how many sums have each mark.
constexpr unsigned kTopAt = 30;
constexpr unsigned kMinusAt = 11;
constexpr std::uint32_t kMarkMask = (1U << kMinusAt) - 1;
constexpr unsigned kLastAt = kPartBits * (ExactSum::kParts - 1);
constexpr unsigned kSignAt = kLastAt + 1;

}  // namespace

void ExactSum::write_parts(std::int32_t* parts) const {
  for (unsigned i = 0; i + 1 < kParts; ++i) {
    const unsigned w = kPartBits * i / 64;
    const unsigned bit = kPartBits * i % 64;
    std::uint64_t part = words_[w] >> bit;
    if (bit > 64 - kPartBits) part |= words_[w + 1] << (64 - bit);
    parts[i] = static_cast<std::int32_t>(part & kPartMask);
  }
  const bool nan = (marks_ & kNanMark) != 0;
  const std::uint32_t plus = nan || (marks_ & kPlusInfinityMark) != 0 ? 1 : 0;
  const std::uint32_t minus = nan || (marks_ & kMinusInfinityMark) != 0 ? 1 : 0;
  const auto top = static_cast<std::uint32_t>(words_[kLastAt / 64] >> (kLastAt % 64)) & 3U;
  parts[kParts - 1] = static_cast<std::int32_t>(top << kTopAt | minus << kMinusAt | plus);
}

ExactSum ExactSum::of_parts(const std::int32_t* parts) {
  ExactSum sum;
  std::uint64_t carry = 0;
  for (unsigned i = 0; i + 1 < kParts; ++i) {
    carry += static_cast<std::uint32_t>(parts[i]);
    const std::uint64_t part = carry & kPartMask;
    carry >>= kPartBits;
    const unsigned w = kPartBits * i / 64;
    const unsigned bit = kPartBits * i % 64;
    sum.words_[w] |= part << bit;
    if (bit > 64 - kPartBits) sum.words_[w + 1] |= part >> (64 - bit);
  }
  const auto last = static_cast<std::uint32_t>(parts[kParts - 1]);
  const std::uint64_t top = ((last >> kTopAt) + carry) & 3U;
  sum.words_[kLastAt / 64] |= top << (kLastAt % 64);
  if ((top & 2) != 0) sum.words_.back() |= ~std::uint64_t{0} << (kSignAt % 64);
  if ((last & kMarkMask) != 0) sum.marks_ |= kPlusInfinityMark;
  if ((last >> kMinusAt & kMarkMask) != 0) sum.marks_ |= kMinusInfinityMark;
  return sum;
}

namespace {

constexpr std::size_t kColumnsPerPass = 256;  // per pass, so that their sums stay in the cache

// Sums in float64, and the rounding error of each: 0 where the sum is exact.
struct Float64Sums {
  std::array<double, kColumnsPerPass> sums{};
  std::array<double, kColumnsPerPass> lost{};
};

// The rounding error of an addition is itself a float64 (Knuth's TwoSum); with NaN or ±Inf it is
// NaN.
ATP_VALUE_LOOP void add_row(const std::uint8_t* row, std::size_t count, Float64Sums& to) {
  for (std::size_t i = 0; i < count; ++i) {
    const double value = std::bit_cast<float>(load_value(row + 4 * i));
    const double before = to.sums[i];
    const double sum = before + value;
    const double added = sum - before;
    const double lost = (before - (sum - added)) + (value - added);
    to.sums[i] = sum;
    to.lost[i] += std::bit_cast<double>(std::bit_cast<std::uint64_t>(lost) & ~(1ULL << 63));
  }
}

float exact_column(std::span<const std::uint8_t* const> rows, std::size_t i) {
  ExactSum sum;
  for (const std::uint8_t* row : rows) sum.add(std::bit_cast<float>(load_value(row + 4 * i)));
  return sum.rounded();
}

}  // namespace

// Contributions are mostly close enough in magnitude for 53 bits to hold their sum, so rounding it
// to float32 is the only rounding. Sums that float64 does not hold exactly fall back to ExactSum.
void exact_sums(std::span<const std::uint8_t* const> rows, std::size_t count, std::uint8_t* at) {
  for (std::size_t begin = 0; begin < count; begin += kColumnsPerPass) {
    const std::size_t columns = std::min(kColumnsPerPass, count - begin);
    Float64Sums found;
    for (const std::uint8_t* row : rows) add_row(row + 4 * begin, columns, found);
    for (std::size_t i = 0; i < columns; ++i) {
      const float sum =
          found.lost[i] == 0 ? static_cast<float>(found.sums[i]) : exact_column(rows, begin + i);
      store_value(at + 4 * (begin + i), std::bit_cast<std::uint32_t>(sum));
    }
  }
}

}  // namespace atp
