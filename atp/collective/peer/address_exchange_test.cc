#include "atp/collective/peer/address_exchange.h"

#include <gtest/gtest.h>

#include <array>

namespace atp {
namespace {

TEST(AddressExchange, SumsOfAllRanksWordsAreTheirAddresses) {
  Endpoint ipv6{.port = 65'535};
  ipv6.address.fill(0xff);
  const std::array<Endpoint, 3> all{Endpoint::ipv4(10, 0, 0, 1, 4000), ipv6,
                                    Endpoint::ipv4(127, 0, 0, 1, 1)};
  std::vector<std::int32_t> sums(kAddressWords * all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto words = address_words(all[rank], rank, all.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += words[i];
  }
  EXPECT_EQ(addresses_of(sums), std::vector<Endpoint>(all.begin(), all.end()));
}

TEST(AddressExchange, TheSourceTowardsLoopbackIsLoopback) {
  EXPECT_EQ(source_towards(Endpoint::ipv4(127, 0, 0, 1, 5500)).value(),
            Endpoint::ipv4(127, 0, 0, 1, 0));
}

}  // namespace
}  // namespace atp
