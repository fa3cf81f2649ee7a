#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/core/worker/block_layout.h"
#include "atp/wire/number_format.h"

// The rule of numbers (docs/protocol.md §5) for a host of several: its ranks' values are summed
// here only as far as another host's sums can be added to them, to words of 32 bits which the
// network adds, or takes the maximum of, without knowing more about them. What comes back has the
// bits that it would have if every rank had sent for itself, since all is made with the number of
// ranks of the whole job.
//
// Values in blocks need the largest exponent of any host first, one word for each block. Then a
// value of an ordinary block is a word, or half of one in 16 bits; a block of zeros at all ranks
// has no words; and what has an exact sum, also a special block, has its parts (ExactSum::kParts).

namespace atp {

class OutgoingSums {
 public:
  // `format`: of a floating-point sum that is not small; not the fixed scale. `layout` must outlive
  // it. `world_size`: ranks of the job.
  OutgoingSums(DataType type, Reduction reduction, NumberFormat format, bool small,
               const BlockLayout& layout, std::size_t world_size);

  // How the words of hosts are combined: kSum or kMax of int32.
  Reduction of_words() const;

  bool is_in_blocks() const { return is_in_blocks_; }
  // The largest exponents in any row, one for each block of the values from `begin` to `end`. These
  // begin and end where blocks do, here and below, and each row begins with value `begin`. Hosts
  // agree on the maximum.
  void find_exponents(std::span<const std::byte* const> rows, std::size_t begin, std::size_t end,
                      std::int32_t* to) const;

  // `exponents`: as agreed, from the block of `begin` on; null where values are not in blocks.
  std::size_t words(std::size_t begin, std::size_t end, const std::int32_t* exponents) const;
  // The host's sum.
  void sum(std::span<const std::byte* const> rows, std::size_t begin, std::size_t end,
           const std::int32_t* exponents, std::int32_t* to) const;
  // The result, from the words that all hosts have come to. `to` begins with value `begin`.
  void read(const std::int32_t* from, std::size_t begin, std::size_t end,
            const std::int32_t* exponents, std::byte* to) const;

  // The most words that so many values can have.
  static std::size_t most_words(std::size_t values);

 private:
  enum class Carriage : std::uint8_t { kNothing, kPlain, kUnits, kHalves, kParts };
  Carriage carriage_of(const std::int32_t* exponent) const;
  // Calls act(count, exponent) for each block, or as many values where there are none.
  template <class Act>
  void for_each_block(std::size_t begin, std::size_t end, const std::int32_t* exponents,
                      const Act& act) const;
  void sum_halves(std::span<const std::byte* const> rows, std::size_t count, std::int32_t exponent,
                  std::int32_t* to) const;
  void read_halves(const std::int32_t* from, std::size_t count, std::int32_t exponent,
                   std::byte* to) const;
  float divisor() const;

  DataType type_;
  Reduction reduction_;
  NumberFormat format_;
  bool is_in_blocks_;
  const BlockLayout& layout_;
  std::size_t world_size_;
};

}  // namespace atp
