#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "atp/collective/testing/cluster.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/packet.h"

// The digest of a communicator's results: equal for equal inputs, and compared among the ranks.

namespace atp::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t kRanks = 3;
constexpr std::size_t kLengths[] = {5, 200'000, 0, 3000, 1};

struct Setting {
  std::size_t values_per_fragment = 350;
  bool through_switch = true;
  bool two_servers = false;
  std::uint64_t digest_every = 0;
};

// All ranks sum tensors of these lengths, several at a time; returns their digests.
std::vector<DigestReading> digests_of_run(const Setting& setting, float first_value = 0) {
  const TestingCluster cluster(kRanks);
  const TestingCluster second(kRanks);
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& o : options) {
    o.digest = true;
    o.digest_every = setting.digest_every;
    o.values_per_fragment = setting.values_per_fragment;
    if (!setting.through_switch) o.route.erase(o.route.begin());
    if (setting.two_servers) o.more_routes = {{second.server().endpoint()}};
  }
  const Communicators communicators = join_all(options);
  std::vector<DigestReading> digests(kRanks);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<std::vector<float>> tensors;
    std::vector<Handle> handles;
    for (const std::size_t length : kLengths) {
      tensors.push_back(tensor_of(rank, tensors.size(), length));
      for (float& value : tensors.back()) value *= 0.3F;  // not a multiple of any unit
    }
    tensors[0][0] += first_value;
    for (auto& tensor : tensors) handles.push_back(communicators[rank]->all_reduce(tensor));
    for (Handle& handle : handles) EXPECT_EQ(message(handle.wait()), "");
    digests[rank] = communicators[rank]->digest().value();
  });
  shut_down(communicators);
  return digests;
}

TEST(Digest, IsTheSameForTheSameInputsHoweverTheyAreSummed) {
  const DigestReading reference = digests_of_run({})[0];
  EXPECT_EQ(reference.operations, std::size(kLengths));
  for (const Setting& setting :
       {Setting{}, Setting{.values_per_fragment = 2226, .through_switch = false},
        Setting{.two_servers = true}, Setting{.digest_every = 2}}) {
    EXPECT_THAT(digests_of_run(setting), Each(reference))
        << setting.values_per_fragment << setting.through_switch << setting.two_servers
        << setting.digest_every;
  }
  EXPECT_NE(digests_of_run({}, 0x1p-20F)[0].digest, reference.digest) << "for other inputs";
}

TEST(Digest, IsKeptOnlyIfAskedFor) {
  const TestingCluster cluster(1);
  const Communicators communicators = join_all(cluster);
  EXPECT_EQ(communicators[0]->digest(), std::nullopt);
  EXPECT_EQ(communicators[0]->restart_digest(), std::nullopt);
  shut_down(communicators);
}

TEST(Digest, RestartedIsThatOfARunThatStartsThere) {
  const TestingCluster cluster(1);
  CommunicatorOptions options = cluster.options(0);
  options.digest = true;
  const Communicators communicators = join_all({options});
  Communicator& communicator = *communicators[0];
  const auto sum = [&](float value) {
    EXPECT_EQ(message(communicator.all_reduce({&value, 1}).wait()), "");
  };
  sum(1);
  sum(2);
  const DigestReading whole = communicator.restart_digest().value();
  EXPECT_EQ(communicator.digest()->operations, 0U);
  sum(1);
  EXPECT_NE(communicator.digest(), whole);
  sum(2);
  EXPECT_EQ(communicator.digest(), whole);
  shut_down(communicators);
}

TEST(ComparedDigests, WorkWithManyOperationsInFlight) {
  const TestingCluster cluster(kRanks);
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& o : options) o.digest_every = 3;
  const Communicators communicators = join_all(options);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<std::vector<float>> tensors;
    for (std::size_t i = 0; i < 40; ++i) tensors.push_back(tensor_of(rank, i, 97 * i));
    std::vector<Handle> handles;
    std::atomic<std::size_t> called{0};
    CollectiveRequest counting;
    counting.on_done = [&](const Status&) { ++called; };
    for (auto& tensor : tensors)
      handles.push_back(communicators[rank]->all_reduce(tensor, counting));
    for (std::size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(message(handles[i].wait()), "");
      EXPECT_EQ(tensors[i], sum_of(kRanks, i, 97 * i)) << i;
    }
    EXPECT_EQ(called, 40U);
    EXPECT_EQ(communicators[rank]->digest()->operations, 40U) << "comparisons are not counted";
  });
  shut_down(communicators);
}

TEST(ComparedDigests, AreWaitedForByAShutdown) {
  const TestingCluster cluster(kRanks);
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& o : options) o.digest_every = 1;
  const Communicators communicators = join_all(options);
  std::vector<std::vector<Handle>> handles(kRanks);
  std::vector<std::vector<float>> tensors(kRanks, std::vector<float>(50, 1));
  in_parallel(kRanks, [&](std::size_t rank) {
    for (float& value : tensors[rank]) {
      handles[rank].push_back(communicators[rank]->all_reduce({&value, 1}));
    }
    EXPECT_EQ(message(communicators[rank]->shutdown()), "");
    for (Handle& handle : handles[rank]) EXPECT_EQ(message(handle.wait()), "");
  });
}

