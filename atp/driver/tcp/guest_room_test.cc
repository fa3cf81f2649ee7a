#include "atp/driver/tcp/guest_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "atp/driver/tcp/testing_descriptors.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class GuestRoomTest : public testing::Test {
 protected:
  TcpSocket connect() const { return TcpSocket::connect_once(listener_.address(), until_).value(); }
  static void say(const TcpSocket& socket, std::uint64_t token) {
    const Hello hello{.token = token};
    EXPECT_TRUE(write_hello(socket, hello));
  }
  // Until so many guests have been welcomed.
  void work(std::size_t welcomed) {
    while (tokens_.size() < welcomed && steady_clock::now() < until_) {
      for (const Poller::Ready& each : poller_.wait(10)) {
        room_.handle(each.id, steady_clock::now(),
                     [this](TcpSocket, const Hello& said) { tokens_.push_back(said.token); });
      }
    }
  }

  const SteadyTime until_ = steady_clock::now() + seconds(30);
  const TcpListener listener_ = TcpListener::open("127.0.0.1:0").value();
  Poller poller_ = Poller::create().value();
  GuestRoom room_{listener_, "rank 3", poller_, 1, 100};
  std::vector<std::uint64_t> tokens_;
};

TEST_F(GuestRoomTest, HearsAGuestWhileManyBeforeItSayNothing) {
  std::vector<TcpSocket> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(connect());
  const TcpSocket speaks = connect();
  say(speaks, 5);
  work(1);
  EXPECT_THAT(tokens_, testing::ElementsAre(5));
  EXPECT_LT(steady_clock::now(), until_ - seconds(28)) << "two seconds for all of the silent ones";
}

TEST_F(GuestRoomTest, HearsAGuestWhoseHelloComesInPieces) {
  const TcpSocket slow = connect();
  const Hello hello{.token = 7};
  const auto bytes = std::as_bytes(std::span(&hello, 1));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_TRUE(slow.send_all(bytes.subspan(i, 1), until_));
    for (const Poller::Ready& each : poller_.wait(10)) {
      room_.handle(each.id, steady_clock::now(),
                   [this](TcpSocket, const Hello& said) { tokens_.push_back(said.token); });
    }
  }
  work(1);
  EXPECT_THAT(tokens_, testing::ElementsAre(7));
}

TEST_F(GuestRoomTest, ClosesAGuestThatSaysNothingForTwoSeconds) {
  const TcpSocket silent = connect();
  const auto welcome = [](TcpSocket, const Hello&) {};
  for (const Poller::Ready& each : poller_.wait(1000)) {
    room_.handle(each.id, steady_clock::now(), welcome);
  }
  ASSERT_TRUE(room_.next_timeout());
  room_.check_time(*room_.next_timeout());
  std::byte byte{};
  EXPECT_FALSE(silent.receive_all({&byte, 1}, until_).ok());
  EXPECT_FALSE(room_.next_timeout());
}

TEST_F(GuestRoomTest, KeepsFewerGuestsThanThereAreStrangers) {
  std::vector<TcpSocket> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connect());
  const TcpSocket speaks = connect();
  say(speaks, 9);
  work(1);
  EXPECT_THAT(tokens_, testing::ElementsAre(9));
  EXPECT_THAT(room_.take_news().value_or(""), testing::HasSubstr("closing the oldest"));
}

TEST_F(GuestRoomTest, RestsWhileTheProcessHasNoDescriptorsAndRecovers) {
  const TcpSocket speaks = connect();
  say(speaks, 5);
  // Meanwhile no sanitizer can look into an object of a type that it has not seen before.
  std::optional<DescriptorsTaken> taken(0);
  std::optional<std::string> news;
  SteadyTime now = steady_clock::now();
  const auto handle_one = [&] {
    const auto ready = poller_.wait(1000);
    ASSERT_EQ(ready.size(), 1U);
    room_.handle(ready[0].id, now,
                 [this](TcpSocket, const Hello& said) { tokens_.push_back(said.token); });
  };
  for (int rests = 0; rests < 5; ++rests) {
    handle_one();
    EXPECT_TRUE(poller_.wait(0).empty()) << "it must not be polled while it rests";
    room_.check_time(now = room_.next_timeout().value());
    if (rests == 0) news = room_.take_news();
  }
  taken.reset();
  EXPECT_THAT(news.value_or(""), testing::HasSubstr("ulimit -n"));
  handle_one();
  EXPECT_THAT(tokens_, testing::ElementsAre(5));
}

}  // namespace
}  // namespace atp
