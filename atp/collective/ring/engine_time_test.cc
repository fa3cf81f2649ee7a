#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "atp/collective/ring/engine.h"
#include "atp/collective/testing/ring.h"
#include "atp/driver/udp/running_clock.h"

namespace atp::testing {
namespace {

using std::chrono::seconds;

// A rank's thread reads its clock often while it works: it takes a late reading for a pause.
TEST(RingEngine, EndsAnOperationInTimeHoweverLongAPieceTakes) {
  constexpr std::size_t kBytesPerSecond = std::size_t{2} << 20;
  const TestingRing ring(2);
  std::array<std::optional<Links>, 2> links;
  std::thread other([&] { links[1] = ring.links(1); });
  links[0] = ring.links(0);
  other.join();
  std::array<std::vector<float>, 2> values;
  std::array<std::unique_ptr<RingEngine>, 2> engines;
  std::array<RunningClock, 2> clocks;
  // A rank's time passes only while it works.
  const auto now = [&](std::size_t rank) {
    const RingCounters& counters = engines[rank]->counters();
    const std::uint64_t bytes =
        counters[RingCounter::kBytesSent] + counters[RingCounter::kBytesReceived];
    return SteadyTime(seconds(1) +
                      std::chrono::nanoseconds(bytes * 1'000'000'000 / kBytesPerSecond));
  };
  for (std::size_t rank = 0; rank < 2; ++rank) {
    RingOptions options;
    options.world_size = 2;
    options.rank = rank;
    engines[rank] = std::make_unique<RingEngine>(options, *std::move(links[rank]));
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    values[rank].resize(4'000'000);
    auto request = all_reduce_request(ElementType::kFloat32, bytes_of_vector(values[rank]), 2);
    request.timeout = seconds(2);
    request.timeout_is_total = true;
    engines[rank]->submit(std::make_shared<RingOperation>(request, 0), clocks[rank].at(now(rank)));
  }
  while (!engines[0]->failure() && engines[0]->pending() > 0) {
    for (const std::size_t rank : {0U, 1U}) {
      engines[rank]->work([&] { return clocks[rank].at(now(rank)); }, {});
    }
  }
  EXPECT_THAT(engines[0]->failure().value_or("none"),
              ::testing::HasSubstr("although the ring makes progress"));
  EXPECT_LE(now(0), SteadyTime(seconds(1 + 2 + 1)));
}

TEST(RingEngine, NeverBeginsAnOperationWhoseTimeIsUp) {
  const TestingRing ring(2);
  std::array<std::optional<Links>, 2> links;
  std::thread other([&] { links[1] = ring.links(1); });
  links[0] = ring.links(0);
  other.join();
  RingOptions options;
  options.world_size = 2;
  RingEngine engine(options, *std::move(links[0]));
  std::vector<float> values(1000);
  auto request = all_reduce_request(ElementType::kFloat32, bytes_of_vector(values), 2);
  request.timeout = request.spent = seconds(2);
  request.timeout_is_total = true;
  engine.submit(std::make_shared<RingOperation>(request, 0), {});
  engine.work([] { return SteadyTime(); }, {});
  EXPECT_THAT(engine.failure().value_or("none"), ::testing::HasSubstr("rank 0 needed all of it"));
  EXPECT_EQ(engine.take_ended().size(), 1U);
  EXPECT_EQ(engine.counters()[RingCounter::kBytesSent], 0U);
}

// A rank may have all of a sum while its neighbours still wait for each other.
TEST(RingEngine, CompletesWhatARankThatHasDiedIsNotNeededFor) {
  const TestingRing ring(3);
  std::array<std::optional<Links>, 3> links;
  std::array<std::thread, 3> meeting;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    meeting[rank] = std::thread([&, rank] { links[rank] = ring.links(rank); });
  }
  for (std::thread& each : meeting) each.join();
  std::array<std::vector<float>, 3> values;
  std::array<std::unique_ptr<RingEngine>, 3> engines;
  const auto work = [&](std::size_t rank) {
    std::array<pollfd, 4> ready{};
    for (pollfd& each : ready) each.revents = POLLIN;
    engines[rank]->work([] { return SteadyTime(); }, ready);
    return engines[rank]->pending() == 0;
  };
  for (std::size_t rank = 0; rank < 3; ++rank) {
    RingOptions options;
    options.world_size = 3;
    options.rank = rank;
    engines[rank] = std::make_unique<RingEngine>(options, *std::move(links[rank]));
    values[rank].resize(3000, 1);
    const auto request =
        all_reduce_request(ElementType::kFloat32, bytes_of_vector(values[rank]), 3);
    engines[rank]->submit(std::make_shared<RingOperation>(request, 0), {});
  }
  std::size_t first = 0;
  while (!work(first)) first = (first + 2) % 3;
  engines[first].reset();
  const std::size_t before = (first + 2) % 3;
  const std::size_t next = (first + 1) % 3;
  for (int i = 0; i < 100; ++i) work(i % 2 == 0 ? next : before);
  for (const std::size_t rank : {before, next}) {
    EXPECT_EQ(engines[rank]->failure().value_or("none"), "none") << rank;
    EXPECT_EQ(values[rank], std::vector<float>(3000, 3)) << rank;
  }
}

}  // namespace
}  // namespace atp::testing
