#include "atp/driver/tcp/talk_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <new>
#include <optional>

#include "atp/driver/tcp/testing_descriptors.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AnyOf;
using testing::HasSubstr;

// Answers a line with "yes\n".
class TalkServerTest : public testing::Test {
 protected:
  static std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
  }

  TcpSocket connect() const {
    auto socket = TcpSocket::connect_once(server_->address(), until_);
    EXPECT_TRUE(socket.ok());
    return socket.ok() ? std::move(socket).value() : TcpSocket();
  }

  bool is_answered() const {
    const TcpSocket socket = connect();
    std::array<std::byte, 4> answer{};
    return socket.send_all(bytes_of("question\n"), until_).ok() &&
           socket.receive_all(answer, until_).ok();
  }

  std::vector<std::string> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  const SteadyTime until_ = std::chrono::steady_clock::now() + seconds(60);
  std::mutex mutex_;
  std::vector<std::string> told_;
  std::unique_ptr<TalkServer> server_ =
      TalkServer::start(resolve_endpoint("127.0.0.1:0").value(),
                        {.hear =
                             [](const TalkServer::Client& client) {
                               if (client.bytes == "much\n") throw std::bad_alloc();
                               TalkServer::Heard heard;
                               if (client.bytes.ends_with('\n')) heard.answer = {.bytes = "yes\n"};
                               return heard;
                             },
                         .admits = {},
                         .tell =
                             [this](const std::string& line) {
                               const std::lock_guard lock(mutex_);
                               told_.push_back(line);
                             },
                         .most_bytes = 100,
                         .patience = seconds(30)})
          .value();
};

TEST_F(TalkServerTest, AnAnswerForWhichThereIsNoMemoryCostsTheClientsThatAreThereAndNothingElse) {
  const TcpSocket socket = connect();
  std::array<std::byte, 4> answer{};
  EXPECT_TRUE(socket.send_all(bytes_of("much\n"), until_).ok());
  EXPECT_FALSE(socket.receive_all(answer, until_).ok());
  EXPECT_TRUE(is_answered());
}

TEST_F(TalkServerTest, AnswersWhileMoreClientsThanItKeepsSayNothing) {
  std::vector<TcpSocket> idle;
  idle.reserve(400);
  for (int i = 0; i < 400; ++i) idle.push_back(connect());
  EXPECT_TRUE(is_answered());
  ASSERT_EQ(told().size(), 1U);
  EXPECT_THAT(told()[0], HasSubstr("closing the oldest"));
}

TEST_F(TalkServerTest, SleepsWhileIdleClientsSayNothing) {
  std::vector<TcpSocket> idle;
  idle.reserve(50);
  for (int i = 0; i < 50; ++i) idle.push_back(connect());
  EXPECT_TRUE(is_answered());
  std::this_thread::sleep_for(milliseconds(50));
  const std::uint64_t before = server_->rounds();
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LE(server_->rounds() - before, 2U);
}

TEST_F(TalkServerTest, RestsWhileTheProcessHasNoDescriptorsAndRecovers) {
  EXPECT_TRUE(is_answered());
  std::vector<TcpSocket> callers;
  callers.reserve(5);
  for (int i = 0; i < 5; ++i) callers.push_back(connect());
  for (const TcpSocket& caller : callers) EXPECT_TRUE(caller.send_all(bytes_of("q\n"), until_));
  for (const TcpSocket& caller : callers) {
    std::array<std::byte, 4> answer{};
    EXPECT_TRUE(caller.receive_all(answer, until_));
  }
  // The last free descriptor is for a client's socket.
  std::optional<DescriptorsTaken> taken(1);
  const TcpSocket waits = connect();
  const std::uint64_t rounds = server_->rounds();
  std::this_thread::sleep_for(milliseconds(500));
  const std::uint64_t woken = server_->rounds() - rounds;
  taken.reset();
  EXPECT_LE(woken, 25U)
      << "it must not spin: five rests, each of two rounds, and what a busy machine adds";
  ASSERT_FALSE(told().empty());
  EXPECT_THAT(told()[0], HasSubstr("ulimit -n"));
  std::array<std::byte, 4> answer{};
  EXPECT_TRUE(waits.send_all(bytes_of("q\n"), until_));
  EXPECT_TRUE(waits.receive_all(answer, until_).ok()) << "it did not recover";
}

TEST_F(TalkServerTest, ClosesAClientThatSaysTooMuch) {
  const TcpSocket socket = connect();
  (void)socket.send_all(bytes_of(std::string(1000, 'x')), until_);
  std::byte byte{};
  const SteadyTime soon = std::chrono::steady_clock::now() + seconds(20);  // patience is 30 s
  EXPECT_THAT(socket.receive_all({&byte, 1}, soon).error().message,
              AnyOf(HasSubstr("closed"), HasSubstr("reset")));
  EXPECT_TRUE(is_answered());
}

}  // namespace
}  // namespace atp
