#include "atp/driver/tcp/acceptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr int kGone = 99;  // a descriptor that the tests only pass on

TEST(Acceptor, KnowsWhichErrorsConcernOneConnectionAndWhichTheListener) {
  struct Case {
    const char* what;
    int error;
    bool rests;
    const char* advice;
  };
  const Case cases[] = {
      {"none is pending", EAGAIN, false, ""},
      {"its client has left", ECONNABORTED, false, ""},
      {"a signal came", EINTR, false, ""},
      {"a firewall forbids it", EPERM, false, ""},
      {"the network of one connection is gone", ENETDOWN, false, ""},
      {"its host cannot be reached", EHOSTUNREACH, false, ""},
      {"the process has no descriptor left", EMFILE, true, "ulimit -n"},
      {"the machine has none left", ENFILE, true, "fs.file-max"},
      {"no memory is left", ENOMEM, true, "short of memory"},
      {"no buffer is left", ENOBUFS, true, "short of memory"},
      {"an error that nobody expects", EBADF, true, "restart this process"},
  };
  for (const Case& c : cases) {
    int asked = 0;
    Acceptor acceptor(7, "connections", [&](int) {
      ++asked;
      errno = c.error;
      return -1;
    });
    const SteadyTime now{};
    EXPECT_EQ(acceptor.take(now), -1) << c.what;
    EXPECT_EQ(acceptor.listens(now), !c.rests) << c.what;
    EXPECT_TRUE(acceptor.listens(now + Acceptor::kRest)) << c.what;
    EXPECT_LE(asked, Acceptor::kAtOnce) << c.what;
    const auto news = acceptor.take_news();
    EXPECT_EQ(news.has_value(), c.rests) << c.what;
    EXPECT_THAT(news.value_or(""), HasSubstr(c.advice)) << c.what;
  }
}

TEST(Acceptor, TakesTheNextConnectionWhenOneIsBroken) {
  int asked = 0;
  Acceptor acceptor(7, "connections", [&](int) {
    errno = ECONNABORTED;
    return ++asked < 3 ? -1 : kGone;
  });
  EXPECT_EQ(acceptor.take(SteadyTime{}), kGone);
}

TEST(Acceptor, AsksTenTimesASecondAndTellsOnceAMinuteWhileThereAreNoDescriptors) {
  int asked = 0;
  Acceptor acceptor(7, "connections", [&](int) {
    ++asked;
    errno = EMFILE;
    return -1;
  });
  std::size_t bytes = 0, lines = 0;
  for (milliseconds at{0}; at < std::chrono::minutes(10); at += milliseconds(1)) {
    acceptor.take(SteadyTime{} + at);
    if (const auto news = acceptor.take_news()) bytes += news->size(), ++lines;
  }
  EXPECT_EQ(asked, 6000);
  EXPECT_EQ(lines, 10U);
  EXPECT_LT(bytes, 3000U);
}

struct OneGuest {
  int number;
};

class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit now{.rlim_cur = most, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(Acceptor, GivesGuestsAnEighthOfTheDescriptorsOnAllListenersTogether) {
  Acceptor one(7, "connections");
  EXPECT_EQ(one.most_guests(), 64U);
  const FewDescriptors limit(80);
  EXPECT_EQ(one.most_guests(), 10U);
  Acceptor other(8, "connections");
  EXPECT_EQ(one.most_guests(), 5U);
  Acceptor third(9, "connections"), fourth(9, "connections"), fifth(9, "connections");
  EXPECT_EQ(one.most_guests(), 2U) << "a listener that lets nobody wait would serve nobody";
}

TEST(Acceptor, TheOldestGuestMakesRoomForANewOneAndTheLogHearsOfIt) {
  const FewDescriptors limit(80);
  Acceptor acceptor(7, "connections to rank 3");
  std::vector<OneGuest> guests;
  std::vector<int> gone;
  for (int i = 0; i < 1000; ++i) {
    acceptor.make_room(guests, SteadyTime{},
                       [&](const OneGuest& guest) { gone.push_back(guest.number); });
    guests.push_back({i});
    ASSERT_LE(guests.size(), 10U);
  }
  ASSERT_EQ(gone.size(), 990U);
  EXPECT_EQ(gone.front(), 0);
  EXPECT_EQ(gone.back(), 989);
  const auto news = acceptor.take_news();
  ASSERT_TRUE(news);
  EXPECT_THAT(*news, HasSubstr("more than 10 of connections to rank 3"));
  EXPECT_FALSE(acceptor.take_news());
}

TEST(Acceptor, HalfAsManyMayStayAndTheyMakeRoomWithNewsOfTheirOwn) {
  const FewDescriptors limit(80);
  Acceptor acceptor(7, "connections to rank 3");
  std::vector<OneGuest> guests, streams;
  for (int i = 0; i < 1000; ++i) {
    acceptor.make_room_for_stream(streams, SteadyTime{});
    streams.push_back({i});
    ASSERT_LE(streams.size(), 5U);
  }
  EXPECT_EQ(streams.front().number, 995);
  EXPECT_THAT(acceptor.take_news().value_or(""),
              HasSubstr("more than 5 streams of connections to rank 3"));
  for (int i = 0; i < 11; ++i) {
    acceptor.make_room(guests, SteadyTime{}, [](const OneGuest&) {});
    guests.push_back({i});
  }
  acceptor.rest(SteadyTime{}, EMFILE);  // must not replace news that nobody has taken
  EXPECT_THAT(acceptor.take_news().value_or(""), HasSubstr("more than 10 of connections"));
  acceptor.rest(SteadyTime{}, EMFILE);
  EXPECT_THAT(acceptor.take_news().value_or(""), HasSubstr("(2 times)"));
  EXPECT_EQ(streams.size(), 5U);
}

}  // namespace
}  // namespace atp
