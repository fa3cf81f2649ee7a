#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/wire/packet.h"

// How a switch and a server combine the integers of a fragment, as its kind says
// (docs/inside/protocol §4). A sum in memory has the layout of the wire, lane by lane, two int16 in
// the place of one int32, but in host byte order.
//
// Every operation is commutative and associative (sums are taken modulo the lane's size), so the
// order of contributions does not matter. `bytes` must be a whole number of lanes.

namespace atp {

// sum = in.
void store_lanes(std::uint8_t kind, std::uint8_t* sum, const std::uint8_t* in, std::size_t bytes);

// sum = sum ∘ in.
void combine_lanes(std::uint8_t kind, std::uint8_t* sum, const std::uint8_t* in, std::size_t bytes);

// sum = sum ∘ in, and out = sum.
void combine_and_load_lanes(std::uint8_t kind, std::uint8_t* sum, const std::uint8_t* in,
                            std::uint8_t* out, std::size_t bytes);

// out = sum.
void load_lanes(std::uint8_t kind, const std::uint8_t* sum, std::uint8_t* out, std::size_t bytes);

}  // namespace atp
