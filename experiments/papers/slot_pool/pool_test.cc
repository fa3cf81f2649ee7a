#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <random>

#include "experiments/papers/slot_pool/pool_switch.h"
#include "experiments/papers/slot_pool/pool_worker.h"

namespace slot_pool {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr auto kTimeout = milliseconds(10);
constexpr auto kHop = milliseconds(1);

PoolPacket packet_of(std::uint32_t rank, std::uint32_t chunk, std::int32_t value) {
  PoolPacket packet{rank, chunk, 1, {}};
  packet.values[0] = value;
  return packet;
}

// Feeds a switch of two workers and one slot, and reports what it does with each packet.
std::vector<Verdict> verdicts(const std::vector<PoolPacket>& packets) {
  PoolSwitch pool(2, 1);
  std::vector<Verdict> found;
  for (const PoolPacket& packet : packets) found.push_back(pool.handle_packet(packet));
  return found;
}

TEST(PoolSwitch, TheLastWorkersPacketIsAnsweredToAll) {
  PoolSwitch pool(2, 1);
  EXPECT_EQ(pool.handle_packet(packet_of(0, 0, 3)), Verdict::kDrop);
  EXPECT_EQ(pool.handle_packet(packet_of(1, 0, 4)), Verdict::kAnswerAll);
  EXPECT_EQ(pool.sum(0).values[0], 7);
}

TEST(PoolSwitch, ARepeatIsNotAddedTwice) {
  PoolSwitch pool(2, 1);
  pool.handle_packet(packet_of(0, 0, 3));
  EXPECT_EQ(pool.handle_packet(packet_of(0, 0, 3)), Verdict::kDrop);
  pool.handle_packet(packet_of(1, 0, 4));
  EXPECT_EQ(pool.sum(0).values[0], 7);
  EXPECT_EQ(pool.counters().repeats, 1);
}

TEST(PoolSwitch, AWorkerThatMissedTheSumGetsItAlone) {
  EXPECT_THAT(verdicts({packet_of(0, 0, 3), packet_of(1, 0, 4), packet_of(0, 0, 3)}),
              ElementsAre(Verdict::kDrop, Verdict::kAnswerAll, Verdict::kAnswerOne));
}

TEST(PoolSwitch, TheSumIsKeptWhileOneWorkerIsAChunkBehind) {
  PoolSwitch pool(2, 1);
  pool.handle_packet(packet_of(0, 0, 3));
  pool.handle_packet(packet_of(1, 0, 4));
  EXPECT_EQ(pool.handle_packet(packet_of(0, 1, 5)), Verdict::kDrop);
  EXPECT_EQ(pool.handle_packet(packet_of(1, 0, 4)), Verdict::kAnswerOne);
  EXPECT_EQ(pool.sum(0).values[0], 7);
  EXPECT_EQ(pool.handle_packet(packet_of(1, 1, 6)), Verdict::kAnswerAll);
  EXPECT_EQ(pool.sum(1).values[0], 11);
}

TEST(PoolSwitch, AVersionIsUsedAgainByTheChunkAfterTheNext) {
  PoolSwitch pool(2, 1);
  for (std::uint32_t chunk = 0; chunk < 6; ++chunk) {
    pool.handle_packet(packet_of(0, chunk, static_cast<std::int32_t>(chunk)));
    EXPECT_EQ(pool.handle_packet(packet_of(1, chunk, 1)), Verdict::kAnswerAll);
    EXPECT_EQ(pool.sum(chunk).values[0], chunk + 1);
  }
}

TEST(PoolSwitch, ARepeatThatItsSuccessorOvertookSpoilsNothing) {
  PoolSwitch pool(2, 1);
  pool.handle_packet(packet_of(0, 0, 3));
  pool.handle_packet(packet_of(1, 0, 4));
  pool.handle_packet(packet_of(0, 1, 5));
  EXPECT_EQ(pool.handle_packet(packet_of(0, 0, 3)), Verdict::kDrop);
  EXPECT_EQ(pool.counters().late, 1);
  EXPECT_EQ(pool.handle_packet(packet_of(1, 1, 6)), Verdict::kAnswerAll);
  EXPECT_EQ(pool.sum(1).values[0], 11);
}

TEST(PoolSwitch, APacketOfAnUnknownRankIsDropped) {
  EXPECT_THAT(verdicts({packet_of(2, 0, 3), packet_of(63, 0, 3), packet_of(1000, 0, 3)}),
              Each(Verdict::kDrop));
}

// Workers and a switch whose packets take a hop's time each, are lost, and arrive twice.
class LossyPool {
 public:
  LossyPool(std::uint32_t workers, std::uint32_t slots, double loss, double doubled)
      : switch_(workers, slots), loss_(loss), doubled_(doubled) {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      workers_.emplace_back(rank, slots, kTimeout,
                            [this](const PoolPacket& packet) { offer(packet, std::nullopt); });
    }
  }

