#include "atp/collective/peer/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "atp/collective/testing/peers.h"

// The results of each call, for groups of several sizes and tensors on both sides of every change
// of algorithm. PeersIn's names have the ranks and the values per block.

namespace atp {
namespace {

using testing::readable;
using testing::TestingPeers;
using testing::text_of;
using testing::writable;
using Values = std::vector<std::int64_t>;

struct Size {
  std::size_t ranks;
  std::size_t values;
};

class PeersIn : public ::testing::TestWithParam<Size> {
 protected:
  std::size_t ranks() const { return GetParam().ranks; }
  std::size_t values() const { return GetParam().values; }

  // The data that rank `from` has for rank `to`, or for all.
  Values data(std::size_t from, std::size_t to = 0) const {
    Values data(values());
    std::iota(data.begin(), data.end(), static_cast<std::int64_t>(1000 * from + 77 * to));
    return data;
  }
  Values sum() const {
    Values sum(values(), 0);
    for (std::size_t r = 0; r < ranks(); ++r) add(sum, data(r));
    return sum;
  }
  static void add(Values& sum, const Values& more) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
  static void submit(Peers& peers, CollectiveRequest request) {
    request.kind = ElementKind::kInt64;
    EXPECT_EQ(text_of(peers.submit(std::move(request)).wait()), "ok");
  }
  std::size_t root() const { return ranks() / 2; }
  TestingPeers group() const { return TestingPeers(ranks()); }
};

TEST_P(PeersIn, a_broadcast_brings_the_roots_tensor_to_all) {
  group().run([&](std::size_t rank, Peers& peers) {
    Values tensor = data(rank);
    submit(peers, {.call = Collective::kBroadcast, .root = root(), .outputs = {writable(tensor)}});
    EXPECT_EQ(tensor, data(root()));
  });
}

TEST_P(PeersIn, a_reduce_leaves_the_sum_at_the_root) {
  group().run([&](std::size_t rank, Peers& peers) {
    Values tensor = data(rank);
    CollectiveRequest request{.call = Collective::kReduce,
                              .reduction = ElementReduction::kSum,
                              .root = root(),
                              .inputs = {readable(tensor)}};
    if (rank == root()) request.outputs = {writable(tensor)};
    submit(peers, std::move(request));
    EXPECT_EQ(tensor, rank == root() ? sum() : data(rank));
  });
}

TEST_P(PeersIn, a_gather_brings_all_blocks_to_the_root_and_a_scatter_back) {
  group().run([&](std::size_t rank, Peers& peers) {
    const Values own = data(rank);
    std::vector<Values> all(ranks(), Values(values()));
    CollectiveRequest gather{
        .call = Collective::kGather, .root = root(), .inputs = {readable(own)}};
    if (rank == root()) {
      for (Values& block : all) gather.outputs.push_back(writable(block));
    }
    submit(peers, std::move(gather));
    for (std::size_t r = 0; rank == root() && r < ranks(); ++r) EXPECT_EQ(all[r], data(r));
    Values back(values());
    CollectiveRequest scatter{
        .call = Collective::kScatter, .root = root(), .outputs = {writable(back)}};
    if (rank == root()) {
      for (const Values& block : all) scatter.inputs.push_back(readable(block));
    }
    submit(peers, std::move(scatter));
    EXPECT_EQ(back, own);
  });
}

TEST_P(PeersIn, an_all_gather_brings_all_blocks_to_all) {
  group().run([&](std::size_t rank, Peers& peers) {
    const Values own = data(rank);
    std::vector<Values> all(ranks(), Values(values()));
    CollectiveRequest request{.call = Collective::kAllGather, .inputs = {readable(own)}};
    for (Values& block : all) request.outputs.push_back(writable(block));
    submit(peers, std::move(request));
    for (std::size_t r = 0; r < ranks(); ++r) EXPECT_EQ(all[r], data(r));
  });
}

TEST_P(PeersIn, a_reduce_scatter_brings_to_each_rank_the_sum_of_its_blocks) {
  group().run([&](std::size_t rank, Peers& peers) {
    std::vector<Values> blocks;
    for (std::size_t to = 0; to < ranks(); ++to) blocks.push_back(data(rank, to));
    Values sum(values());
    CollectiveRequest request{.call = Collective::kReduceScatter,
                              .reduction = ElementReduction::kSum,
                              .outputs = {writable(sum)}};
    for (const Values& block : blocks) request.inputs.push_back(readable(block));
    submit(peers, std::move(request));
    Values expected(values(), 0);
    for (std::size_t from = 0; from < ranks(); ++from) add(expected, data(from, rank));
    EXPECT_EQ(sum, expected);
  });
}

TEST_P(PeersIn, an_all_to_all_brings_each_block_to_its_rank_whatever_their_lengths) {
  group().run([&](std::size_t rank, Peers& peers) {
    const auto cut = [&](Values block, std::size_t from, std::size_t to) {
      block.resize(values() * ((from + to) % 3) / 2);
      return block;
    };
    std::vector<Values> blocks;
    std::vector<Values> results;
    CollectiveRequest request{.call = Collective::kAllToAll};
    for (std::size_t r = 0; r < ranks(); ++r) {
      blocks.push_back(cut(data(rank, r), rank, r));
      results.push_back(cut(Values(values()), r, rank));
    }
    for (std::size_t r = 0; r < ranks(); ++r) {
      request.inputs.push_back(readable(blocks[r]));
      request.outputs.push_back(writable(results[r]));
    }
    submit(peers, std::move(request));
    for (std::size_t r = 0; r < ranks(); ++r) EXPECT_EQ(results[r], cut(data(r, rank), r, rank));
  });
}

TEST_P(PeersIn, an_all_reduce_leaves_the_sum_at_all) {
  group().run([&](std::size_t rank, Peers& peers) {
    Values tensor = data(rank);
    submit(peers, {.call = Collective::kAllReduce,
                   .reduction = ElementReduction::kSum,
                   .outputs = {writable(tensor)}});
    EXPECT_EQ(tensor, sum());
  });
}

// All kinds of operations, overlapping.
TEST_P(PeersIn, many_operations_may_be_in_flight_at_once) {
  group().run([&](std::size_t rank, Peers& peers) {
    constexpr std::size_t kRounds = 30;
    std::vector<Values> sums(kRounds, data(rank));
    std::vector<Values> copies(kRounds, data(rank));
    std::vector<PeerHandle> handles;
    for (std::size_t i = 0; i < kRounds; ++i) {
      handles.push_back(peers.submit({.call = Collective::kAllReduce,
                                      .kind = ElementKind::kInt64,
                                      .reduction = ElementReduction::kSum,
                                      .outputs = {writable(sums[i])}}));
      handles.push_back(peers.submit(
          {.call = Collective::kBroadcast, .root = i % ranks(), .outputs = {writable(copies[i])}}));
    }
    for (const PeerHandle& handle : handles) EXPECT_EQ(text_of(handle.wait()), "ok");
    for (std::size_t i = 0; i < kRounds; ++i) {
      EXPECT_EQ(sums[i], sum());
      EXPECT_EQ(copies[i], data(i % ranks()));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(groups_of, PeersIn,
                         ::testing::ValuesIn(std::vector<Size>{{1, 5},
                                                               {2, 0},
                                                               {2, 3},
                                                               {2, 200'000},
                                                               {3, 1},
                                                               {3, 9'001},
                                                               {3, 150'001},
                                                               {5, 77},
                                                               {5, 20'000},
                                                               {18, 10}}),
                         [](const ::testing::TestParamInfo<Size>& test) {
                           return std::to_string(test.param.ranks) + "_ranks_" +
                                  std::to_string(test.param.values) + "_values";
                         });

TEST(Peers, a_barrier_ends_when_all_ranks_are_there) {
  for (const Collective call : {Collective::kBarrier, Collective::kMonitoredBarrier}) {
    for (const std::size_t ranks : {2, 5, 8}) {
      std::atomic<std::size_t> there{0};
      TestingPeers(ranks).run([&](std::size_t rank, Peers& peers) {
        std::this_thread::sleep_for(std::chrono::milliseconds(rank * 5));
        ++there;
        EXPECT_EQ(text_of(peers.submit({.call = call}).wait()), "ok");
        EXPECT_EQ(there, ranks);
      });
    }
  }
}

TEST(Peers, messages_of_one_tag_keep_their_order_and_tags_may_be_received_in_any) {
  for (const std::size_t values : {std::size_t{2}, std::size_t{30'000}}) {
    TestingPeers(2).run([&](std::size_t rank, Peers& peers) {
      std::vector<Values> messages(6, Values(values));
      std::vector<PeerHandle> handles;
      for (std::size_t i = 0; i < messages.size(); ++i) {
        // Sent: 0 1 2 3 4 5 with the tags 0 1 2 0 1 2; received: tag 2 first.
        const auto tag = static_cast<std::uint32_t>(rank == 0 ? i % 3 : 2 - i / 2);
        if (rank == 0) {
          std::fill(messages[i].begin(), messages[i].end(), i);
          handles.push_back(peers.submit({.call = Collective::kSend,
                                          .root = 1,
                                          .tag = tag,
                                          .inputs = {readable(messages[i])}}));
        } else {
          handles.push_back(peers.submit({.call = Collective::kReceive,
                                          .root = 0,
                                          .tag = tag,
                                          .outputs = {writable(messages[i])}}));
          EXPECT_EQ(text_of(handles.back().wait()), "ok");
        }
      }
      for (const PeerHandle& handle : handles) EXPECT_EQ(text_of(handle.wait()), "ok");
      if (rank == 0) return;
      std::vector<std::int64_t> got;
      for (const Values& message : messages) got.push_back(message.back());
      EXPECT_THAT(got, ::testing::ElementsAre(2, 5, 1, 4, 0, 3));
    });
  }
}

TEST(Peers, a_receive_from_any_rank_returns_the_sender) {
  for (const std::size_t values : {std::size_t{1}, std::size_t{50'000}}) {
    TestingPeers(4).run([&](std::size_t rank, Peers& peers) {
      Values message(values, static_cast<std::int64_t>(rank));
      if (rank != 2) {
        const Status sent =
            peers.submit({.call = Collective::kSend, .root = 2, .inputs = {readable(message)}})
                .wait();
        EXPECT_EQ(text_of(sent), "ok");
        return;
      }
      std::vector<std::size_t> sources;
      for (int i = 0; i < 3; ++i) {
        const PeerHandle handle = peers.submit(
            {.call = Collective::kReceive, .root = kAnyRank, .outputs = {writable(message)}});
        EXPECT_EQ(text_of(handle.wait()), "ok");
        EXPECT_EQ(message.back(), static_cast<std::int64_t>(handle.source()));
        sources.push_back(handle.source());
      }
      EXPECT_THAT(sources, ::testing::UnorderedElementsAre(0, 1, 3));
    });
  }
}

// Far more than may wait at the receiver: the rest waits at the sender.
TEST(Peers, a_rank_cannot_receive_from_itself_and_is_told_at_once) {
  const struct {
    std::size_t ranks;
    Collective call;
    std::size_t root;
    const char* said;
  } rows[] = {
      {2, Collective::kSend, 0, "a rank cannot send to itself"},
      {2, Collective::kReceive, 0, "or receive from itself"},
      {1, Collective::kReceive, kAnyRank, "this group has no other rank that could send"},
  };
  for (const auto& row : rows) {
    TestingPeers(row.ranks).run([&](std::size_t rank, Peers& peers) {
      if (rank > 0) return;
      std::vector<float> values(3);
      CollectiveRequest request;
      request.call = row.call;
      request.root = row.root;
      if (row.call == Collective::kSend) request.inputs = {readable(values)};
      if (row.call == Collective::kReceive) request.outputs = {writable(values)};
      EXPECT_THAT(text_of(peers.submit(std::move(request)).wait()), ::testing::HasSubstr(row.said));
    });
  }
}

TEST(Peers, a_rank_that_sends_far_ahead_waits_for_room) {
  constexpr std::size_t kMessages = 3000;
  TestingPeers(2).run([&](std::size_t rank, Peers& peers) {
    std::vector<Values> messages(kMessages, Values(500, static_cast<std::int64_t>(rank)));
    std::vector<PeerHandle> handles;
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (std::size_t i = 0; i < kMessages; ++i) {
      CollectiveRequest request{
          .call = Collective::kSend, .root = 1, .inputs = {readable(messages[i])}};
      if (rank == 1) {
        request = {.call = Collective::kReceive, .root = 0, .outputs = {writable(messages[i])}};
      }
      handles.push_back(peers.submit(std::move(request)));
    }
    for (const PeerHandle& handle : handles) EXPECT_EQ(text_of(handle.wait()), "ok");
    for (const Values& message : messages) EXPECT_EQ(message, Values(500, 0));
  });
}

TEST(Peers, a_number_that_was_reserved_keeps_its_place) {
  TestingPeers(3).run([&](std::size_t rank, Peers& peers) {
    Values first{static_cast<std::int64_t>(rank)};
    Values second{static_cast<std::int64_t>(10 * rank)};
    const std::uint64_t number = peers.reserve(1);
    const auto ask = [&](Values& tensor, std::optional<std::uint64_t> at) {
      return peers.submit(
          {.call = Collective::kBroadcast, .root = 2, .number = at, .outputs = {writable(tensor)}});
    };
    // Ranks submit the reserved call at different times.
    if (rank == 0) {
      EXPECT_EQ(text_of(ask(first, number).wait()), "ok");
    }
    const PeerHandle later = ask(second, std::nullopt);
    if (rank != 0) {
      EXPECT_EQ(text_of(ask(first, number).wait()), "ok");
    }
    EXPECT_EQ(text_of(later.wait()), "ok");
    EXPECT_EQ(first, Values{2});
    EXPECT_EQ(second, Values{20});
  });
}

TEST(Peers, the_captures_of_a_callback_are_released_when_its_call_has_ended) {
  TestingPeers(2).run([&](std::size_t rank, Peers& peers) {
    Values word(1);
    CollectiveRequest request{.call = rank == 0 ? Collective::kSend : Collective::kReceive,
                              .root = 1 - rank};
    if (rank == 0) request.inputs = {readable(word)};
    if (rank == 1) request.outputs = {writable(word)};
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> seen = held;
    request.on_done = [held](const Status&) {};
    const PeerHandle handle = peers.submit(std::move(request));
    held.reset();
    EXPECT_EQ(text_of(handle.wait()), "ok");
    // Even while the handle, which the callback may hold, still exists.
    EXPECT_TRUE(seen.expired());
  });
}

TEST(Peers, connections_are_made_when_they_are_needed) {
  TestingPeers(4).run([&](std::size_t rank, Peers& peers) {
    Values word{1};
    CollectiveRequest request{
        .call = Collective::kSend, .root = rank ^ 1, .inputs = {readable(word)}};
    if (rank % 2 == 1) {
      request = {.call = Collective::kReceive, .root = rank ^ 1, .outputs = {writable(word)}};
    }
    EXPECT_EQ(text_of(peers.submit(std::move(request)).wait()), "ok");
    for (const auto& [name, value] : peers.counters()) {
      if (name == "peer_connections") {
        EXPECT_EQ(value, 1);
      }
    }
  });
}

TEST(Peers, ranks_of_ipv6_find_each_other) {
  TestingPeers(3, "[::1]").run([&](std::size_t, Peers& peers) {
    EXPECT_EQ(text_of(peers.submit({.call = Collective::kBarrier}).wait()), "ok");
  });
}

TEST(Peers, sums_of_floats_are_added_in_the_order_of_ranks_whatever_their_size) {
  for (const std::size_t values : {std::size_t{3}, std::size_t{40'000}}) {
    TestingPeers(3).run([&](std::size_t rank, Peers& peers) {
      constexpr std::array<float, 3> kParts{1e8F, -1e8F, 3.0F};
      std::vector<float> tensor(values, kParts[rank]);
      EXPECT_EQ(text_of(peers
                            .submit({.call = Collective::kAllReduce,
                                     .kind = ElementKind::kFloat32,
                                     .reduction = ElementReduction::kSum,
                                     .outputs = {writable(tensor)}})
                            .wait()),
                "ok");
      EXPECT_EQ(tensor, std::vector<float>(values, 3.0F));
    });
  }
}

// They wait at the late rank, up to a limit, and the rest is announced to it.
TEST(Peers, large_blocks_of_several_calls_reach_a_rank_that_calls_late) {
  constexpr std::size_t kRanks = 3, kCalls = 8, kValues = 50'000;
  TestingPeers(kRanks).run([&](std::size_t rank, Peers& peers) {
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::vector<std::vector<Values>> in, out;
    std::vector<PeerHandle> calls;
    for (std::size_t call = 0; call < kCalls; ++call) {
      in.emplace_back(kRanks, Values(kValues, static_cast<std::int64_t>(10 * call + rank)));
      out.emplace_back(kRanks, Values(kValues));
    }
    for (std::size_t call = 0; call < kCalls; ++call) {
      CollectiveRequest request{.call = Collective::kAllToAll, .kind = ElementKind::kInt64};
      for (const Values& block : in[call]) request.inputs.push_back(readable(block));
      for (Values& block : out[call]) request.outputs.push_back(writable(block));
      calls.push_back(peers.submit(std::move(request)));
    }
    for (std::size_t call = 0; call < kCalls; ++call) {
      EXPECT_EQ(text_of(calls[call].wait()), "ok");
      for (std::size_t from = 0; from < kRanks; ++from) {
        EXPECT_EQ(out[call][from], Values(kValues, static_cast<std::int64_t>(10 * call + from)));
      }
    }
  });
}

}  // namespace
}  // namespace atp
