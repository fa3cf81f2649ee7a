#include "atp/cli/node/status_service.h"

#include <gtest/gtest.h>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

TEST(StatusService, CountsEveryAddressOfThisMachineAsTheSameHost) {
  struct Case {
    const char* own;
    const char* peer;
    bool same;
  };
  const Case cases[] = {
      {"10.0.0.1:5500", "10.0.0.1:40000", true},
      {"10.0.0.1:5500", "203.0.113.254:5500", false},
      {"127.0.1.1:5501", "127.0.0.1:40000", true},
      {"127.0.0.1:5501", "127.7.7.7:40000", true},
      {"127.0.0.1:5501", "203.0.113.254:4000", false},
      {"10.0.0.1:5500", "127.0.0.1:40000", true},
      {"[::1]:5500", "[::1]:40000", true},
      {"[fd00::1]:5500", "[::1]:40000", true},
      {"[fd00::1]:5500", "[fd00::1]:40000", true},
      {"[fd00::1]:5500", "[2001:db8::2]:5500", false},
  };
  for (const Case& c : cases) {
    const Endpoint own = resolve_endpoint(c.own).value();
    EXPECT_EQ(is_same_host(own, resolve_endpoint(c.peer).value()), c.same) << c.own << c.peer;
  }
}

TEST(StatusService, LetsOnlyRootAndItsOwnUserDrainTheNode) {
  constexpr uid_t kNode = 997;
  EXPECT_TRUE(may_drain_here(0, kNode));
  EXPECT_TRUE(may_drain_here(kNode, kNode));
  EXPECT_FALSE(may_drain_here(1000, kNode));
  EXPECT_FALSE(may_drain_here(std::nullopt, kNode)) << "the kernel does not list the connection";
  EXPECT_FALSE(may_drain_here(1000, 0)) << "a node of root";
}

}  // namespace
}  // namespace atp
