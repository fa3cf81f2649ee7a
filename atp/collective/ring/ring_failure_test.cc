#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <latch>
#include <mutex>

#include "atp/collective/testing/ring.h"
#include "atp/collective/testing/threads.h"

// When something goes wrong with a ring, all ranks name the same culprit.

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::bytes_of_vector;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TestingRing;

Status sum(Ring& ring, std::size_t values, ElementType type = ElementType::kFloat32) {
  std::vector<float> data(values, 1);
  return ring.submit(all_reduce_request(type, bytes_of_vector(data), ring.world_size())).wait();
}

std::string error_of(const Status& status) {
  return status.ok() ? "no error" : status.error().message;
}

std::string name_of(const TestingRing& ring, std::size_t rank) {
  return "rank " + std::to_string(rank) + " (" + to_string(ring.addresses()[rank]) + ")";
}

// A rank in a process of its own, which takes part in one sum and is then killed or stopped; if
// asked for, a forked child of it survives.
class RankInProcess {
 public:
  RankInProcess(const TestingRing& testing_ring, std::size_t rank, int signal,
                bool has_child = false)
      : pid_(fork()) {
    if (pid_ != 0) return;
    Result<std::unique_ptr<Ring>> ring = testing_ring.connect(rank);
    if (ring.ok()) static_cast<void>(sum(*ring.value(), 100));
    if (has_child && fork() == 0) {
      sleep(5);
      _exit(0);
    }
    // Give the others time to receive what they need from it.
    std::this_thread::sleep_for(milliseconds(200));
    kill(getpid(), signal);
    _exit(1);
  }
  ~RankInProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

// The errors of all ranks but one, which gets `signal` after the first sum.
std::vector<std::string> errors_when_one_gets(int signal, TestingRing& ring, std::size_t ranks,
                                              std::size_t victim, std::size_t values) {
  const RankInProcess process(ring, victim, signal);
  std::vector<std::string> errors;
  std::mutex mutex;
  ring.run_all_but(victim, [&](std::size_t, Ring& own) {
    EXPECT_EQ(error_of(sum(own, 100)), "no error");
    const std::string error = error_of(sum(own, values));
    const std::lock_guard lock(mutex);
    errors.push_back(error);
  });
  EXPECT_EQ(errors.size(), ranks - 1);
  return errors;
}

struct Victim {
  std::size_t ranks;
  std::size_t victim;
  std::size_t values;
};

class RingLosesARank : public ::testing::TestWithParam<Victim> {};

TEST_P(RingLosesARank, and_all_others_name_it_before_the_deadline_when_it_is_killed) {
  const auto [ranks, victim, values] = GetParam();
  TestingRing ring(ranks);
  // If they had waited for a deadline, the errors would say so.
  for (const std::string& error : errors_when_one_gets(SIGKILL, ring, ranks, victim, values)) {
    EXPECT_THAT(error, AllOf(HasSubstr(name_of(ring, victim)), HasSubstr("its process has ended")));
  }
}

TEST_P(RingLosesARank, and_all_others_name_it_at_the_deadline_when_it_is_stopped) {
  const auto [ranks, victim, values] = GetParam();
  TestingRing ring(ranks);
  ring.options().operation_timeout = seconds(2);
  for (const std::string& error : errors_when_one_gets(SIGSTOP, ring, ranks, victim, values)) {
    EXPECT_THAT(error, AllOf(HasSubstr("no progress for 2 s: " + name_of(ring, victim)),
                             HasSubstr("does not answer")));
  }
}

INSTANTIATE_TEST_SUITE_P(of, RingLosesARank,
                         ::testing::ValuesIn(std::vector<Victim>{
                             {2, 1, 10}, {3, 0, 1'000'000}, {5, 2, 10}, {5, 3, 3'000'000}}),
                         [](const ::testing::TestParamInfo<Victim>& test) {
                           return std::to_string(test.param.ranks) + "_ranks_" +
                                  std::to_string(test.param.values) + "_values";
                         });

TEST(RingFailure, a_rank_that_does_not_call_is_named_by_all_others) {
  TestingRing ring(4);
  ring.options().operation_timeout = milliseconds(800);
  std::latch others(3);  // have an error
  ring.run([&](std::size_t rank, Ring& own) {
    EXPECT_TRUE(sum(own, 100).ok());
    if (rank == 2) others.wait();
    std::string error = error_of(sum(own, 1000));
    if (rank != 2) others.count_down();
    // It may have received all the data it needs before the message that the others gave up.
    if (rank == 2 && error == "no error") error = error_of(sum(own, 1000));
    EXPECT_THAT(error,
                HasSubstr(name_of(ring, 2) + " has not called all_reduce #1 (1,000 float32"));
  });
}

TEST(RingFailure, an_operation_may_have_a_deadline_of_its_own) {
  TestingRing ring(2);
  std::latch told(1);
  ring.run([&](std::size_t rank, Ring& own) {
    if (rank == 1) {
      told.wait();
      while (!own.failure()) std::this_thread::sleep_for(milliseconds(1));
      EXPECT_EQ(own.failure_kind(), FailureKind::kReported);
      return;
    }
    EXPECT_EQ(own.failure_kind(), FailureKind::kNone);
    std::vector<float> data(10);
    RingRequest request = all_reduce_request(ElementType::kFloat32, bytes_of_vector(data), 2);
    request.timeout = milliseconds(200);
    const std::string error = error_of(own.submit(std::move(request)).wait());
    EXPECT_EQ(own.failure_kind(), FailureKind::kTimeout);
    told.count_down();
    EXPECT_THAT(error, HasSubstr("no progress for 0.2 s: " + name_of(ring, 1)));
  });
}

TEST(RingFailure, an_operation_whose_time_is_over_fails_although_it_makes_progress) {
  TestingRing ring(3);
  ring.run([&](std::size_t, Ring& own) {
    std::vector<float> data(100'000'000);
    RingRequest request = all_reduce_request(ElementType::kFloat32, bytes_of_vector(data), 3);
    request.timeout = milliseconds(20);
    request.timeout_is_total = true;
    const std::string error = error_of(own.submit(std::move(request)).wait());
    EXPECT_THAT(error, HasSubstr("not ended within its timeout of 0.02 s"));
  });
}

TEST(RingFailure, a_total_time_out_ends_with_its_operation) {
  TestingRing ring(2);
  ring.run([&](std::size_t, Ring& own) {
    std::vector<float> data(10);
    RingRequest request = all_reduce_request(ElementType::kFloat32, bytes_of_vector(data), 2);
    request.timeout = milliseconds(500);
    request.timeout_is_total = true;
    EXPECT_TRUE(own.submit(std::move(request)).wait().ok());
    std::this_thread::sleep_for(milliseconds(700));
    EXPECT_TRUE(sum(own, 100'000).ok());
  });
}

TEST(RingFailure, ranks_that_call_different_operations_get_an_error) {
  TestingRing ring(3);
  ring.run([&](std::size_t rank, Ring& own) {
    const std::string error = error_of(sum(own, rank == 1 ? 1001 : 1000));
    EXPECT_THAT(error, AllOf(HasSubstr("1,001 float32"), HasSubstr("1,000 float32"),
                             HasSubstr("all ranks must call the same collectives")));
  });
}

TEST(RingFailure, ranks_with_different_number_formats_get_an_error) {
  struct Otherwise {
    NumberFormat format;
    std::vector<std::size_t> segments;
    std::string what;
  };
  const Otherwise cases[] = {
      {NumberFormat::kBlocksInt16, {}, "(5,000 float32, int16 on the wire)"},
      {NumberFormat::kExact, {}, "(5,000 float32, exact)"},
      {NumberFormat::kBlocks, {2000, 3000}, "(5,000 float32) on tensors of different lengths"}};
  for (const auto& [format, segments, what] : cases) {
    TestingRing(2).run([&](std::size_t rank, Ring& own) {
      std::vector<float> data(5000, 1);
      RingRequest request = all_reduce_request(ElementType::kFloat32, bytes_of_vector(data), 2);
      if (rank == 1) {
        request.format = format;
        request.segments = segments;
      }
      const std::string error = error_of(own.submit(std::move(request)).wait());
      EXPECT_THAT(error, AllOf(HasSubstr("all_reduce #0 (5,000 float32)"), HasSubstr(what)));
    });
  }
}

TEST(RingFailure, an_aborted_rank_is_named_to_the_others_with_the_reason) {
  TestingRing ring(3);
  ring.run([&](std::size_t rank, Ring& own) {
    EXPECT_TRUE(sum(own, 100).ok());
    if (rank == 1) {
      std::vector<float> data(10);
      const RingHandle mine =
          own.submit(all_reduce_request(ElementType::kFloat32, bytes_of_vector(data), 3));
      std::this_thread::sleep_for(milliseconds(50));
      own.abort("no more of this");
      own.abort("twice");
      EXPECT_THAT(error_of(mine.wait()), HasSubstr("no more of this"));
      EXPECT_THAT(error_of(sum(own, 1)), HasSubstr("no more of this"));
      EXPECT_EQ(own.failure_kind(), FailureKind::kNone) << "it has left, not failed";
      return;
    }
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_THAT(error_of(sum(own, 100)), HasSubstr("rank 1"));
  });
}

// Rank 1's thread sleeps while the last data of an operation and the message of a failure arrive.
TEST(RingFailure, an_operation_whose_data_was_sent_before_an_abort_completes) {
  TestingRing ring(2);
  ring.run([&](std::size_t rank, Ring& own) {
    std::vector<std::vector<float>> outputs(3, std::vector<float>(20));
    std::vector<float> input(10, static_cast<float>(rank));
    const auto gather = [&](std::size_t number) {
      return all_gather_request(ElementType::kFloat32, bytes_of_vector(input),
                                bytes_of_vector(outputs[number]), 2);
    };
    if (rank == 0) {
      std::this_thread::sleep_for(milliseconds(100));  // rank 1 has sent its part of both
      EXPECT_TRUE(own.submit(gather(0)).wait().ok());
      EXPECT_TRUE(own.submit(gather(1)).wait().ok());
      const RingHandle pending = own.submit(gather(2));
      own.abort("no more of this");
      EXPECT_THAT(error_of(pending.wait()), HasSubstr("no more of this"));
      return;
    }
    RingRequest first = gather(0);
    first.on_done = [](const Status&) { std::this_thread::sleep_for(milliseconds(300)); };
    own.submit(std::move(first));
    const Status second = own.submit(gather(1)).wait();
    EXPECT_TRUE(second.ok()) << second.error().message;
  });
}

TEST(RingFailure, a_rank_that_left_in_good_order_is_missed_by_those_that_go_on) {
  TestingRing ring(3);
  ring.run([&](std::size_t rank, Ring& own) {
    EXPECT_TRUE(sum(own, 100).ok());
    if (rank == 1) {
      EXPECT_TRUE(own.shutdown().ok());
      return;
    }
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_THAT(error_of(sum(own, 100)), HasSubstr(name_of(ring, 1) + " has left the group"));
    // Whichever of them misses it first tells the other.
    EXPECT_THAT(own.failure_kind(), AnyOf(FailureKind::kBroken, FailureKind::kReported));
  });
}

TEST(RingFailure, a_rank_that_was_stopped_tells_the_others_why_even_if_it_leaves_then) {
  TestingRing ring(3);
  ring.run([&](std::size_t rank, Ring& own) {
    EXPECT_TRUE(sum(own, 100).ok());
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(100));  // the others have their sums, too
      own.stop("the disk is full");
      EXPECT_THAT(error_of(sum(own, 100)), HasSubstr("the disk is full"));
      EXPECT_EQ(own.failure_kind(), FailureKind::kNone) << "others know how it has failed";
      return;
    }
    std::this_thread::sleep_for(milliseconds(300));
    EXPECT_THAT(error_of(sum(own, 100)),
                AllOf(HasSubstr("the disk is full"), Not(HasSubstr("has left"))));
    EXPECT_EQ(own.failure_kind(), FailureKind::kReported);
  });
}

TEST(RingFailure, a_rank_that_refuses_connections_is_named_at_the_time_out) {
  TestingRing ring(2);
  ring.options().connect_timeout = milliseconds(300);
  ring.addresses()[1] = Endpoint::ipv4(127, 0, 0, 1, 9);
  const auto alone = ring.connect(0);
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().message,
            "rank 0 cannot connect to rank 1 (127.0.0.1:9) within 0.3 s: Connection refused");
}

