#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "atp/base/rank_set.h"
#include "atp/wire/number_format.h"

// A digest of all results of a rank: a receipt that ranks, runs and machines can compare. Results
// come in any order, and from several threads; they are folded in the order of their operations.

namespace atp {

// 128 bits (XXH3).
struct Digest {
  std::array<std::uint8_t, 16> bytes{};  // as printed, first digits first
  std::string text() const;              // 32 hexadecimal digits
  bool operator==(const Digest&) const = default;
};

struct DigestReading {
  std::uint64_t operations = 0;  // whose results are in it
  Digest digest;
  bool operator==(const DigestReading&) const = default;
};

class ResultDigest {
 public:
  // What an operation left at this rank. Called before anybody is told of its end, as the memory is
  // the caller's then. Operations are numbered from 0 without gaps.
  void add(std::uint64_t operation, DataType type, std::span<const std::byte> result);
  // One without a result, which counts nevertheless.
  void add_failed(std::uint64_t operation);

  // Of the operations from the first one on that have all ended.
  DigestReading read() const;
  // The same, and begins anew: the next operation that is folded is the first of another digest.
  DigestReading restart();
  // As read(), whether anybody has begun anew or not.
  DigestReading whole() const;

 private:
  struct Ended {
    std::uint8_t type = 0;  // 0: none
    Digest digest;
  };
  static Digest folded(const Digest& digest, std::uint64_t number, const Ended& ended);
  void fold(std::uint64_t operation, const Ended& ended);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Ended> early_;  // operations that ended before an older one
  std::uint64_t first_ = 0;               // operation of this digest
  std::uint64_t next_ = 0;                // to be folded
  Digest digest_;                         // since first_
  Digest whole_;                          // since 0
};

// All ranks' digests side by side, as the sum of vectors in which each rank has filled its own
// place only; and who of them differs.

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
