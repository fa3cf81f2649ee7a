// Sums rows to words and reads results from words, for each number format.
#include "atp/collective/shm/outgoing_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "atp/wire/block_values.h"
#include "atp/wire/exact_sum.h"
#include "atp/wire/lanes.h"
#include "atp/wire/plain_values.h"
#include "atp/wire/values.h"

namespace atp {
namespace {

using Lanes = std::array<std::uint8_t, 4 * kBlockValues>;
using Rows = std::span<const std::byte* const>;

std::size_t words_of_halves(std::size_t count) { return (count + 1) / 2; }

std::uint8_t* bytes_at(std::int32_t* words) { return reinterpret_cast<std::uint8_t*>(words); }
const std::uint8_t* bytes_at(const std::int32_t* words) {
  return reinterpret_cast<const std::uint8_t*>(words);
}

void sum_plain(DataType type, Reduction reduction, Rows rows, std::size_t count, std::int32_t* to) {
  const std::uint8_t kind = is_sum(reduction) ? ATP_KIND_SUM_PLAIN : ATP_KIND_MAX_PLAIN;
  Lanes lanes;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    write_plain(type, reduction, rows[rank], count, lanes.data());
    rank == 0 ? store_lanes(kind, bytes_at(to), lanes.data(), 4 * count)
              : combine_lanes(kind, bytes_at(to), lanes.data(), 4 * count);
  }
}

void sum_in_parts(DataType type, Rows rows, std::size_t count, std::int32_t* to) {
  std::vector<ExactSum> sums(count);
  Lanes floats;
  for (const std::byte* row : rows) {
    write_floats(type, row, count, floats.data());
    for (std::size_t i = 0; i < count; ++i) {
      sums[i].add(std::bit_cast<float>(load_value(floats.data() + 4 * i)));
    }
  }
  for (std::size_t i = 0; i < count; ++i) sums[i].write_parts(to + ExactSum::kParts * i);
}

void read_parts(const std::int32_t* from, std::size_t count, float divisor, DataType type,
                std::byte* to) {
  Lanes floats;
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = ExactSum::of_parts(from + ExactSum::kParts * i).rounded();
    store_value(floats.data() + 4 * i, std::bit_cast<std::uint32_t>(sum));
  }
  read_floats(floats.data(), count, divisor, type, to);
}

// For a block with NaN or ±Inf, whose values do not fit 16 bits.
void add_classes(DataType type, Rows rows, std::size_t count, std::int32_t* sums) {
  Lanes classes;
  for (const std::byte* row : rows) {
    write_classes(type, row, count, classes.data());
    for (std::size_t i = 0; i < count; ++i) sums[i] += load_value16(classes.data() + 2 * i);
  }
}

void read_classes_of(const std::int32_t* sums, std::size_t count, DataType type, std::byte* to) {
  Lanes classes;
  for (std::size_t i = 0; i < count; ++i) {
    store_value16(classes.data() + 2 * i, static_cast<std::uint16_t>(sums[i]));
  }
  read_classes(classes.data(), count, type, to);
}

// Packs two 16-bit sums into one word. Neither of them, nor the sum over all hosts, leaves ±32767,
// so the lower one borrows at most 1 from the upper one, and its sign shows whether it did.
std::int32_t pack(std::int32_t lower, std::int32_t upper) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(upper) << 16) +
                                   static_cast<std::uint32_t>(lower));
}
std::int32_t lower_of(std::int32_t word) { return static_cast<std::int16_t>(word); }
std::int32_t upper_of(std::int32_t word) {
  const std::uint32_t rest =
      static_cast<std::uint32_t>(word) - static_cast<std::uint32_t>(lower_of(word));
  return static_cast<std::int16_t>(rest >> 16);
}

std::int16_t exponent_of(std::int32_t word) { return static_cast<std::int16_t>(word); }

}  // namespace

OutgoingSums::OutgoingSums(DataType type, Reduction reduction, NumberFormat format, bool small,
                           const BlockLayout& layout, std::size_t world_size)
    : type_(type),
      reduction_(reduction),
      format_(small ? NumberFormat::kExact : format),
      is_in_blocks_(is_sum(reduction) && is_floating(type) && format_ != NumberFormat::kExact),
      layout_(layout),
      world_size_(world_size) {}

Reduction OutgoingSums::of_words() const {
  return is_sum(reduction_) ? Reduction::kSum : Reduction::kMax;
}

float OutgoingSums::divisor() const {
  return reduction_ == Reduction::kAverage ? static_cast<float>(world_size_) : 1.0F;
}

std::size_t OutgoingSums::most_words(std::size_t values) { return ExactSum::kParts * values; }

OutgoingSums::Carriage OutgoingSums::carriage_of(const std::int32_t* exponent) const {
  if (!is_sum(reduction_) || !is_floating(type_)) return Carriage::kPlain;
  if (exponent == nullptr) return Carriage::kParts;
  if (*exponent == kZeroBlock) return Carriage::kNothing;
  if (format_ == NumberFormat::kBlocksInt16) return Carriage::kHalves;
  return *exponent == kSpecialBlock ? Carriage::kParts : Carriage::kUnits;
}

