#include "atp/driver/http/http_request.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

TEST(HttpRequest, IsReadFromItsHead) {
  struct Case {
    const char* what;
    std::string bytes;
    const char* path;
    std::optional<std::string> host;
    bool head_only = false;
  };
  const Case cases[] = {
      {"a browser's", "GET /page HTTP/1.1\r\nAccept: */*\r\nHost: a0:9501\r\n\r\n", "/page",
       "a0:9501"},
      {"HTTP/1.0 without a host", "GET / HTTP/1.0\r\n\r\n", "/", std::nullopt},
      {"lines end with a line feed alone", "GET / HTTP/1.1\nHost: x\n\n", "/", "x"},
      {"HEAD", "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "/", "x", true},
      {"a query", "GET /page?a=b HTTP/1.1\r\nHost: x\r\n\r\n", "/page", "x"},
      {"an empty line first", "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "/", "x"},
      {"a header's name in small letters", "GET / HTTP/1.1\r\nhost:x\r\n\r\n", "/", "x"},
      {"an empty host", "GET / HTTP/1.1\r\nHost: \r\n\r\n", "/", ""},
      {"the host in the first line counts more",
       "GET http://evil.example/page HTTP/1.1\r\nHost: localhost\r\n\r\n", "/page", "evil.example"},
      {"the first line has only a host", "GET http://x HTTP/1.1\r\n\r\n", "/", "x"},
      {"a body is ignored", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nbody", "/",
       "x"},
      {"a second request is ignored",
       "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /other HTTP/1.1\r\nHost: y\r\n\r\n", "/", "x"},
  };
  for (const Case& c : cases) {
    const auto read = read_http_request(c.bytes);
    ASSERT_TRUE(read) << c.what;
    EXPECT_EQ(read->problem, 0) << c.what;
    EXPECT_EQ(read->request.path, c.path) << c.what;
    EXPECT_EQ(read->request.host, c.host) << c.what;
    EXPECT_EQ(read->request.head_only, c.head_only) << c.what;
  }
}

TEST(HttpRequest, IsRefusedIfItIsNotOne) {
  struct Case {
    const char* what;
    std::string bytes;
    int problem;
  };
  const Case cases[] = {
      {"another method", "POST / HTTP/1.1\r\nHost: x\r\n\r\n", 501},
      {"a method in small letters", "get / HTTP/1.1\r\nHost: x\r\n\r\n", 501},
      {"no version", "GET /\r\n\r\n", 400},
      {"another version", "GET / HTTP/2.0\r\n\r\n", 505},
      {"something else", "atp-status 1\n\n", 400},
      {"a target that is no path", "GET page HTTP/1.1\r\n\r\n", 400},
      {"a tunnel", "CONNECT x:1 HTTP/1.1\r\n\r\n", 501},
      {"two hosts", "GET / HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n", 400},
      {"a header without a colon", "GET / HTTP/1.1\r\nHost\r\n\r\n", 400},
      {"a header that goes on from the last line", "GET / HTTP/1.1\r\nHost: x\r\n y: z\r\n\r\n",
       400},
      {"a header's name with a space", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400},
      {"a head without an end", "GET / HTTP/1.1\r\nX: " + std::string(kMostRequestBytes, 'x'), 431},
  };
  for (const Case& c : cases) {
    const auto read = read_http_request(c.bytes);
    ASSERT_TRUE(read) << c.what;
    EXPECT_EQ(read->problem, c.problem) << c.what;
  }
}

TEST(HttpRequest, IsAwaitedUntilItsHeadIsComplete) {
  const std::string whole = "GET /page HTTP/1.1\r\nHost: x\r\n\r\n";
  for (std::size_t length = 0; length < whole.size() - 1; ++length) {
    EXPECT_FALSE(read_http_request(whole.substr(0, length))) << length;
  }
}

}  // namespace
}  // namespace atp
