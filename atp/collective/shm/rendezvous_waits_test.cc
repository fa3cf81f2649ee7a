#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "atp/collective/testing/rendezvous.h"

// All waits of a meeting: each says for whom, ends when another rank is lost, and is bounded.

namespace atp {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A rank 0 that listens, and does this with its line to rank 1.
std::function<void(const JobKey&, std::future<void>)> leader_that(
    const std::function<void(const UnixLine&)>& acts) {
  return [acts](const JobKey& job, std::future<void> over) {
    const UnixLine listener = UnixLine::listen(name_of(job)).value();
    const UnixLine* waited[] = {&listener};
    static_cast<void>(
        UnixLine::first_ready(waited, std::chrono::steady_clock::now() + std::chrono::seconds(20)));
    const UnixLine line = listener.accept().value();
    acts(line);
    over.wait();
  };
}

// Rank 0 of three.
void lead_three(const JobKey& job, const std::future<void>& over) {
  const auto interruption = std::make_shared<Interruption>();
  std::thread leader([&] {
    static_cast<void>(
        meet_on_host({.job = job, .rank = 0, .world_size = 3, .interruption = interruption}));
  });
  over.wait();
  interruption->set("over");
  leader.join();
}

// What a rank waits for, who makes it wait, and for whom it says that it waits.
struct Wait {
  const char* name;
  std::size_t rank;
  std::size_t world_size;
  std::function<void(const JobKey&, std::future<void> over)> other;
  std::vector<std::string> whom;
};

const Wait kWaits[] = {
    {"rank 0, for a rank to call", 0, 2, [](const JobKey&, auto over) { over.wait(); }, {"rank 1"}},
    {"rank 0, for two ranks of which one has called",
     0,
     3,
     [](const JobKey& job, auto over) {
       const UnixLine line = line_of(job, 1, 3);
       over.wait();
     },
     {"rank 2"}},
    {"rank 0, for a rank's answer",
     0,
     2,
     [](const JobKey& job, auto over) {
       const UnixLine line = line_of(job, 1, 2);
       over.wait();
     },
     {"rank 1"}},
    {"rank 0, for a late rank to call, and then for another's answer",
     0,
     3,
     [](const JobKey& job, auto over) {
       const UnixLine silent = line_of(job, 1, 3);
       std::this_thread::sleep_for(milliseconds(1200));
       const UnixLine late = line_of(job, 2, 3);
       static_cast<void>(late.say(""));
       over.wait();
     },
     {"rank 2", "rank 1"}},
    {"rank 1, for rank 0 to listen",
     1,
     2,
     [](const JobKey&, auto over) { over.wait(); },
     {"rank 0"}},
    {"rank 1, for the segment", 1, 2, leader_that([](const UnixLine&) {}), {"rank 0"}},
    {"rank 1, for the first verdict",
     1,
     2,
     leader_that([](const UnixLine& line) { static_cast<void>(line.pass(-1)); }),
     {"rank 0"}},
    {"rank 1, for the second verdict",
     1,
     2,
     leader_that([](const UnixLine& line) {
       static_cast<void>(line.pass(-1));
       static_cast<void>(line.say(""));
     }),
     {"rank 0"}},
    {"rank 1, for rank 0, which waits for rank 2 to call", 1, 3, lead_three, {"rank 2"}},
    {"rank 1, for rank 0, which waits for rank 2's answer",
     1,
     3,
     [](const JobKey& job, auto over) {
       std::thread leader([&] { lead_three(job, over); });
       const UnixLine line = line_of(job, 2, 3);
       leader.join();
     },
     {"rank 2"}},
    {"rank 1, for rank 0, which has waited for rank 2 and is frozen",
     1,
     3,
     leader_that([](const UnixLine& line) {
       std::this_thread::sleep_for(milliseconds(500));
       line.note("rank 2");
     }),
     {"rank 2", "rank 0"}},
};

struct Waited {
  std::string error;
  std::vector<std::string> lines;
  milliseconds took{};
};

// How a wait ends at this time-out, or when another rank is known to be lost.
Waited wait_out(const Wait& wait, milliseconds timeout, milliseconds lost_after) {
  const JobKey job = new_job();
  std::promise<void> over;
  std::thread other([&] { wait.other(job, over.get_future()); });
  const auto interruption = std::make_shared<Interruption>();
  std::thread watch([&] {
    std::this_thread::sleep_for(lost_after);
    interruption->set("rank 7 was lost");
  });
  Waited waited;
  const auto begun = std::chrono::steady_clock::now();
  const auto outcome =
      meet_on_host({.job = job,
                    .rank = wait.rank,
                    .world_size = wait.world_size,
                    .timeout = timeout,
                    .interruption = interruption,
                    .warn = [&](const std::string& line) { waited.lines.push_back(line); }});
  waited.took = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun);
  waited.error = outcome.ok() ? "" : outcome.error().message;
  over.set_value();
  watch.join();
  other.join();
  return waited;
}

std::vector<Waited> wait_all_out(milliseconds timeout, milliseconds lost_after) {
  std::vector<Waited> waited(std::size(kWaits));
  std::vector<std::thread> threads(waited.size());
  for (std::size_t i = 0; i < waited.size(); ++i) {
    threads[i] = std::thread([&, i] { waited[i] = wait_out(kWaits[i], timeout, lost_after); });
  }
  for (std::thread& thread : threads) thread.join();
  return waited;
}

TEST(HostRendezvousWaits, EveryWaitEndsWhenAnotherRankIsKnownToBeLost) {
  const std::vector<Waited> waited = wait_all_out(std::chrono::minutes(5), milliseconds(300));
  for (std::size_t i = 0; i < waited.size(); ++i) {
    EXPECT_EQ(waited[i].error, "rank 7 was lost") << kWaits[i].name;
    EXPECT_LT(waited[i].took, std::chrono::seconds(30)) << kWaits[i].name;
  }
}

TEST(HostRendezvousWaits, EveryWaitSaysForWhomAfterASecond) {
  const std::vector<Waited> waited = wait_all_out(std::chrono::minutes(5), milliseconds(3000));
  for (std::size_t i = 0; i < waited.size(); ++i) {
    std::vector<std::string> lines = kWaits[i].whom;
    for (std::string& line : lines) {
      line.insert(0, "rank " + std::to_string(kWaits[i].rank) + " waits for ");
      line.append(" to meet the ranks of this host");
    }
    EXPECT_EQ(waited[i].lines, lines) << kWaits[i].name;
  }
}

// With nothing on top of it, in which another rank might be heard.
TEST(HostRendezvousWaits, OneTimeOutBoundsEveryWait) {
  const std::vector<Waited> waited = wait_all_out(milliseconds(800), milliseconds(3000));
  for (std::size_t i = 0; i < waited.size(); ++i) {
    EXPECT_LT(waited[i].took, milliseconds(2000)) << kWaits[i].name;
    EXPECT_THAT(waited[i].error, HasSubstr(kWaits[i].whom.front())) << kWaits[i].name;
  }
}

}  // namespace
}  // namespace atp
