#include "atp/cli/node/connection_owner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "atp/driver/tcp/testing_accept.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr const char* kHeader =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";

Endpoint at(const char* text) { return resolve_endpoint(text).value(); }

// Little-endian, as the machines that atp supports print it.
TEST(ConnectionOwner, IsReadInTheKernelsTableOfEitherFamily) {
  const std::string ipv4 = std::string(kHeader) +
                           "   0: 0100007F:157C 00000000:0000 0A 00000000:00000000 00:00000000 "
                           "00000000   997        0 1 1 0 100 0 0 10 0\n"
                           "   1: 0100007F:157C 0100007F:9C40 01 00000000:00000000 00:00000000 "
                           "00000000   997        0 2 1 0 20 4 30 10 -1\n"
                           "   2: 0100007F:9C40 0100007F:157C 01 00000000:00000000 00:00000000 "
                           "00000000  1000        0 3 1 0 20 4 30 10 -1\n";
  const std::string mapped =
      std::string(kHeader) +
      "   0: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:157C 01 "
      "00000000:00000000 00:00000000 00000000  1001        0 3 1 0 20 4 30 10 -1\n";
  // The client has closed its socket with bytes still on their way: Linux before 6.17 prints user
  // 0.
  const std::string orphan =
      std::string(kHeader) +
      "   0: 0100007F:9C40 0100007F:157C 04 00000400:00000000 01:00000014 00000000     0        0 "
      "0 2 0 20 4 30 10 -1\n";
  const std::string without_file =
      std::string(kHeader) +
      "   0: 0100007F:9C40 0100007F:157C 01 00000000:00000000 00:00000000 00000000     0        0 "
      "0 1 0 20 4 30 10 -1\n";
  const std::string half_closed =
      std::string(kHeader) +
      "   0: 0100007F:9C40 0100007F:157C 05 00000000:00000000 00:00000000 00000000  1000        0 "
      "3 1 0 20 4 30 10 -1\n";
  const std::string truncated = std::string(kHeader) +
                                "   0: 0100007F:9C40 0100007F:157C 01 00000000:00000000 "
                                "00:00000000 00000000     0\n";
  const std::string ipv6 =
      std::string(kHeader) +
      "   0: 00000000000000000000000001000000:9C40 00000000000000000000000001000000:157C 01 "
      "00000000:00000000 00:00000000 00000000     0        0 3 1 0 20 4 30 10 -1\n";
  struct Case {
    const char* name;
    std::string table;
    const char* own;
    const char* peer;
    std::optional<uid_t> uid;
  };
  const Case cases[] = {
      {"the client's socket, not the node's", ipv4, "127.0.0.1:5500", "127.0.0.1:40000", 1000},
      {"a client with an IPv6 socket over IPv4", mapped, "127.0.0.1:5500", "127.0.0.1:40000", 1001},
      {"IPv6", ipv6, "[::1]:5500", "[::1]:40000", 0},
      {"a socket that its process has closed (FIN_WAIT1), on an old kernel", orphan,
       "127.0.0.1:5500", "127.0.0.1:40000", std::nullopt},
      {"an established connection without a process", without_file, "127.0.0.1:5500",
       "127.0.0.1:40000", std::nullopt},
      {"a client that sends no more (FIN_WAIT2)", half_closed, "127.0.0.1:5500", "127.0.0.1:40000",
       std::nullopt},
      {"a line without an inode", truncated, "127.0.0.1:5500", "127.0.0.1:40000", std::nullopt},
      {"another port of the client", ipv4, "127.0.0.1:5500", "127.0.0.1:40001", std::nullopt},
      {"another address of the client", ipv4, "127.0.0.1:5500", "127.0.0.2:40000", std::nullopt},
      {"a connection to another node", ipv4, "127.0.0.1:5501", "127.0.0.1:40000", std::nullopt},
      {"an empty table", kHeader, "127.0.0.1:5500", "127.0.0.1:40000", std::nullopt},
      {"a table in another format", "1: 2 3\n\n4", "127.0.0.1:5500", "127.0.0.1:1", std::nullopt},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(owner_in_table(c.table, at(c.own), at(c.peer)), c.uid) << c.name;
  }
}

TEST(ConnectionOwner, IsThisUserForAConnectionOfThisProcess) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (const char* address : {"127.0.0.1:0", "[::1]:0"}) {
    auto listener = TcpSocket::listen(at(address));
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    auto client = TcpSocket::connect_once(listener.value().local().value(), until);
    ASSERT_TRUE(client.ok()) << client.error().message;
    const TcpSocket accepted = accept_one(listener.value(), until);
    ASSERT_TRUE(accepted.is_open());
    const Endpoint own = accepted.local().value();
    EXPECT_EQ(owner_of_connection(own, accepted.peer().value()), geteuid()) << address;
  }
}

}  // namespace
}  // namespace atp