TEST(ComparedDigests, DoNotHideFailures) {
  const TestingCluster cluster(2);
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& o : options) o.digest_every = 2;
  Communicators communicators = join_all(options);
  std::vector<float> tensors(20, 1);
  std::vector<Handle> handles;
  for (float& value : tensors) handles.push_back(communicators[0]->all_reduce({&value, 1}));
  communicators[1].reset();
  for (Handle& handle : handles)
    EXPECT_THAT(message(handle.wait()), HasSubstr("rank 1 (127.0.0.1) left"));
}

// A proxy between a rank and the server that flips a bit of a result, as a faulty network card
// might.
class BitFlipper {
 public:
  explicit BitFlipper(const Endpoint& server) : server_(address_of(server.port)) {
    const sockaddr_in any = address_of(0);
    bind(socket_, reinterpret_cast<const sockaddr*>(&any), sizeof any);
    thread_ = std::thread([this] { run(); });
  }
  ~BitFlipper() {
    over_ = true;
    thread_.join();
    close(socket_);
  }
  Endpoint endpoint() const {
    sockaddr_in own{};
    socklen_t size = sizeof own;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size);
    return loopback(ntohs(own.sin_port));
  }
  // From now on, flips a bit of the last value in every result of this many values.
  void begin(std::uint16_t value_count) { flipped_count_ = value_count; }

 private:
  static sockaddr_in address_of(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  // A JOIN counts only at the address that its route names.
  void name_the_server(std::span<std::uint8_t> packet) const {
    constexpr std::size_t kBytes = 18;
    std::array<std::uint8_t, kBytes> own{};
    std::array<std::uint8_t, kBytes> servers{};
    write_endpoint(own.data(), endpoint());
    write_endpoint(servers.data(), loopback(ntohs(server_.sin_port)));
    const auto found = std::search(packet.begin(), packet.end(), own.begin(), own.end());
    if (packet[ATP_AT_TYPE] == ATP_JOIN && found != packet.end()) {
      std::copy(servers.begin(), servers.end(), found);
    }
  }
  void run() {
    std::vector<std::uint8_t> packet(65536);
    sockaddr_in rank{};
    while (!over_) {
      pollfd readable{socket_, POLLIN, 0};
      if (poll(&readable, 1, 20) <= 0) continue;
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const ssize_t bytes = recvfrom(socket_, packet.data(), packet.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &size);
      if (bytes <= 0) continue;
      const bool down = from.sin_port == server_.sin_port;
      const bool is_meant = packet[ATP_AT_TYPE] == ATP_PARAMETER &&
                            atp_load16(packet.data() + ATP_AT_VALUE_COUNT) == flipped_count_;
      if (down && is_meant) packet[static_cast<std::size_t>(bytes) - 1] ^= 1;
      if (!down) {
        rank = from;
        name_the_server(std::span(packet).first(static_cast<std::size_t>(bytes)));
      }
      const sockaddr_in& to = down ? rank : server_;
      sendto(socket_, packet.data(), static_cast<std::size_t>(bytes), 0,
             reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }
  }

  const int socket_ = socket(AF_INET, SOCK_DGRAM, 0);
  const sockaddr_in server_;
  std::atomic<bool> over_{false};
  std::atomic<std::uint16_t> flipped_count_{0};
  std::thread thread_;
};

TEST(ComparedDigests, NameTheRankWhoseResultsDiffer) {
  const TestingCluster cluster(kRanks);
  BitFlipper card(cluster.server().endpoint());
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& o : options) {
    o.route = {cluster.server().endpoint()};
    o.digest_every = 4;
  }
  options[1].route = {card.endpoint()};
  const Communicators communicators = join_all(options);
  std::atomic<std::size_t> before_the_flip{0};
  in_parallel(kRanks, [&](std::size_t rank) {
    const auto sum = [&](std::size_t length) {
      std::vector<float> tensor(length, 1);
      return message(communicators[rank]->all_reduce(tensor).wait());
    };
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sum(100), "");
    ++before_the_flip;
    while (before_the_flip < kRanks) std::this_thread::yield();
    if (rank == 1) card.begin(100);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(sum(100), "");
    const auto cause = AllOf(HasSubstr("rank 1 differ from those of ranks 0 and 2"),
                             HasSubstr("in operations 4 to 7"));
    EXPECT_THAT(sum(100), AllOf(HasSubstr("all_reduce #7 (100 values): "), cause));
    EXPECT_THAT(sum(100), cause) << "and the job is over";
    EXPECT_EQ(communicators[rank]->failure_kind(), FailureKind::kBroken);
  });
}

}  // namespace
}  // namespace atp::testing
