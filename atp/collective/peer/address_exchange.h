#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/base/result.h"
#include "atp/wire/endpoint.h"

// How the ranks of a job learn at which addresses the others listen for connections, if nobody else
// tells them: by a sum in the job that they have joined. Each rank has its own address among zeros.

namespace atp {

inline constexpr std::size_t kAddressWords = 5;

// The summands of a rank, kAddressWords for each of `ranks`.
std::vector<std::int32_t> address_words(const Endpoint& own, std::size_t rank, std::size_t ranks);
// By rank, from the sums.
std::vector<Endpoint> addresses_of(std::span<const std::int32_t> words);

// The address that this host's packets to `other` come from, with port 0.
Result<Endpoint> source_towards(const Endpoint& other);

}  // namespace atp