TEST(RingFailure, a_rank_that_never_comes_is_named_after_a_second_and_at_the_time_out) {
  TestingRing ring(3);
  std::vector<std::string> lines;  // of this thread
  ring.options().connect_timeout = milliseconds(1400);
  ring.options().on_warning = [&](const std::string& line) { lines.push_back(line); };
  const auto alone = ring.connect(0);
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(alone.error().message,
              AllOf(HasSubstr(name_of(ring, 2) + " has not connected to " + name_of(ring, 0)),
                    HasSubstr("within 1.4 s")));
  EXPECT_EQ(lines, std::vector{"rank 0 waits for " + name_of(ring, 2) + " to connect with it"});
}

TEST(RingFailure, silent_strangers_do_not_hold_up_the_meeting_one_after_another) {
  const TestingRing ring(3);
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::vector<TcpSocket> silent;  // each may stay two seconds, and the meeting has ten
  for (const Endpoint& at : ring.addresses()) {
    for (int i = 0; i < 10; ++i) silent.push_back(TcpSocket::connect(at, soon).value());
  }
  ring.run([](std::size_t, Ring&) {});
}

TEST(RingFailure, strangers_whom_a_rank_cannot_all_keep_are_reported_and_do_not_hold_it_up) {
  TestingRing ring(2);
  std::mutex mutex;
  std::vector<std::string> lines;
  ring.options().on_warning = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  };
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::vector<TcpSocket> silent;
  for (int i = 0; i < 200; ++i)
    silent.push_back(TcpSocket::connect(ring.addresses()[0], soon).value());
  ring.run([](std::size_t, Ring&) {});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("closing the oldest"));
}

