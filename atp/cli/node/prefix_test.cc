#include "atp/cli/node/prefix.h"

#include <gtest/gtest.h>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

struct Case {
  const char* prefix;
  const char* inside;
  const char* outside;
};

TEST(Prefix, ContainsItsAddressesAndNoOthers) {
  for (const Case& c : std::vector<Case>{
           {"10.0.0.0/8", "10.255.1.2:1", "11.0.0.0:1"},
           {"10.1.2.3/8", "10.0.0.1:1", "11.1.2.3:1"},
           {"10.1.2.3", "10.1.2.3:1", "10.1.2.4:1"},
           {"10.1.2.0/23", "10.1.3.255:1", "10.1.4.0:1"},
           {"0.0.0.0/0", "255.1.1.1:1", "[fd00::1]:1"},
           {"fd00::/8", "[fdff::1]:1", "[fe00::1]:1"},
           {"::1/128", "[::1]:1", "[::2]:1"},
           {"::1", "[::1]:1", "127.0.0.1:1"},
       }) {
    const Result<Prefix> prefix = parse_prefix(c.prefix);
    ASSERT_TRUE(prefix.ok()) << c.prefix;
    EXPECT_TRUE(prefix.value().contains(resolve_endpoint(c.inside).value())) << c.prefix;
    EXPECT_FALSE(prefix.value().contains(resolve_endpoint(c.outside).value())) << c.prefix;
  }
}

TEST(Prefix, RefusesTextThatIsNotANetwork) {
  for (const char* text : {"", "/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "10.0.0/8",
                           "::/129", "localhost/8", "10.0.0.0/-1", "10.0.0.0/8/8"}) {
    EXPECT_FALSE(parse_prefix(text).ok()) << text;
  }
}

TEST(Prefix, LoopbackCoversBothAddressFamilies) {
  const UpstreamPolicy policy(loopback_prefixes());
  EXPECT_TRUE(policy.allows(resolve_endpoint("127.8.8.8:5500").value()));
  EXPECT_TRUE(policy.allows(resolve_endpoint("[::1]:5500").value()));
  EXPECT_FALSE(policy.allows(resolve_endpoint("10.0.0.1:5500").value()));
}

}  // namespace
}  // namespace atp
