#include "atp/cli/node/loop_desk.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <thread>

namespace atp {
namespace {

using std::chrono::milliseconds;

// Until somebody has asked.
void wait_for_question(Waker& waker) {
  pollfd question{waker.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&question, 1, 10'000), 1);
  waker.drain();
}

TEST(LoopDesk, HandsOverTheAnswer) {
  const auto waker = Waker::create().value();
  LoopDesk desk(*waker);
  EXPECT_FALSE(desk.is_asked());
  std::optional<NodeStatus> got;
  std::thread asker([&] { got = desk.ask(); });
  wait_for_question(*waker);
  EXPECT_TRUE(desk.is_asked());
  desk.answer({.role = "switch"});
  asker.join();
  EXPECT_EQ(got.value().role, "switch");
  EXPECT_FALSE(desk.is_asked());
}

TEST(LoopDesk, AnAnswerThatIsLateDoesNotServeTheNextQuestion) {
  const auto waker = Waker::create().value();
  LoopDesk desk(*waker, milliseconds(1));
  EXPECT_FALSE(desk.ask());
  waker->drain();
  ASSERT_TRUE(desk.is_asked());
  EXPECT_FALSE(desk.ask()) << "asked while the loop writes its answer";
  desk.answer({.role = "before"});
  EXPECT_TRUE(desk.is_asked()) << "the second question has no answer yet";
}

TEST(LoopDesk, EndsAQuestionWhenItIsClosed) {
  const auto waker = Waker::create().value();
  LoopDesk desk(*waker, std::chrono::hours(1));
  std::thread asker([&] { EXPECT_FALSE(desk.ask()); });
  wait_for_question(*waker);
  desk.close();
  asker.join();
  EXPECT_FALSE(desk.ask());
}

}  // namespace
}  // namespace atp