TEST(RingFailure, strangers_and_ranks_of_other_groups_are_turned_away) {
  TestingRing ring(2);
  std::thread stranger([&] {
    const auto until = std::chrono::steady_clock::now() + seconds(5);
    const auto mute = TcpSocket::connect(ring.addresses()[0], until);
    const auto rude = TcpSocket::connect(ring.addresses()[0], until);
    const std::vector<std::byte> nonsense(64, std::byte{7});
    EXPECT_TRUE(rude.value().send_all(nonsense, until).ok());
    std::this_thread::sleep_for(milliseconds(100));
  });
  stranger.join();
  ring.run([](std::size_t, Ring& own) { EXPECT_EQ(error_of(sum(own, 100)), "no error"); });
  TestingRing two(2);
  two.options().connect_timeout = milliseconds(300);
  std::thread other_group([&] {
    TestingRing theirs = two.with_token(4712);
    EXPECT_FALSE(theirs.connect(1).ok());
  });
  EXPECT_FALSE(two.connect(0).ok());
  other_group.join();
}

TEST(RingFailure, ranks_have_the_names_that_the_options_give_them) {
  TestingRing ring(2);
  ring.options().names = {4, 6};
  ring.options().operation_timeout = milliseconds(200);
  std::latch told(1);
  ring.run([&](std::size_t rank, Ring& own) {
    if (rank == 1) return told.wait();
    const std::string error = error_of(sum(own, 10));
    told.count_down();
    EXPECT_THAT(error, HasSubstr("rank 6 (127"));
  });
}

