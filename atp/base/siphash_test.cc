#include "atp/base/siphash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace atp {
namespace {

// The authors' key: the bytes 00 to 0f.
constexpr HashKey kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

// Of the bytes 00, 01, … the vectors that the authors published with their code.
TEST(SipHash, GivesTheAuthorsVectors) {
  std::vector<std::uint8_t> message(63);
  std::iota(message.begin(), message.end(), std::uint8_t{0});
  const auto hash = [&](std::size_t length) {
    return sip_hash(kKey, std::span(message).first(length));
  };
  EXPECT_EQ(hash(0), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(hash(1), 0x74f839c593dc67fdu);
  EXPECT_EQ(hash(7), 0xab0200f58b01d137u);
  EXPECT_EQ(hash(8), 0x93f5f5799a932462u);
  EXPECT_EQ(hash(15), 0xa129ca6149be45e5u);
  EXPECT_EQ(hash(63), 0x958a324ceb064572u);
}

}  // namespace
}  // namespace atp
