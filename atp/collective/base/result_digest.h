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

// A digest of all results of a rank, which can be compared between ranks, runs and machines.
// Results may arrive in any order and from several threads; they are folded in the order of their
// operations.

namespace atp {

// 128 bits (XXH3).
struct Digest {
  std::array<std::uint8_t, 16> bytes{};  // as printed, first digits first
  std::string text() const;              // 32 hexadecimal digits
  bool operator==(const Digest&) const = default;
};

struct DigestReading {
  std::uint64_t operations = 0;  // how many results are in it
  Digest digest;
  bool operator==(const DigestReading&) const = default;
};

class ResultDigest {
 public:
  // Adds an operation's result on this rank. Call it before anybody is told of the end, since the
  // memory then belongs to the caller. Operations are numbered from 0 without gaps.
  void add(std::uint64_t operation, DataType type, std::span<const std::byte> result);
  // Adds an operation without a result, which still counts.
  void add_failed(std::uint64_t operation);

  // The digest of the operations from the first up to the first that has not ended.
  DigestReading read() const;
  // The same, and starts a new digest with the next operation.
  DigestReading restart();
  // Like read(), but regardless of restarts.
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
  std::uint64_t first_ = 0;               // the first operation of this digest
  std::uint64_t next_ = 0;                // the next operation to fold
  Digest digest_;                         // since first_
  Digest whole_;                          // since 0
};

// All ranks' digests side by side: the sum of vectors in which each rank has filled only its own
// place. Finds the ranks that differ.

inline constexpr std::size_t kDigestWords = 4;  // 32-bit words per rank

// Puts this rank's digest in its place; all other words become 0.
void write_digest(const Digest& digest, Rank rank, std::span<std::uint32_t> words);

struct OperationRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

// Text that names the ranks whose digests differ from most ranks'; nothing if all are equal.
std::optional<std::string> digest_difference(std::span<const std::uint32_t> words,
                                             const OperationRange& operations);

}  // namespace atp
