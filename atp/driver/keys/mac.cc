#include "atp/driver/keys/mac.h"

#include "atp/base/check.h"
#include "atp/driver/keys/siphash_lanes.h"
#include "atp/wire/packet.h"

#ifdef ATP_HAS_SODIUM
#include <sodium.h>
#endif

namespace atp {

#ifdef ATP_HAS_SODIUM

Status macs_available() {
  if (sodium_init() >= 0) return ok_status();
  return Error{"cannot use keys: libsodium found no source of random numbers (/dev/urandom)"};
}

namespace {
PacketKey keyed_hash(const TenantKey& key, std::span<const std::uint8_t> message) {
  PacketKey result;
  const int problem = crypto_generichash(result.data(), result.size(), message.data(),
                                         message.size(), key.data(), key.size());
  ATP_CHECK(problem == 0);
  return result;
}
}  // namespace

PacketKey packet_key(const TenantKey& key, std::uint32_t job) {
  std::array<std::uint8_t, 11 + 4> message{'a', 't', 'p', ' ', 'j', 'o', 'b', ' ', 'k', 'e', 'y'};
  atp_store32(message.data() + 11, job);
  return keyed_hash(key, message);
}

// Its message is shorter than that of any job's key.
std::uint64_t key_print(const TenantKey& key) {
  constexpr std::array<std::uint8_t, 9> kMessage{'k', 'e', 'y', ' ', 'p', 'r', 'i', 'n', 't'};
  return atp_load64(keyed_hash(key, kMessage).data());
}

std::uint64_t packet_tag(const PacketKey& key, std::span<const std::uint8_t> bytes) {
  static_assert(std::tuple_size_v<PacketKey> == crypto_shorthash_siphashx24_KEYBYTES);
  std::array<std::uint8_t, crypto_shorthash_siphashx24_BYTES> hash;
  crypto_shorthash_siphashx24(hash.data(), bytes.data(), bytes.size(), key.data());
  return atp_load64(hash.data());
}

void packet_tags(const PacketKey& key, std::span<const std::uint8_t* const> packets,
                 std::size_t length, std::uint64_t* tags) {
  std::size_t done = 0;
  for (const std::size_t lanes : {std::size_t{8}, std::size_t{4}}) {
    if (lanes > hash_lanes_here()) continue;
    for (; packets.size() - done >= lanes; done += lanes) {
      hash_lanes(lanes, key, packets.data() + done, length, tags + done);
    }
  }
  for (; done < packets.size(); ++done) tags[done] = packet_tag(key, {packets[done], length});
}

std::uint32_t key_id(std::string_view name) {
  std::array<std::uint8_t, crypto_generichash_BYTES_MIN> hash;
  const int problem = crypto_generichash(hash.data(), hash.size(),
                                         reinterpret_cast<const unsigned char*>(name.data()),
                                         name.size(),  // NOLINT
                                         nullptr, 0);
  ATP_CHECK(problem == 0);
  return atp_load32(hash.data());
}

TenantKey random_key() {
  ATP_CHECK(sodium_init() >= 0);
  TenantKey key;
  randombytes_buf(key.data(), key.size());
  return key;
}

#else

Status macs_available() {
  return Error{
      "cannot use keys: this build of atp has no libsodium; install libsodium-dev, then build and "
      "install atp again"};
}

namespace {
[[noreturn]] void no_sodium() {
  ATP_CHECK(false && "keys without libsodium");
  __builtin_unreachable();
}
}  // namespace

PacketKey packet_key(const TenantKey&, std::uint32_t) { no_sodium(); }
std::uint64_t packet_tag(const PacketKey&, std::span<const std::uint8_t>) { no_sodium(); }
void packet_tags(const PacketKey&, std::span<const std::uint8_t* const>, std::size_t,
                 std::uint64_t*) {
  no_sodium();
}
std::uint64_t key_print(const TenantKey&) { no_sodium(); }
std::uint32_t key_id(std::string_view) { no_sodium(); }
TenantKey random_key() { no_sodium(); }

#endif

}  // namespace atp
