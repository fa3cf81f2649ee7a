#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "atp/collective/peer/engine.h"
#include "atp/collective/testing/peers.h"
#include "atp/driver/udp/running_clock.h"

namespace atp::testing {
namespace {

using std::chrono::seconds;

// A rank's thread reads its clock often while it works: it takes a late reading for a pause.
TEST(PeerEngine, EndsAnOperationInTimeHoweverLongAPieceTakes) {
  constexpr std::size_t kBytesPerSecond = std::size_t{8} << 20;
  std::vector<std::shared_ptr<const TcpListener>> listeners;
  std::vector<Endpoint> addresses;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    listeners.push_back(
        std::make_shared<const TcpListener>(TcpListener::open("127.0.0.1:0").value()));
    addresses.push_back(listeners.back()->address());
  }
  for (const Collective call : {Collective::kBroadcast, Collective::kSend}) {
    std::array<std::vector<float>, 2> values;
    std::vector<Poller> pollers;
    std::vector<std::unique_ptr<PeerEngine>> engines;
    std::array<RunningClock, 2> clocks;
    // A rank's time passes only while it works.
    const auto now = [&](std::size_t rank) {
      const PeerCounters counters = engines[rank]->counters();
      const std::uint64_t bytes =
          counters[PeerCounter::kBytesSent] + counters[PeerCounter::kBytesReceived];
      return SteadyTime(seconds(1) +
                        std::chrono::nanoseconds(bytes * 1'000'000'000 / kBytesPerSecond));
    };
    for (std::size_t rank = 0; rank < 2; ++rank) pollers.push_back(Poller::create().value());
    for (std::size_t rank = 0; rank < 2; ++rank) {
      PeerOptions options;
      options.world_size = 2;
      options.rank = rank;
      options.token = static_cast<std::uint64_t>(call);
      engines.push_back(
          std::make_unique<PeerEngine>(options, listeners[rank], addresses, pollers[rank]));
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
      values[rank].resize(20'000'000);
      CollectiveRequest request;
      const bool transfers = call == Collective::kSend;
      request.call = transfers && rank == 1 ? Collective::kReceive : call;
      request.root = transfers ? 1 - rank : 0;
      if (rank == 0) request.inputs = {readable(values[rank])};
      if (!transfers || rank == 1) request.outputs = {writable(values[rank])};
      request.timeout = seconds(2);
      engines[rank]->submit(std::make_shared<PeerOperation>(request, 0, Wording{}),
                            clocks[rank].at(now(rank)));
    }
    while (!engines[0]->failure() && engines[0]->pending() > 0) {
      for (const std::size_t rank : {0U, 1U}) {
        engines[rank]->work([&] { return clocks[rank].at(now(rank)); }, pollers[rank].wait(0));
      }
    }
    EXPECT_THAT(
        engines[0]->failure().value_or("none"),
        ::testing::HasSubstr("not ended within its timeout of 2 s, although its data moves"));
    EXPECT_LE(now(0), SteadyTime(seconds(1 + 2 + 1)));
  }
}

TEST(PeerEngine, NeverBeginsAnOperationWhoseTimeIsUp) {
  const auto listener =
      std::make_shared<const TcpListener>(TcpListener::open("127.0.0.1:0").value());
  PeerOptions options;
  options.world_size = 2;
  Poller poller = Poller::create().value();
  PeerEngine engine(options, listener, {listener->address(), listener->address()}, poller);
  std::vector<float> values(1000);
  CollectiveRequest request;
  request.call = Collective::kSend;
  request.root = 1;
  request.inputs = {readable(values)};
  request.timeout = request.spent = seconds(2);
  engine.submit(std::make_shared<PeerOperation>(request, 0, Wording{}), {});
  EXPECT_THAT(engine.failure().value_or("none"), ::testing::HasSubstr("needed all of it"));
  EXPECT_EQ(engine.take_ended().size(), 1U);
}

// Rank 1 may be through a barrier while rank 2 still waits for rank 0.
TEST(PeerEngine, CompletesWhatARankThatHasDiedIsNotNeededFor) {
  std::vector<std::shared_ptr<const TcpListener>> listeners;
  std::vector<Endpoint> addresses;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    listeners.push_back(
        std::make_shared<const TcpListener>(TcpListener::open("127.0.0.1:0").value()));
    addresses.push_back(listeners.back()->address());
  }
  std::vector<Poller> pollers;
  std::vector<std::unique_ptr<PeerEngine>> engines;
  SteadyTime now(seconds(1));
  std::chrono::nanoseconds step{1000};  // connecting may take many
  const auto work = [&](std::size_t rank) {
    now += step;
    engines[rank]->work([&] { return now; }, pollers[rank].wait(0));
    return engines[rank]->pending() == 0;
  };
  for (std::size_t rank = 0; rank < 3; ++rank) pollers.push_back(Poller::create().value());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    PeerOptions options;
    options.world_size = 3;
    options.rank = rank;
    engines.push_back(
        std::make_unique<PeerEngine>(options, listeners[rank], addresses, pollers[rank]));
  }
  const auto call = [&](std::uint64_t number) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      CollectiveRequest request;
      request.call = Collective::kBarrier;
      engines[rank]->submit(std::make_shared<PeerOperation>(request, number, Wording{}), now);
    }
  };
  call(0);
  while (work(0) + work(1) + work(2) < 3) continue;  // now all are connected
  call(1);
  work(0);
  while (!work(1)) ASSERT_FALSE(work(2));
  engines[1].reset();
  step = std::chrono::milliseconds(1);
  for (int i = 0; i < 100; ++i) work(2);
  EXPECT_EQ(engines[2]->pending(), 1U);
  for (int i = 0; i < 100; ++i) work(i % 2 == 0 ? 0 : 2);
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_EQ(engines[rank]->failure().value_or("none"), "none") << rank;
    EXPECT_EQ(engines[rank]->pending(), 0U) << rank;
  }
  for (int i = 0; i < 1000; ++i) work(0);
  EXPECT_THAT(engines[0]->failure().value_or("none"),
              ::testing::HasSubstr("was closed: its process has ended"));
}

}  // namespace
}  // namespace atp::testing