  // The sums that each worker gets of `tensors`, one by one.
  void sum(std::vector<std::vector<std::int32_t>>& tensors) {
    for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
      workers_[rank].begin(now_, tensors[rank]);
    }
    while (!std::ranges::all_of(workers_, [](const auto& one) { return one.done(); })) step();
  }

  const PoolWorker& worker(std::size_t rank) const { return workers_[rank]; }
  const PoolSwitch& pool() const { return switch_; }

 private:
  struct Flight {
    Time arrival;
    std::optional<std::uint32_t> worker;  // none: to the switch
    PoolPacket packet;
  };

  void offer(const PoolPacket& packet, std::optional<std::uint32_t> worker) {
    const int copies = chance(doubled_) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      if (!chance(loss_)) flights_.push({now_ + kHop, worker, packet});
    }
  }

  bool chance(double share) { return std::uniform_real_distribution<>()(random_) < share; }

  void step() {
    Time next = flights_.empty() ? Time::max() : flights_.front().arrival;
    for (PoolWorker& worker : workers_) {
      next = std::min(next, worker.next_timeout().value_or(Time::max()));
    }
    now_ = next;
    for (PoolWorker& worker : workers_) worker.handle_timeout(now_);
    while (!flights_.empty() && flights_.front().arrival <= now_) {
      const Flight flight = flights_.front();
      flights_.pop();
      arrive(flight);
    }
  }

  void arrive(const Flight& flight) {
    if (flight.worker) return workers_[*flight.worker].handle_packet(now_, flight.packet);
    const Verdict verdict = switch_.handle_packet(flight.packet);
    if (verdict == Verdict::kDrop) return;
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
      if (verdict == Verdict::kAnswerAll || rank == flight.packet.rank) {
        offer(switch_.sum(flight.packet.chunk), rank);
      }
    }
  }

  PoolSwitch switch_;
  std::vector<PoolWorker> workers_;
  std::queue<Flight> flights_;
  std::mt19937 random_{7};
  const double loss_, doubled_;
  Time now_{};
};

struct Case {
  std::string name;
  std::uint32_t workers, slots;
  std::size_t values;
  double loss = 0, doubled = 0;
};

class PoolSums : public ::testing::TestWithParam<Case> {};

TEST_P(PoolSums, AreExactOnEveryWorker) {
  const Case& c = GetParam();
  LossyPool pool(c.workers, c.slots, c.loss, c.doubled);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::vector<std::int32_t>> tensors;
    for (std::uint32_t rank = 0; rank < c.workers; ++rank) {
      tensors.emplace_back(c.values);
      std::iota(tensors.back().begin(), tensors.back().end(), static_cast<int>(rank) - 1000);
    }
    pool.sum(tensors);
    const auto n = static_cast<std::int32_t>(c.workers);
    for (const auto& tensor : tensors) {
      for (std::size_t i = 0; i < c.values; ++i) {
        const std::int32_t index = static_cast<std::int32_t>(i) - 1000;
        ASSERT_EQ(tensor[i], n * index + n * (n - 1) / 2) << "round " << round << ", value " << i;
      }
    }
  }
  const auto chunks = 5 * ((c.values + kValues - 1) / kValues);
  EXPECT_EQ(pool.pool().counters().completed, chunks);
  EXPECT_EQ(pool.worker(0).counters().answers, chunks);
  EXPECT_EQ(pool.worker(0).counters().repeats > 0, c.loss > 0);
}

INSTANTIATE_TEST_SUITE_P(
    , PoolSums,
    ::testing::Values(Case{"OfTwoWorkers", 2, 8, 10'000}, Case{"OfOneWorker", 1, 8, 10'000},
                      Case{"OfOneSlot", 3, 1, 5000}, Case{"OfFewerChunksThanSlots", 3, 64, 1000},
                      Case{"OfOneValue", 3, 64, 1}, Case{"UnderLoss", 4, 8, 20'000, 0.05},
                      Case{"UnderHeavyLoss", 4, 8, 10'000, 0.5},
                      Case{"OfPacketsThatArriveTwice", 4, 8, 20'000, 0, 0.3},
                      Case{"UnderBoth", 4, 8, 20'000, 0.2, 0.3}),
    [](const auto& one) { return one.param.name; });

TEST(PoolWorker, ALostPacketIsRepairedAfterTheTimeOutAndNotBefore) {
  std::vector<PoolPacket> sent;
  PoolWorker worker(0, 2, kTimeout, [&](const PoolPacket& packet) { sent.push_back(packet); });
  std::vector<std::int32_t> tensor(3 * kValues, 1);
  worker.begin(Time{}, tensor);
  ASSERT_EQ(sent.size(), 2);
  worker.handle_packet(Time{} + kHop, sent[1]);
  EXPECT_EQ(worker.next_timeout(), Time{} + kTimeout);
  worker.handle_timeout(Time{} + kTimeout - milliseconds(1));
  ASSERT_EQ(sent.size(), 2);
  worker.handle_timeout(Time{} + kTimeout);
  ASSERT_EQ(sent.size(), 3);
  EXPECT_EQ(sent.back().chunk, 0);
  worker.handle_packet(Time{} + kTimeout + kHop, sent.back());
  EXPECT_EQ(worker.counters().repaired, 1);
  EXPECT_EQ(worker.counters().repairs, kTimeout + kHop);
  EXPECT_EQ(sent.back().chunk, 2);
}

}  // namespace
}  // namespace slot_pool
