#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "atp/collective/peer/engine.h"
#include "atp/collective/testing/peers.h"

// What becomes of a sum in stages if one of three ranks stops in the middle: it has agreed on the
// exponents, and the others wait for its integers.

namespace atp::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class StagedSum : public ::testing::Test {
 protected:
  static constexpr std::size_t kRanks = 3;

  StagedSum() {
    const auto listener =
        std::make_shared<const TcpListener>(TcpListener::open("127.0.0.1:0").value());
    for (std::size_t rank = 0; rank < kRanks; ++rank) pollers_.push_back(Poller::create().value());
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const PeerOptions options{.rank = rank, .world_size = kRanks};
      engines_.push_back(std::make_unique<PeerEngine>(
          options, listener, std::vector(kRanks, listener->address()), pollers_[rank]));
      for (std::size_t other = 0; other < rank; ++other) {
        std::array<int, 2> fds{};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
        engines_[other]->connect(rank, TcpSocket(fds[0]));
        engines_[rank]->connect(other, TcpSocket(fds[1]));
      }
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      tensors_[rank].assign(kValues, 1);
      CollectiveRequest request;
      request.call = Collective::kAllReduce;
      request.kind = ElementKind::kFloat32;
      request.reduction = ElementReduction::kSum;
      request.format = NumberFormat::kBlocks;
      request.outputs = {writable(tensors_[rank])};
      engines_[rank]->submit(std::make_shared<PeerOperation>(request, 0, Wording{}), now_);
    }
    // Until rank 1 has received all exponents, and perhaps a few integers.
    while (engines_[1]->counters()[PeerCounter::kRingBytesReceived] < kExponentBytes) work();
  }

  void work(milliseconds step = {}) {
    now_ += step;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (rank == stopped_ || engines_[rank] == nullptr) continue;
      engines_[rank]->work([this] { return now_; }, pollers_[rank].wait(0));
    }
  }
  void expect_both(const char* text) {
    for (int i = 0; i < 4000; ++i) work(milliseconds(10));
    for (const std::size_t rank : {0U, 2U}) {
      EXPECT_THAT(engines_[rank]->failure().value_or("none"), HasSubstr(text)) << rank;
      EXPECT_EQ(engines_[rank]->take_ended().size(), 1U);
      EXPECT_EQ(engines_[rank]->pending(), 0U);
    }
  }

  static constexpr std::size_t kValues = 200'000;
  // 2 (N - 1) / N of two bytes per block of 256 values.
  static constexpr std::size_t kExponentBytes = kValues / 256 * 2 * 4 / 3;
  SteadyTime now_{std::chrono::seconds(1000)};
  std::array<std::vector<float>, kRanks> tensors_;
  std::vector<Poller> pollers_;
  std::vector<std::unique_ptr<PeerEngine>> engines_;
  std::size_t stopped_ = kRanks;
};

TEST_F(StagedSum, NamesARankThatDiesBetweenItsStages) {
  engines_[1].reset();
  expect_both("rank 1");
}

TEST_F(StagedSum, NamesARankThatStopsBetweenItsStages) {
  stopped_ = 1;
  expect_both("rank 1");
}

}  // namespace
}  // namespace atp::testing
