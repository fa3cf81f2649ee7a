#pragma once

#include <span>

namespace atp::sim {

// The sum of float32 values, rounded once to nearest even: the oracle of the float path, written as
// plainly as possible and sharing nothing with the server's accumulator. It counts set bits per
// power of two, separately for positive and negative values, and carries only at the end. A NaN, or
// infinities of both signs, give NaN; a sum of zero is +0.
float reference_sum(std::span<const float> values);

}  // namespace atp::sim
