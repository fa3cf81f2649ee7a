#include "atp/driver/http/own_host.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

TEST(IsOwnHost, IsTrueOnlyOfNamesThatNoOtherSiteCanHave) {
  struct Case {
    std::string header;
    bool is_own;
  };
  const Case cases[] = {
      {"127.0.0.1:5580", true},
      {"127.0.0.1", true},
      {"[::1]:5580", true},
      {"10.0.7.3:80", true},
      {"localhost:9000", true},
      {"LocalHost", true},
      {"ops1:5580", true},
      {"evil.example", false},
      {"localhost.evil.example", false},
      {"127.0.0.1.evil", false},
      {"evil.example:5580", false},
      {"", false},
      {":5580", false},
      {"[", false},
      {"[::1]", true},
      {"localhost:", true},
      {"[localhost", false},
      {"[localhost]", false},
      {"[127.0.0.1]", false},
      {"[::1", false},
      {"[::1]evil", false},
      {"[::1]:80:evil", false},
      {"[ops1\n", false},
      {"localhost:80:evil", false},
      {"localhost:evil", false},
      {"ops1:5580.evil.example", false},
      {"::1", false},
      {std::string("127.0.0.1\0.evil.example", 23), false},
  };
  for (const Case& c : cases) EXPECT_EQ(is_own_host(c.header, {"ops1", ""}), c.is_own) << c.header;
}

}  // namespace
}  // namespace atp
