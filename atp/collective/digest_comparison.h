#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "atp/base/rank_set.h"
#include "atp/collective/result_digest.h"

// All ranks' digests side by side, as the sum of vectors in which each rank has filled its own place
// only; and who of them differs.

namespace atp {

inline constexpr std::size_t kDigestWords = 4;  // of 32 bits, of a rank

// Puts this rank's digest at its place; all others hold zeros.
void write_digest(const Digest& digest, Rank rank, std::span<std::uint32_t> words);

struct OperationRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

// Whose digests are not those of most ranks, in words; nothing if all are equal.
std::optional<std::string> digest_difference(std::span<const std::uint32_t> words,
                                             const OperationRange& operations);

}  // namespace atp
