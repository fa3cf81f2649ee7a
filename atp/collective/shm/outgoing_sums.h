#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/core/worker/block_layout.h"
#include "atp/wire/number_format.h"

// The rule of numbers (docs/inside/protocol §5) on one of several hosts. Its ranks' values are
// summed to 32-bit words that the network can add, or take the maximum of, without knowing what
// they mean. The result has the same bits as if every rank had sent for itself, because everything
// is computed with the number of ranks of the whole job.
//
// Values in blocks first need the largest exponent of any host, one word per block. Then a value of
// an ordinary block is a word, or half of one in 16 bits; a block that is zero on all ranks has no
// words; and a value with an exact sum, or in a special block, has the parts of that sum
// (ExactSum::kParts).

namespace atp {

class OutgoingSums {
 public:
  // `format`: for a floating-point sum that is not small; not the fixed scale. `layout` must
  // outlive this object. `world_size`: of the whole job.
  OutgoingSums(DataType type, Reduction reduction, NumberFormat format, bool small,
               const BlockLayout& layout, std::size_t world_size);

  // How the words of hosts are combined: kSum or kMax of int32.
  Reduction of_words() const;

  bool is_in_blocks() const { return is_in_blocks_; }
  // The largest exponent of any row, per block of the values from `begin` to `end`. Here and below
  // these are block boundaries, and each row starts with value `begin`. Hosts agree on the maximum.
  void find_exponents(std::span<const std::byte* const> rows, std::size_t begin, std::size_t end,
                      std::int32_t* to) const;

  // `exponents`: as agreed, from the block of `begin` on; null if values are not in blocks.
  std::size_t words(std::size_t begin, std::size_t end, const std::int32_t* exponents) const;
  // Computes the host's sum.
  void sum(std::span<const std::byte* const> rows, std::size_t begin, std::size_t end,
           const std::int32_t* exponents, std::int32_t* to) const;
  // Reads the result from the words combined over all hosts. `to` starts with value `begin`.
  void read(const std::int32_t* from, std::size_t begin, std::size_t end,
            const std::int32_t* exponents, std::byte* to) const;

  // The maximum number of words for this many values.
  static std::size_t most_words(std::size_t values);

 private:
  enum class Carriage : std::uint8_t { kNothing, kPlain, kUnits, kHalves, kParts };
  Carriage carriage_of(const std::int32_t* exponent) const;
  // Calls act(count, exponent) for each block, or for groups of as many values if there are no
  // blocks.
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
