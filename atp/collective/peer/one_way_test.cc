#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <mutex>

#include "atp/collective/testing/peers.h"

// Two ranks of which only one can call the other, as behind a firewall that drops what comes in.

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::readable;
using testing::TestingPeers;
using testing::text_of;
using testing::writable;
using Values = std::vector<std::int64_t>;

// An address that never answers, neither yes nor no: the kernel drops calls once its queue is full.
class DeafAddress {
 public:
  DeafAddress() : listener_(TcpListener::open("127.0.0.1:0").value()) {
    EXPECT_EQ(::listen(listener_.socket().fd(), 0), 0);
    for (TcpSocket& call : calls_) call = TcpSocket::begin_connect(listener_.address()).value();
    std::this_thread::sleep_for(milliseconds(20));
  }
  const Endpoint& address() const { return listener_.address(); }

 private:
  TcpListener listener_;
  std::array<TcpSocket, 4> calls_;
};

enum class First { kBoth, kTheLower, kTheHigher };

struct Case {
  const char* name;
  std::size_t unreachable;  // this rank's address never answers
  First first;
};

class OneWay : public ::testing::TestWithParam<Case> {
 protected:
  // What each rank says of a broadcast, a message in each direction, and a barrier.
  void run_all(std::size_t unreachable, First first) {
    const TestingPeers group(2);
    const DeafAddress deaf;
    std::array<std::thread, 2> threads;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      threads[rank] =
          std::thread([&, rank] { live(group, deaf.address(), rank, unreachable, first); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void live(const TestingPeers& group, const Endpoint& deaf, std::size_t rank,
            std::size_t unreachable, First first) {
    const std::size_t other = 1 - rank;
    std::vector<Endpoint> addresses = group.addresses();
    if (unreachable == other) addresses[other] = deaf;
    const auto peers = group.start(rank, addresses);
    const bool is_late = first != First::kBoth && (first == First::kTheLower) == (rank == 1);
    if (is_late) std::this_thread::sleep_for(milliseconds(300));
    const auto does = [&](CollectiveRequest request) {
      request.kind = ElementKind::kInt64;
      EXPECT_EQ(text_of(peers->submit(std::move(request)).wait()), "ok");
    };
    Values tensor(1000, static_cast<std::int64_t>(rank));
    does({.call = Collective::kBroadcast, .root = 0, .outputs = {writable(tensor)}});
    EXPECT_EQ(tensor, Values(1000, 0));
    const Values mine(100'000, static_cast<std::int64_t>(rank));
    Values theirs(mine.size(), -1);
    const PeerHandle sent = peers->submit({.call = Collective::kSend,
                                           .kind = ElementKind::kInt64,
                                           .root = other,
                                           .inputs = {readable(mine)}});
    does({.call = Collective::kReceive, .root = other, .outputs = {writable(theirs)}});
    EXPECT_EQ(text_of(sent.wait()), "ok");
    EXPECT_EQ(theirs, Values(mine.size(), static_cast<std::int64_t>(other)));
    does({.call = Collective::kBarrier});
    static_cast<void>(peers->shutdown());
  }
};

TEST_P(OneWay, the_call_that_gets_through_counts) {
  run_all(GetParam().unreachable, GetParam().first);
}

INSTANTIATE_TEST_SUITE_P(
    when, OneWay,
    ::testing::Values(Case{"the_lower_is_unreachable_and_both_call_at_once", 0, First::kBoth},
                      Case{"the_lower_is_unreachable_and_calls_first", 0, First::kTheLower},
                      Case{"the_lower_is_unreachable_and_calls_second", 0, First::kTheHigher},
                      Case{"the_higher_is_unreachable_and_both_call_at_once", 1, First::kBoth},
                      Case{"the_higher_is_unreachable_and_calls_second", 1, First::kTheLower},
                      Case{"the_higher_is_unreachable_and_calls_first", 1, First::kTheHigher},
                      Case{"both_are_reachable", 2, First::kBoth}),
    [](const ::testing::TestParamInfo<Case>& test) { return std::string(test.param.name); });

TEST(OneWayPeers, a_rank_without_a_connection_says_so_once_after_a_second_and_fails_in_time) {
  TestingPeers group(2);
  const DeafAddress deaf;
  std::mutex mutex;
  std::vector<std::string> said;
  group.options().operation_timeout = milliseconds(2500);
  group.options().on_warning = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    said.push_back(text);
  };
  const auto peers = group.start(0, {group.addresses()[0], deaf.address()});
  const auto ended = peers->submit({.call = Collective::kBarrier});
  std::this_thread::sleep_for(milliseconds(500));
  {
    const std::lock_guard lock(mutex);
    EXPECT_THAT(said, IsEmpty());
  }
  const std::string address = to_string(deaf.address());
  EXPECT_THAT(text_of(ended.wait()),
              AllOf(HasSubstr("timeout of 2.5 s"),
                    HasSubstr("no connection with rank 1 (" + address), HasSubstr("no answer")));
  const std::lock_guard lock(mutex);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], AllOf(HasSubstr("waiting for 1 s: no connection with rank 1 (" + address),
                             HasSubstr("no answer")));
}

}  // namespace
}  // namespace atp
