#include "atp/collective/result_digest.h"

// The functions themselves, so that nobody needs the shared library to run the program.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

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

// The digest so far, the operation's number in it, its type, and the digest of its result.
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

}  // namespace atp
