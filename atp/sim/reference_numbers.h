#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/core/worker/worker_api.h"

// The results that the rules of numbers demand (docs/inside/protocol §5), for the oracle to compare
// with. Deliberately a second implementation, written from the page alone, in float64 and without
// any of the product's arithmetic.

namespace atp::sim {

// The values of a tensor; a float64 holds those of every type.
std::vector<double> values_of(DataType type, std::span<const std::byte> bytes);

// The nearest value of the type to a float32 value, ties to even.
double rounded_to(DataType type, float value);

// Whether they are equal; any NaN equals any other, and −0 differs from +0.
bool same_value(double a, double b);

// Reductions without blocks; `inputs` by rank, all of the type.
std::vector<double> plain_result(const OperationSpec& spec,
                                 const std::vector<std::vector<double>>& inputs);
// Sums rounded once: exact operations, and those that the fixed scale could not hold.
std::vector<double> exact_result(const OperationSpec& spec,
                                 const std::vector<std::vector<double>>& inputs);
// Sums in multiples of the blocks' units. `segments`: lengths; none: a single one.
std::vector<double> block_result(const OperationSpec& spec, std::span<const std::size_t> segments,
                                 const std::vector<std::vector<double>>& inputs);

}  // namespace atp::sim
