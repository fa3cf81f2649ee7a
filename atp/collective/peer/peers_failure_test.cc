#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <latch>
#include <mutex>

#include "atp/collective/testing/peers.h"

// When something goes wrong with a rank, all others name the same culprit.

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::readable;
using testing::TestingPeers;
using testing::text_of;
using testing::writable;
using Values = std::vector<std::int64_t>;

// Carries out a call of any kind, with this many values per block.
Status carry_out(Peers& peers, Collective call, std::size_t values) {
  const std::size_t ranks = peers.world_size();
  Values tensor(values, 1);
  std::vector<Values> blocks(ranks, Values(values, 2));
  std::vector<ConstBytes> in;
  std::vector<Bytes> out;
  for (Values& block : blocks) in.push_back(readable(block));
  std::vector<Values> results(ranks, Values(values));
  for (Values& result : results) out.push_back(writable(result));
  const bool is_root = peers.rank() == 0;
  CollectiveRequest request{.call = call, .kind = ElementKind::kInt64};
  switch (call) {
    case Collective::kBroadcast: request.outputs = {writable(tensor)}; break;
    case Collective::kReduce:
      request.inputs = {readable(tensor)};
      if (is_root) request.outputs = {writable(tensor)};
      break;
    case Collective::kGather:
      request.inputs = {readable(tensor)};
      if (is_root) request.outputs = out;
      break;
    case Collective::kScatter:
      request.outputs = {writable(tensor)};
      if (is_root) request.inputs = in;
      break;
    case Collective::kAllGather:
      request.inputs = {readable(tensor)};
      request.outputs = out;
      break;
    case Collective::kReduceScatter:
      request.inputs = in;
      request.outputs = {writable(tensor)};
      break;
    case Collective::kAllToAll:
      request.inputs = in;
      request.outputs = out;
      break;
    case Collective::kAllReduce: request.outputs = {writable(tensor)}; break;
    default: break;
  }
  const bool adds = call == Collective::kReduce || call == Collective::kReduceScatter ||
                    call == Collective::kAllReduce;
  if (adds) request.reduction = ElementReduction::kSum;
  return peers.submit(std::move(request)).wait();
}

// Some calls end before a rank is missed, so this tries a few.
std::string first_error(Peers& peers, Collective call, std::size_t values) {
  for (int i = 0; i < 3; ++i) {
    const Status status = carry_out(peers, call, values);
    if (!status) return status.error().message;
  }
  return "no error";
}

enum class Fate { kKilled, kStopped, kAbsent, kElsewhere, kElsewhereUnseen };

struct Case {
  const char* name;
  Collective call;
  std::size_t values = 20'000;  // of a block, or of the tensor
};

