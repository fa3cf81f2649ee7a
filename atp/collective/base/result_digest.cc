// Folds results into a digest in the order of their operations, and compares the ranks' digests.
#include "atp/collective/base/result_digest.h"

// Inlines xxhash, so that the program runs without its shared library.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "atp/base/text.h"

namespace atp {
namespace {

Digest digest_of(const void* data, std::size_t bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
  Digest digest;
  static_assert(sizeof canonical.digest == sizeof digest.bytes);
  std::memcpy(digest.bytes.data(), canonical.digest, sizeof canonical.digest);
  return digest;
}

Digest read_digest(std::span<const std::uint32_t> words) {
  Digest digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<std::uint8_t>(words[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

struct Group {
  Digest digest;
  RankSet ranks;
};

// Groups ranks by digest: the largest group first; among equal groups, the one with the lowest
// rank.
std::vector<Group> groups_of(std::span<const std::uint32_t> words) {
  std::vector<Group> groups;
  for (std::size_t rank = 0; rank * kDigestWords < words.size(); ++rank) {
    const Digest digest = read_digest(words.subspan(rank * kDigestWords, kDigestWords));
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& g) { return g.digest == digest; });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{digest, {}});
    group->ranks.insert(static_cast<Rank>(rank));
  }
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    if (a.ranks.size() != b.ranks.size()) return a.ranks.size() > b.ranks.size();
    return a.ranks.lowest() < b.ranks.lowest();
  });
  return groups;
}

}  // namespace

std::string Digest::text() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

void ResultDigest::add(std::uint64_t operation, DataType type, std::span<const std::byte> result) {
  const Ended ended{static_cast<std::uint8_t>(type), digest_of(result.data(), result.size())};
  const std::lock_guard lock(mutex_);
  fold(operation, ended);
}

void ResultDigest::add_failed(std::uint64_t operation) {
  const std::lock_guard lock(mutex_);
  fold(operation, {});
}

// Hashes the digest so far, the operation's number in it, its type and the digest of its result.
Digest ResultDigest::folded(const Digest& digest, std::uint64_t number, const Ended& ended) {
  std::array<std::uint8_t, 16 + 8 + 1 + 16> bytes;
  std::memcpy(bytes.data(), digest.bytes.data(), 16);
  for (int i = 0; i < 8; ++i) bytes[16 + i] = static_cast<std::uint8_t>(number >> (8 * i));
  bytes[24] = ended.type;
  std::memcpy(bytes.data() + 25, ended.digest.bytes.data(), 16);
  return digest_of(bytes.data(), bytes.size());
}

void ResultDigest::fold(std::uint64_t operation, const Ended& ended) {
  early_.emplace(operation, ended);
  while (!early_.empty() && early_.begin()->first == next_) {
    const Ended& next = early_.begin()->second;
    digest_ = folded(digest_, next_ - first_, next);
    whole_ = folded(whole_, next_, next);
    early_.erase(early_.begin());
    ++next_;
  }
}

DigestReading ResultDigest::whole() const {
  const std::lock_guard lock(mutex_);
  return {next_, whole_};
}

DigestReading ResultDigest::read() const {
  const std::lock_guard lock(mutex_);
  return {next_ - first_, digest_};
}

DigestReading ResultDigest::restart() {
  const std::lock_guard lock(mutex_);
  const DigestReading reading{next_ - first_, digest_};
  first_ = next_;
  digest_ = {};
  return reading;
}

void write_digest(const Digest& digest, Rank rank, std::span<std::uint32_t> words) {
  std::uint32_t* at = words.data() + rank * kDigestWords;
  for (std::size_t i = 0; i < kDigestWords; ++i) {
    at[i] = 0;
    for (std::size_t b = 0; b < 4; ++b) at[i] = at[i] << 8 | digest.bytes[4 * i + b];
  }
}

std::optional<std::string> digest_difference(std::span<const std::uint32_t> words,
                                             const OperationRange& operations) {
  const std::vector<Group> groups = groups_of(words);
  if (groups.size() < 2) return std::nullopt;
  RankSet others;
  for (std::size_t i = 1; i < groups.size(); ++i) {
    groups[i].ranks.for_each([&](Rank rank) { others.insert(rank); });
  }
  const bool majority = groups[0].ranks.size() > others.size();
  std::string text = "the results of " + ranks_text(others) + " differ from those of " +
                     ranks_text(groups[0].ranks) + " in operations " +
                     std::to_string(operations.first) + " to " + std::to_string(operations.last) +
                     " or before them";
  for (std::size_t i = 0; i < groups.size() && i < 2; ++i) {
    text += (i == 0 ? " (digest " : ", not ") + groups[i].digest.text();
  }
  text += "): ";
  text += majority ? "look for faulty memory or a faulty network card on " + ranks_text(others)
                   : "look for faulty memory or a faulty network card on either";
  return text + ", or for a program that writes to a tensor before its operation has ended";
}

}  // namespace atp
