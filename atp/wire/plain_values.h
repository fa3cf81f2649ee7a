#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/wire/number_format.h"

// Values that travel as int32 without a unit (docs/inside/protocol §5, *Plain*): sums of integers,
// taken modulo 2^32, and every maximum and minimum. A minimum is the maximum of values in reversed
// order. A floating-point value becomes an integer that compares the same, so −0 is below +0. A NaN
// in any contribution makes the result NaN.

namespace atp {

void write_plain(DataType type, Reduction reduction, const std::byte* values, std::size_t count,
                 std::uint8_t* at);
void read_plain(DataType type, Reduction reduction, const std::uint8_t* at, std::size_t count,
                std::byte* values);

// For a caller that holds the floats of all ranks, one row per rank: the maximum or minimum that
// write_plain(), the lanes' reduction and read_plain() would give. `to` may be one of the rows.
void compare_plain_rows(DataType type, Reduction reduction, std::span<const std::byte* const> rows,
                        std::size_t count, std::byte* to);

}  // namespace atp