// Those with another number of values take another algorithm (plan.h).
const std::vector<Case> kCases{{"broadcast", Collective::kBroadcast},
                               {"reduce", Collective::kReduce},
                               {"gather", Collective::kGather},
                               {"scatter", Collective::kScatter},
                               {"all_gather", Collective::kAllGather},
                               {"all_gather", Collective::kAllGather, 1'000},
                               {"reduce_scatter", Collective::kReduceScatter},
                               {"reduce_scatter", Collective::kReduceScatter, 1'000},
                               {"all_to_all", Collective::kAllToAll},
                               {"all_reduce", Collective::kAllReduce},
                               {"all_reduce", Collective::kAllReduce, 1'000},
                               {"all_reduce", Collective::kAllReduce, 100'000},
                               {"barrier", Collective::kBarrier}};

class PeersLose : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr std::size_t kRanks = 4;
  static constexpr std::size_t kVictim = 2;

  // The errors of the others when the victim meets its fate after a first barrier. The victim is a
  // process if it gets a signal, otherwise a thread.
  std::vector<std::string> errors(Fate fate) const {
    TestingPeers group(kRanks);
    group.options().operation_timeout = fate == Fate::kKilled ? seconds(20) : milliseconds(600);
    pid_t child = -1;
    if (fate == Fate::kKilled || fate == Fate::kStopped) {
      child = fork();
      if (child == 0) be_killed(group, fate == Fate::kKilled ? SIGKILL : SIGSTOP);
    }
    std::vector<std::string> errors(kRanks);
    const auto body = [&](std::size_t rank, Peers& peers) {
      const Status met = carry_out(peers, Collective::kBarrier, 0);
      if (rank == kVictim) return be_victim(peers, fate);
      // The failure may arrive before the barrier's last message.
      errors[rank] =
          met.ok() ? first_error(peers, GetParam().call, GetParam().values) : text_of(met);
    };
    group.run_all_but(child >= 0 ? kVictim : kRanks, body);
    if (child >= 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    return errors;
  }

 private:
  [[noreturn]] static void be_killed(const TestingPeers& group, int signal) {
    const std::unique_ptr<Peers> peers = group.start(kVictim);
    static_cast<void>(carry_out(*peers, Collective::kBarrier, 0));
    std::this_thread::sleep_for(milliseconds(100));
    kill(getpid(), signal);
    _exit(1);
  }
  void be_victim(Peers& peers, Fate fate) const {
    if (fate == Fate::kElsewhere) {
      const bool is_sum = GetParam().call == Collective::kAllReduce;
      static_cast<void>(
          first_error(peers, is_sum ? Collective::kAllToAll : Collective::kAllReduce, 20'000));
      return;
    }
    if (fate == Fate::kElsewhereUnseen) {
      // Neither rank has sent anything that would show the mismatch.
      const bool is_barrier = GetParam().call == Collective::kBarrier;
      static_cast<void>(
          first_error(peers, is_barrier ? Collective::kBroadcast : Collective::kBarrier, 20'000));
      return;
    }
    while (!peers.failure()) std::this_thread::sleep_for(milliseconds(10));
  }
};

TEST_P(PeersLose, a_rank_that_is_killed_and_all_others_name_it_at_once) {
  const std::vector<std::string> found = errors(Fate::kKilled);
  for (const std::size_t rank : {0, 1, 3}) {
    EXPECT_THAT(found[rank], AllOf(HasSubstr("rank 2 (127.0.0.1:"), HasSubstr("has ended")));
  }
}

TEST_P(PeersLose, a_rank_that_is_stopped_and_all_others_name_it_when_time_is_up) {
  const std::vector<std::string> found = errors(Fate::kStopped);
  for (const std::size_t rank : {0, 1, 3}) {
    EXPECT_THAT(found[rank], AllOf(HasSubstr("not ended within its timeout of 0.6 s"),
                                   HasSubstr("rank 2"), HasSubstr("does not answer")));
  }
}

TEST_P(PeersLose, a_rank_that_has_not_called_it_and_all_others_name_it_when_time_is_up) {
  const std::vector<std::string> found = errors(Fate::kAbsent);
  for (const std::size_t rank : {0, 1, 3}) {
    EXPECT_THAT(found[rank], AllOf(HasSubstr("not ended within its timeout of 0.6 s"),
                                   HasSubstr("rank 2"), HasSubstr("has not called ")));
  }
}

TEST_P(PeersLose, a_rank_that_has_called_something_else_and_all_others_are_told_what) {
  const std::vector<std::string> found = errors(Fate::kElsewhere);
  for (const std::size_t rank : {0, 1, 3}) {
    EXPECT_THAT(found[rank], AllOf(HasSubstr("rank 2"), HasSubstr(GetParam().name),
                                   HasSubstr("all ranks must call the same")));
  }
}

TEST_P(PeersLose, a_rank_that_waits_in_something_else_and_all_others_are_told_what) {
  const std::vector<std::string> found = errors(Fate::kElsewhereUnseen);
  for (const std::size_t rank : {0, 1, 3}) {
    EXPECT_THAT(found[rank], AllOf(HasSubstr("rank 2"), HasSubstr(GetParam().name),
                                   HasSubstr("all ranks must call the same")));
  }
}

INSTANTIATE_TEST_SUITE_P(in, PeersLose, ::testing::ValuesIn(kCases),
                         [](const ::testing::TestParamInfo<Case>& test) {
                           return test.param.name + ("_of_" + std::to_string(test.param.values));
                         });

TEST(PeersFailure, a_gather_and_a_scatter_of_one_size_are_both_described_with_that_size) {
  TestingPeers(2).run([&](std::size_t rank, Peers& peers) {
    const Collective call = rank == 0 ? Collective::kGather : Collective::kScatter;
    const std::string text = text_of(carry_out(peers, call, 20'000));
    EXPECT_THAT(text, AllOf(HasSubstr("gather #0 to rank 0 (160,000 bytes for a rank"),
                            HasSubstr("scatter #0 from rank 0 (160,000 bytes for a rank")));
  });
}

TEST(PeersFailure, ranks_that_call_it_with_other_sizes_types_or_roots_are_told_so) {
  const std::vector<std::function<void(CollectiveRequest&, Values&)>> mistakes{
      [](CollectiveRequest& request, Values& tensor) {
        tensor.resize(7);
        request.outputs = {writable(tensor)};
      },
      [](CollectiveRequest& request, Values&) { request.type = 6; },
      [](CollectiveRequest& request, Values&) { request.root = 1; }};
  for (const auto& mistake : mistakes) {
    TestingPeers(2).run([&](std::size_t rank, Peers& peers) {
      Values tensor(5);
      CollectiveRequest request{.call = Collective::kBroadcast, .outputs = {writable(tensor)}};
      if (rank == 1) mistake(request, tensor);
      Status status = peers.submit(std::move(request)).wait();
      if (status.ok()) status = carry_out(peers, Collective::kBarrier, 0);
      EXPECT_THAT(text_of(status), HasSubstr("all ranks must call the same"));
    });
  }
}

TEST(PeersFailure, a_receive_without_a_sender_names_the_tag_it_waits_for) {
  TestingPeers group(2);
  group.options().operation_timeout = milliseconds(600);
  group.run([&](std::size_t rank, Peers& peers) {
    Values word(1);
    if (rank == 1) {
      while (!peers.failure()) std::this_thread::sleep_for(milliseconds(10));
      EXPECT_EQ(peers.failure_kind(), FailureKind::kReported);
      return;
    }
    const Status status =
        peers
            .submit(
                {.call = Collective::kReceive, .root = 1, .tag = 9, .outputs = {writable(word)}})
            .wait();
    EXPECT_THAT(text_of(status), AllOf(HasSubstr("rank 1"), HasSubstr("sent nothing with tag 9")));
    EXPECT_EQ(peers.failure_kind(), FailureKind::kTimeout);
  });
}

// Each rank but the first waits for the one before it, and the last one's time is up first.
TEST(PeersFailure, at_the_end_of_a_chain_of_receives_the_first_rank_is_named) {
  TestingPeers group(4);
  group.options().operation_timeout = seconds(5);
  group.run([&](std::size_t rank, Peers& peers) {
    Values word(1);
    if (rank == 0) {
      while (!peers.failure()) std::this_thread::sleep_for(milliseconds(10));
      return;
    }
    const CollectiveRequest request{.call = Collective::kReceive,
                                    .root = rank - 1,
                                    .tag = 9,
                                    .outputs = {writable(word)},
                                    .timeout = milliseconds(rank == 3 ? 800 : 5000)};
    const Status status = peers.submit(request).wait();
    EXPECT_THAT(text_of(status), HasSubstr("rank 2 (127"));
    EXPECT_THAT(text_of(status), ContainsRegex("has sent nothing with tag 9, and has itself waited "
                                               "0\\.[0-9]+ s for rank 0 \\(127"));
  });
}

TEST(PeersFailure, ranks_that_receive_from_each_other_in_a_circle_end_at_the_time_out) {
  TestingPeers group(3);
  group.options().operation_timeout = milliseconds(600);
  group.run([&](std::size_t rank, Peers& peers) {
    Values word(1);
    const CollectiveRequest request{.call = Collective::kReceive,
                                    .root = (rank + 2) % 3,
                                    .tag = 9,
                                    .outputs = {writable(word)}};
    const Status status = peers.submit(request).wait();
    EXPECT_THAT(text_of(status), HasSubstr("has sent nothing with tag 9"));
  });
}

TEST(PeersFailure, a_receive_from_any_rank_names_nobody_if_all_others_answer) {
  TestingPeers group(3);
  group.options().operation_timeout = milliseconds(600);
  group.run([&](std::size_t rank, Peers& peers) {
    Values word(1);
    if (rank > 0) {
      while (!peers.failure()) std::this_thread::sleep_for(milliseconds(10));
      return;
    }
    const Status status = peers
                              .submit({.call = Collective::kReceive,
                                       .root = kAnyRank,
                                       .tag = 9,
                                       .outputs = {writable(word)}})
                              .wait();
    EXPECT_THAT(text_of(status), HasSubstr(": no rank has sent anything with tag 9"));
  });
}

TEST(PeersFailure, a_rank_that_has_left_is_named_by_those_that_need_it) {
  TestingPeers group(3);
  group.run([&](std::size_t rank, Peers& peers) {
    EXPECT_EQ(text_of(carry_out(peers, Collective::kBarrier, 0)), "ok");
    EXPECT_EQ(peers.failure_kind(), FailureKind::kNone);
    if (rank == 1) return;
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_THAT(text_of(carry_out(peers, Collective::kAllGather, 10)),
                AllOf(HasSubstr("rank 1"), HasSubstr("left the group")));
    // Whichever of them misses it first tells the other.
    EXPECT_THAT(peers.failure_kind(), AnyOf(FailureKind::kBroken, FailureKind::kReported));
  });
}

TEST(PeersFailure, ranks_that_are_gone_before_anybody_has_met_them_are_named_without_waiting) {
  TestingPeers group(4);
  group.close_listener(2);
  std::latch told(3);  // one that ended now would be gone as well
  group.run_all_but(2, [&](std::size_t, Peers& peers) {
    EXPECT_THAT(first_error(peers, Collective::kAllGather, 10),
                AllOf(HasSubstr("rank 2"), HasSubstr("is gone")));
    told.arrive_and_wait();
  });
}

TEST(PeersFailure, an_abort_fails_operations_in_flight_everywhere) {
  TestingPeers group(3);
  group.run([&](std::size_t rank, Peers& peers) {
    // The abort may arrive before the barrier's last message.
    const Status met = carry_out(peers, Collective::kBarrier, 0);
    if (rank == 1) {
      Values word(1);
      const PeerHandle handle =
          peers.submit({.call = Collective::kReceive, .root = 0, .outputs = {writable(word)}});
      peers.abort("enough");
      EXPECT_THAT(text_of(handle.wait()), HasSubstr("enough"));
      EXPECT_EQ(peers.failure_kind(), FailureKind::kNone) << "it has left, not failed";
      return;
    }
    const std::string error =
        met.ok() ? first_error(peers, Collective::kAllGather, 10) : text_of(met);
    EXPECT_THAT(error, HasSubstr("rank 1"));
  });
}

TEST(PeersFailure, a_rank_that_was_stopped_tells_the_others_why_even_if_it_leaves_then) {
  for (const bool have_met : {false, true}) {
    TestingPeers group(3);
    group.run([&](std::size_t rank, Peers& peers) {
      if (have_met) {
        EXPECT_EQ(text_of(carry_out(peers, Collective::kAllToAll, 10)), "ok");
      }
      if (rank == 1) {
        if (have_met) std::this_thread::sleep_for(milliseconds(100));  // all of them
        peers.stop("the disk is full");
        EXPECT_THAT(text_of(carry_out(peers, Collective::kAllGather, 10)),
                    HasSubstr("the disk is full"));
        EXPECT_EQ(peers.failure_kind(), FailureKind::kNone) << "others know how it has failed";
        if (!have_met) std::this_thread::sleep_for(milliseconds(500));
        return;
      }
      if (have_met) std::this_thread::sleep_for(milliseconds(300));
      EXPECT_THAT(text_of(carry_out(peers, Collective::kAllGather, 10)),
                  AllOf(HasSubstr("the disk is full"), Not(HasSubstr("left the group"))));
      EXPECT_EQ(peers.failure_kind(), FailureKind::kReported);
    });
  }
}

TEST(PeersFailure, a_stranger_is_turned_away_and_does_no_harm) {
  TestingPeers group(2);
  group.run([&](std::size_t, Peers& peers) {
    const auto soon = std::chrono::steady_clock::now() + seconds(2);
    const TcpSocket silent = TcpSocket::connect(group.addresses()[1], soon).value();
    const TcpSocket noisy = TcpSocket::connect(group.addresses()[1], soon).value();
    const std::string noise(100, 'x');
    EXPECT_TRUE(noisy.send_all(std::as_bytes(std::span(noise)), soon).ok());
    EXPECT_EQ(text_of(carry_out(peers, Collective::kAllGather, 10)), "ok");
  });
}

}  // namespace
}  // namespace atp
