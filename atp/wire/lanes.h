#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/wire/packet.h"

// The arithmetic of sums on their way (docs/protocol.md §4): what a switch and a server do with the
// integers of a fragment, as its kind says. A sum lies in memory as it does on the wire, lane by
// lane, two of int16 in the place of one of int32, but in host byte order.
//
// All of it is commutative and associative: sums are taken modulo the lane's size, and a maximum is
// one. So no order of contributions can show. `bytes`: a whole number of lanes.

namespace atp {

// sum = in.
void store_lanes(std::uint8_t kind, std::uint8_t* sum, const std::uint8_t* in, std::size_t bytes);

// sum = sum ∘ in.
void combine_lanes(std::uint8_t kind, std::uint8_t* sum, const std::uint8_t* in,
                   std::size_t bytes);

// sum = sum ∘ in, and out = sum.
void combine_and_load_lanes(std::uint8_t kind, std::uint8_t* sum, const std::uint8_t* in,
                            std::uint8_t* out, std::size_t bytes);

// out = sum.
void load_lanes(std::uint8_t kind, const std::uint8_t* sum, std::uint8_t* out, std::size_t bytes);

}  // namespace atp
