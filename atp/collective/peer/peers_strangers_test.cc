#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>

#include "atp/collective/peer/engine.h"
#include "atp/collective/testing/peers.h"
#include "atp/driver/tcp/testing_descriptors.h"

// What reaches a rank's listener and is no rank, and what a rank does that cannot accept.

namespace atp {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::readable;
using testing::TestingPeers;
using testing::text_of;
using testing::writable;
using Values = std::vector<std::int64_t>;

class PeersAndStrangers : public ::testing::Test {
 protected:
  PeersAndStrangers() {
    group_.options().on_warning = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(line);
    };
  }
  static PeerHandle send(Peers& from, std::size_t to, const Values& values) {
    return from.submit({.call = Collective::kSend,
                        .kind = ElementKind::kInt64,
                        .root = to,
                        .inputs = {readable(values)}});
  }
  static PeerHandle receive(Peers& at, std::size_t from, Values& values) {
    return at.submit({.call = Collective::kReceive,
                      .kind = ElementKind::kInt64,
                      .root = from,
                      .outputs = {writable(values)}});
  }
  static std::uint64_t count(const Peers& of, PeerCounter what) {
    for (const auto& [name, value] : of.counters()) {
      if (name == to_string(what)) return value;
    }
    return 0;
  }
  template <class Condition>
  void wait_until(Condition&& holds) const {
    while (!holds() && std::chrono::steady_clock::now() < until_) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

  const SteadyTime until_ = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const Values sent_{5, 7};
  Values got_ = Values(2);
  TestingPeers group_{2};
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

struct Strangers {
  const char* name;
  std::string say;
  bool crowd;  // they stay, until newer ones take their place
};

class PeersBesideStrangers : public PeersAndStrangers,
                             public ::testing::WithParamInterface<Strangers> {};

TEST_P(PeersBesideStrangers, meet) {
  std::vector<TcpSocket> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(TcpSocket::connect(group_.addresses()[0], until_).value());
    const Status said = strangers.back().send_all(std::as_bytes(std::span(GetParam().say)), until_);
    EXPECT_TRUE(said.ok());
  }
  const auto called = group_.start(0), calls = group_.start(1);
  const PeerHandle sends = send(*calls, 0, sent_);
  wait_until([&] { return count(*called, PeerCounter::kConnections) == 1; });
  EXPECT_EQ(text_of(receive(*called, 1, got_).wait()), "ok");
  EXPECT_EQ(text_of(sends.wait()), "ok");
  wait_until([&] { return !GetParam().crowd || !warnings().empty(); });
  EXPECT_EQ(got_, sent_);
  const auto told = warnings();
  EXPECT_EQ(told.size(), GetParam().crowd ? 1U : 0U) << "a line a minute";
  for (const std::string& line : told) EXPECT_THAT(line, HasSubstr("closing the oldest"));
}

std::string hello_of_another_group() {
  const Hello hello{.world_size = 2, .token = 1, .from = 1, .to = 0};
  return {reinterpret_cast<const char*>(&hello), sizeof hello};
}

INSTANTIATE_TEST_SUITE_P(
    that, PeersBesideStrangers,
    ::testing::Values(Strangers{"say_nothing", "", true},
                      Strangers{"say_half_a_hello", hello_of_another_group().substr(0, 20), true},
                      Strangers{"are_of_another_group", hello_of_another_group(), false},
                      Strangers{"talk_on", std::string(1000, 'x'), false}),
    [](const auto& each) { return each.param.name; });

// One descriptor is left, for the call: the rank that is called has none to accept it.
TEST_F(PeersAndStrangers, ARankThatCannotAcceptRestsSaysWhyAndGoesOn) {
  const auto called = group_.start(0), calls = group_.start(1);
  std::optional<DescriptorsTaken> taken(1);
  const PeerHandle sends = send(*calls, 0, sent_);
  wait_until([this] { return !warnings().empty(); });
  const std::uint64_t before = count(*called, PeerCounter::kWaits);
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LE(count(*called, PeerCounter::kWaits) - before, 25U) << "it must not spin";
  EXPECT_THAT(warnings(), ::testing::Contains(HasSubstr("ulimit -n")));
  EXPECT_FALSE(sends.done());
  taken.reset();
  EXPECT_EQ(text_of(receive(*called, 1, got_).wait()), "ok");
  EXPECT_EQ(got_, sent_);
}

TEST_F(PeersAndStrangers, ARankThatCannotCallTriesAgainAndGoesOn) {
  const auto called = group_.start(0), calls = group_.start(1);
  std::optional<DescriptorsTaken> taken(0);
  const PeerHandle sends = send(*calls, 0, sent_);
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LE(count(*calls, PeerCounter::kWaits), 40U) << "it must not spin";
  EXPECT_FALSE(sends.done());
  taken.reset();
  EXPECT_EQ(text_of(receive(*called, 1, got_).wait()), "ok");
  EXPECT_EQ(got_, sent_);
}

}  // namespace
}  // namespace atp
