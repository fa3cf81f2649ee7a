#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/core/worker/worker_api.h"

// What the rules of numbers give (docs/protocol.md §5), written once more and on purpose from the
// page's words, in float64 and with nothing of the product's arithmetic: what the oracle holds
// results against.

namespace atp::sim {

// The values of a tensor; every type's are float64 values, too.
std::vector<double> values_of(DataType type, std::span<const std::byte> bytes);

// The value of the type that is nearest to a float32 value, ties to even.
double rounded_to(DataType type, float value);

// Equal, where a NaN is any NaN and −0 is not +0.
bool same_value(double a, double b);

// The reductions without blocks: `inputs` by rank, all of the type.
std::vector<double> plain_result(const OperationSpec& spec,
                                 const std::vector<std::vector<double>>& inputs);
// Sums rounded once: what is exact, and what the fixed scale could not hold.
std::vector<double> exact_result(const OperationSpec& spec,
                                 const std::vector<std::vector<double>>& inputs);
// Sums of multiples of blocks' units. `segments`: lengths; none: a single one.
std::vector<double> block_result(const OperationSpec& spec, std::span<const std::size_t> segments,
                                 const std::vector<std::vector<double>>& inputs);

}  // namespace atp::sim