TEST(RingFailure, a_forked_child_does_not_hide_that_its_parent_has_died) {
  TestingRing ring(2);
  const RankInProcess process(ring, 1, SIGKILL, true);
  ring.run_all_but(1, [&](std::size_t, Ring& own) {
    EXPECT_EQ(error_of(sum(own, 100)), "no error");
    EXPECT_THAT(error_of(sum(own, 100)), HasSubstr("its process has ended"));
  });
}

TEST(RingFailure, in_a_forked_child_every_method_returns_an_error) {
  TestingRing ring(2);
  ring.run([&](std::size_t rank, Ring& own) {
    if (rank == 1) return;
    const pid_t child = fork();
    if (child == 0) {
      const bool said = error_of(sum(own, 1)).find("forked") != std::string::npos &&
                        !own.shutdown().ok() && own.counters().empty();
      _exit(said ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  });
}

TEST(RingFailure, a_rank_that_cannot_start_a_thread_reports_it_and_is_missed_by_the_other) {
  const TestingRing testing_ring(2);
  std::latch begin(3);
  std::array<std::string, 2> said;
  std::vector<std::thread> ranks;
  for (const std::size_t rank : {0, 1}) {
    ranks.emplace_back([&, rank] {
      begin.arrive_and_wait();
      const Result<std::unique_ptr<Ring>> ring = testing_ring.connect(rank);
      said[rank] = ring.ok() ? error_of(sum(*ring.value(), 10)) : ring.error().message;
    });
  }
  const testing::RoomForThreads of_one_rank(1);
  begin.arrive_and_wait();
  for (std::thread& rank : ranks) rank.join();
  const std::size_t without = said[0].find("cannot start a thread") != std::string::npos ? 0 : 1;
  EXPECT_THAT(said[without], AllOf(HasSubstr("cannot start a thread"), HasSubstr("ulimit -u")));
  EXPECT_THAT(said[1 - without],
              AllOf(HasSubstr(name_of(testing_ring, without)), HasSubstr("has left")));
}

}  // namespace
}  // namespace atp