template <class Act>
void OutgoingSums::for_each_block(std::size_t begin, std::size_t end, const std::int32_t* exponents,
                                  const Act& act) const {
  for (std::size_t at = begin; at < end;) {
    const std::size_t count =
        is_in_blocks_ ? layout_.block_at(at).end - at : std::min(kBlockValues, end - at);
    act(count, exponents);
    if (exponents != nullptr) ++exponents;
    at += count;
  }
}

void OutgoingSums::find_exponents(Rows rows, std::size_t begin, std::size_t end,
                                  std::int32_t* to) const {
  std::vector<const std::byte*> at(rows.begin(), rows.end());
  for_each_block(begin, end, to, [&](std::size_t count, const std::int32_t* /*its_place*/) {
    *to++ = block_exponent_of_rows(type_, at, count);
    for (const std::byte*& row : at) row += bytes_of(type_) * count;
  });
}

std::size_t OutgoingSums::words(std::size_t begin, std::size_t end,
                                const std::int32_t* exponents) const {
  std::size_t sum = 0;
  for_each_block(begin, end, exponents, [&](std::size_t count, const std::int32_t* exponent) {
    switch (carriage_of(exponent)) {
      case Carriage::kNothing: break;
      case Carriage::kPlain:
      case Carriage::kUnits: sum += count; break;
      case Carriage::kHalves: sum += words_of_halves(count); break;
      case Carriage::kParts: sum += ExactSum::kParts * count; break;
    }
  });
  return sum;
}

void OutgoingSums::sum(Rows rows, std::size_t begin, std::size_t end, const std::int32_t* exponents,
                       std::int32_t* to) const {
  std::vector<const std::byte*> at(rows.begin(), rows.end());
  for_each_block(begin, end, exponents, [&](std::size_t count, const std::int32_t* exponent) {
    switch (carriage_of(exponent)) {
      case Carriage::kNothing: break;
      case Carriage::kPlain:
        sum_plain(type_, reduction_, at, count, to);
        to += count;
        break;
      case Carriage::kUnits: {
        const BlockUnit unit(exponent_of(*exponent), world_size_, format_);
        add_rows_in_units(type_, at, count, unit, to);
        to += count;
        break;
      }
      case Carriage::kHalves:
        sum_halves(at, count, *exponent, to);
        to += words_of_halves(count);
        break;
      case Carriage::kParts:
        sum_in_parts(type_, at, count, to);
        to += ExactSum::kParts * count;
        break;
    }
    for (const std::byte*& row : at) row += bytes_of(type_) * count;
  });
}

void OutgoingSums::sum_halves(Rows rows, std::size_t count, std::int32_t exponent,
                              std::int32_t* to) const {
  std::array<std::int32_t, kBlockValues + 1> sums{};
  if (exponent == kSpecialBlock) {
    add_classes(type_, rows, count, sums.data());
  } else {
    const BlockUnit unit(exponent_of(exponent), world_size_, format_);
    add_rows_in_units(type_, rows, count, unit, sums.data());
  }
  for (std::size_t i = 0; i < words_of_halves(count); ++i) {
    to[i] = pack(sums[2 * i], sums[2 * i + 1]);
  }
}

void OutgoingSums::read(const std::int32_t* from, std::size_t begin, std::size_t end,
                        const std::int32_t* exponents, std::byte* to) const {
  Lanes lanes;
  for_each_block(begin, end, exponents, [&](std::size_t count, const std::int32_t* exponent) {
    switch (carriage_of(exponent)) {
      case Carriage::kNothing: std::memset(to, 0, bytes_of(type_) * count); break;
      case Carriage::kPlain:
        load_lanes(ATP_KIND_SUM_PLAIN, bytes_at(from), lanes.data(), 4 * count);
        read_plain(type_, reduction_, lanes.data(), count, to);
        from += count;
        break;
      case Carriage::kUnits: {
        const BlockUnit unit(exponent_of(*exponent), world_size_, format_);
        write_sums_of_units(from, count, unit, divisor(), type_, to);
        from += count;
        break;
      }
      case Carriage::kHalves:
        read_halves(from, count, *exponent, to);
        from += words_of_halves(count);
        break;
      case Carriage::kParts:
        read_parts(from, count, divisor(), type_, to);
        from += ExactSum::kParts * count;
        break;
    }
    to += bytes_of(type_) * count;
  });
}

void OutgoingSums::read_halves(const std::int32_t* from, std::size_t count, std::int32_t exponent,
                               std::byte* to) const {
  std::array<std::int32_t, kBlockValues + 1> sums;
  for (std::size_t i = 0; i < words_of_halves(count); ++i) {
    sums[2 * i] = lower_of(from[i]);
    sums[2 * i + 1] = upper_of(from[i]);
  }
  if (exponent == kSpecialBlock) {
    read_classes_of(sums.data(), count, type_, to);
  } else {
    const BlockUnit unit(exponent_of(exponent), world_size_, format_);
    write_sums_of_units(sums.data(), count, unit, divisor(), type_, to);
  }
}

}  // namespace atp
