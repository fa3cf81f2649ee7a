#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "atp/base/random.h"
#include "atp/collective/shm/engine.h"

// All-gathers, reduce-scatters, exchanges of blocks and other collectives, carried out by engines
// that take steps in any order.

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::Each;
using ::testing::HasSubstr;

class Host {
 public:
  explicit Host(std::size_t ranks, milliseconds timeout = std::chrono::seconds(20))
      : segment_(Segment::create(ranks).value()) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      segment_.board_of(rank).process.store(static_cast<std::uint32_t>(100 + rank));
      engines_.push_back(std::make_unique<HostEngine>(
          HostPlace{segment_.alias(), Presence::of(segment_.descriptor(), rank).value()},
          HostEngineOptions{.rank = rank,
                            .operation_timeout = timeout,
                            .describe = [](const HostOperationHeader& header) {
                              return "operation " + std::to_string(header.number);
                            }}));
    }
  }
  std::size_t ranks() const { return engines_.size(); }
  HostEngine& engine(std::size_t rank) { return *engines_[rank]; }
  void kill(std::size_t rank) { engines_[rank].reset(); }

 private:
  Segment segment_;
  std::vector<std::unique_ptr<HostEngine>> engines_;
};

// A rank's request and its memory; every byte depends on the rank and its place.
class Call {
 public:
  // `lengths`: of the ranks' blocks or shares; a single one for a broadcast or a reduce. In an
  // exchange of blocks, these are the lengths of rank 0; other ranks have them rotated
  // (exchanged()).
  Call(HostCollective collective, std::vector<std::size_t> lengths, std::size_t ranks,
       std::size_t rank, Rank root = 0)
      : rank_(rank), ranks_(ranks) {
    request_.collective = collective;
    request_.root = root;
    const std::size_t all = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
    if (collective == HostCollective::kAllGather) {
      layout_ = BlockLayout(*std::max_element(lengths.begin(), lengths.end()));
      input_ = bytes_of_rank(rank, lengths[rank]);
      for (const std::size_t length : lengths) outputs_.emplace_back(length);
    } else if (collective == HostCollective::kReduceScatter) {
      layout_ = BlockLayout(all);
      input_ = floats_of_rank(rank, all);
      outputs_.emplace_back(4 * lengths[rank]);
    } else if (exchanges(collective)) {
      exchange(lengths);
    } else if (collective == HostCollective::kReduce) {
      layout_ = BlockLayout(all);
      input_ = floats_of_rank(rank, all);
    } else {
      layout_ = BlockLayout(all);
      input_ = bytes_of_rank(rank, all);
    }
    if (collective == HostCollective::kAllGather || collective == HostCollective::kReduceScatter) {
      request_.lengths = std::move(lengths);
    }
    for (auto& output : outputs_) request_.outputs.push_back(output.data());
  }

  HostOperation operation(std::uint64_t number) {
    return {.number = number, .request = &request_, .data = input_.data(), .layout = &layout_};
  }

  bool is_right() const {
    if (request_.collective == HostCollective::kBroadcast) {
      return input_ == bytes_of_rank(request_.root, input_.size());
    }
    if (request_.collective == HostCollective::kReduceScatter) return is_right_sum();
    if (request_.collective == HostCollective::kReduce) return is_right_reduce();
    if (exchanges(request_.collective)) return is_right_exchange();
    for (std::size_t rank = 0; rank < outputs_.size(); ++rank) {
      if (outputs_[rank] != bytes_of_rank(rank, request_.lengths[rank])) return false;
    }
    return true;
  }

  // Makes this rank expect another length from `from`.
  void expect_other_length(std::size_t from) {
    request_.blocks_from[from] = request_.blocks_from[from].first(1);
  }

 private:
  static std::vector<std::byte> floats_of_rank(std::size_t rank, std::size_t count) {
    std::vector<std::byte> bytes(4 * count);
    for (std::size_t i = 0; i < count; ++i) {
      reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(rank + i % 1000);
    }
    return bytes;
  }
  // Whether a block goes from one rank to the other, and its length.
  bool is_passed(std::size_t from, std::size_t to) const {
    if (request_.collective == HostCollective::kGather) return to == request_.root;
    if (request_.collective == HostCollective::kScatter) return from == request_.root;
    return true;
  }
  std::size_t exchanged(std::size_t from, std::size_t to) const {
    return is_passed(from, to) ? exchanged_[(from + to) % ranks_] : 0;
  }
  std::vector<std::byte> block_of(std::size_t from, std::size_t to) const {
    return bytes_of_rank(17 * from + to, exchanged(from, to));
  }
  void exchange(const std::vector<std::size_t>& lengths) {
    exchanged_ = lengths;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      blocks_.push_back(block_of(rank_, rank));
      outputs_.emplace_back(exchanged(rank, rank_));
    }
    for (const auto& block : blocks_) request_.blocks_to.emplace_back(block);
    for (auto& output : outputs_) request_.blocks_from.emplace_back(output);
    layout_ = BlockLayout(longest_block(request_));
  }
  bool is_right_exchange() const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (outputs_[rank] != block_of(rank, rank_)) return false;
    }
    return true;
  }
  // At ranks other than the root the input stays as it is.
  bool is_right_reduce() const {
    if (rank_ != request_.root) return input_ == floats_of_rank(rank_, input_.size() / 4);
    const auto* sums = reinterpret_cast<const float*>(input_.data());
    for (std::size_t i = 0; i < input_.size() / 4; ++i) {
      if (sums[i] != static_cast<float>(ranks_ * (ranks_ - 1) / 2 + ranks_ * (i % 1000))) {
        return false;
      }
    }
    return true;
  }
  static std::vector<std::byte> bytes_of_rank(std::size_t rank, std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(31 * rank + i % 251);
    return bytes;
  }
  bool is_right_sum() const {
    const auto own = request_.lengths.begin() + static_cast<std::ptrdiff_t>(rank_);
    const std::size_t begin = std::accumulate(request_.lengths.begin(), own, std::size_t{0});
    const auto* sums = reinterpret_cast<const float*>(outputs_.front().data());
    for (std::size_t i = 0; i < *own; ++i) {
      const std::size_t of_ranks = ranks_ * (ranks_ - 1) / 2 + ranks_ * ((begin + i) % 1000);
      if (sums[i] != static_cast<float>(of_ranks)) return false;
    }
    return true;
  }

  std::size_t rank_;
  std::size_t ranks_;
  HostRequest request_;
  BlockLayout layout_;
  std::vector<std::byte> input_;
  std::vector<std::vector<std::byte>> outputs_;
  std::vector<std::size_t> exchanged_;
  std::vector<std::vector<std::byte>> blocks_;  // to each rank
};

// Every kind, in one piece and in several, even and uneven, and empty ones, one after another.
std::vector<Call> calls_of(std::size_t ranks, std::size_t rank) {
  std::vector<Call> calls;
  for (const std::size_t length : {1U, 0U, 1000U, 70'000U, 300'001U}) {
    std::vector<std::size_t> even(ranks, length);
    std::vector<std::size_t> uneven(ranks, length);
    for (std::size_t i = 0; i < ranks; ++i) uneven[i] = i % 2 == 0 ? 0 : length + 7 * i;
    for (const auto& lengths : {even, uneven}) {
      calls.emplace_back(HostCollective::kAllGather, lengths, ranks, rank);
      calls.emplace_back(HostCollective::kReduceScatter, lengths, ranks, rank);
    }
    for (const auto collective : {HostCollective::kBroadcast, HostCollective::kReduce}) {
      calls.emplace_back(collective, std::vector{std::size_t{length}}, ranks, rank,
                         static_cast<Rank>(length % ranks));
    }
    for (const auto collective :
         {HostCollective::kGather, HostCollective::kScatter, HostCollective::kAllToAll}) {
      calls.emplace_back(collective, even, ranks, rank, static_cast<Rank>(length % ranks));
      calls.emplace_back(collective, uneven, ranks, rank, static_cast<Rank>(length % ranks));
    }
  }
  return calls;
}

class HostRequests : public ::testing::TestWithParam<std::size_t> {};

TEST_P(HostRequests, AreCarriedOutWhateverTheOrderOfSteps) {
  Random random(GetParam());
  Host host(GetParam());
  std::vector<std::vector<Call>> calls;
  for (std::size_t rank = 0; rank < host.ranks(); ++rank) {
    calls.push_back(calls_of(host.ranks(), rank));
  }
  std::vector<std::size_t> submitted(host.ranks());
  std::size_t ended = 0;
  while (ended < host.ranks() * calls[0].size()) {
    const std::size_t rank = random.below(host.ranks());
    std::size_t& next = submitted[rank];
    if (next < calls[rank].size() && random.below(2) == 0) {
      host.engine(rank).submit(calls[rank][next].operation(next), steady_clock::now());
      ++next;
    }
    host.engine(rank).work(steady_clock::now());
    ASSERT_EQ(host.engine(rank).failure().value_or(""), "");
    ended += host.engine(rank).take_completed();
  }
  for (const auto& of_rank : calls) {
    for (std::size_t i = 0; i < of_rank.size(); ++i) EXPECT_TRUE(of_rank[i].is_right()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, HostRequests, ::testing::Values(1U, 2U, 3U, 8U),
                         ::testing::PrintToStringParamName());

std::vector<std::string> failures_of(Host& host, const std::vector<std::size_t>& ranks) {
  const auto until = steady_clock::now() + std::chrono::seconds(20);
  const auto has_failed = [&](std::size_t rank) { return host.engine(rank).failure().has_value(); };
  while (!std::all_of(ranks.begin(), ranks.end(), has_failed) && steady_clock::now() < until) {
    for (const std::size_t rank : ranks) {
      host.engine(rank).work(steady_clock::now());
      host.engine(rank).wait();
    }
  }
  std::vector<std::string> failures;
  for (const std::size_t rank : ranks) {
    failures.push_back(host.engine(rank).failure().value_or("none"));
  }
  return failures;
}

// Rank 1 of 3 dies after this many rounds of work; if no operation in progress fails, the next one
// does.
TEST(HostRequest, ARankLostAfterAnyRoundOfWorkIsNamed) {
  for (const auto collective :
       {HostCollective::kAllGather, HostCollective::kReduceScatter, HostCollective::kBroadcast,
        HostCollective::kReduce, HostCollective::kGather, HostCollective::kScatter,
        HostCollective::kAllToAll}) {
    for (std::size_t rounds = 0; rounds < 8; ++rounds) {
      Host host(3);
      const bool has_one =
          collective == HostCollective::kBroadcast || collective == HostCollective::kReduce;
      const std::vector<std::size_t> lengths(has_one ? 1 : 3, 600'000);
      std::vector<Call> calls;
      for (std::size_t rank = 0; rank < 3; ++rank) calls.emplace_back(collective, lengths, 3, rank);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        host.engine(rank).submit(calls[rank].operation(0), steady_clock::now());
      }
      for (std::size_t round = 0; round < rounds; ++round) {
        for (const std::size_t rank : {0U, 2U, 1U}) host.engine(rank).work(steady_clock::now());
      }
      host.kill(1);
      for (const std::size_t rank : {0U, 2U}) {
        host.engine(rank).submit(calls[rank].operation(1), steady_clock::now());
      }
      EXPECT_THAT(failures_of(host, {0, 2}),
                  Each("rank 1 (process 101) is lost: its process has ended"))
          << name_of(collective);
    }
  }
}

// Two ranks that call these get an error before either reads a byte of the other.
TEST(HostRequest, ADifferenceBetweenRanksIsNamed) {
  struct Case {
    const char* what;
    Call mine;
    Call theirs;
  };
  Case cases[] = {
      {"the lengths of the blocks",
       {HostCollective::kAllGather, {8, 8}, 2, 0},
       {HostCollective::kAllGather, {4, 8}, 2, 1}},
      {"the shares",
       {HostCollective::kReduceScatter, {300, 300}, 2, 0},
       {HostCollective::kReduceScatter, {200, 400}, 2, 1}},
      {"the root",
       {HostCollective::kBroadcast, {8}, 2, 0, 0},
       {HostCollective::kBroadcast, {8}, 2, 1, 1}},
      {"the root of a reduce",
       {HostCollective::kReduce, {8}, 2, 0, 0},
       {HostCollective::kReduce, {8}, 2, 1, 1}},
      {"the root of a gather",
       {HostCollective::kGather, {8, 8}, 2, 0, 0},
       {HostCollective::kGather, {8, 8}, 2, 1, 1}},
      {"an all-to-all and a scatter",
       {HostCollective::kAllToAll, {8, 8}, 2, 0},
       {HostCollective::kScatter, {8, 8}, 2, 1}},
      {"the collective",
       {HostCollective::kBroadcast, {8}, 2, 0, 0},
       {HostCollective::kAllGather, {8, 8}, 2, 1}},
  };
  for (Case& c : cases) {
    Host host(2);
    host.engine(0).submit(c.mine.operation(0), steady_clock::now());
    host.engine(1).submit(c.theirs.operation(0), steady_clock::now());
    EXPECT_THAT(failures_of(host, {0, 1}), Each(HasSubstr("has called a different operation")))
        << c.what;
  }
}

TEST(HostRequest, TheRankThatCalledSomethingElseThanTheOthersIsNamedFirst) {
  for (const std::size_t odd : {0U, 1U, 3U}) {
    Host host(4);
    std::vector<Call> calls;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      calls.emplace_back(HostCollective::kBroadcast, std::vector<std::size_t>{8}, 4, rank,
                         rank == odd ? 1 : 0);
    }
    for (std::size_t rank = 0; rank < 4; ++rank) {
      host.engine(rank).submit(calls[rank].operation(0), steady_clock::now());
    }
    EXPECT_THAT(
        failures_of(host, {0, 1, 2, 3}),
        Each(HasSubstr("rank " + std::to_string(odd) + " has called a different operation")));
  }
}

TEST(HostRequest, ABlockOfAnotherLengthThanExpectedIsNamed) {
  for (const auto collective :
       {HostCollective::kGather, HostCollective::kScatter, HostCollective::kAllToAll}) {
    Host host(2);
    // Rank 0 receives from rank 1, except in a scatter, whose root is rank 1.
    const Rank root = collective == HostCollective::kScatter ? 1 : 0;
    Call mine(collective, {9, 9}, 2, 0, root);
    Call theirs(collective, {9, 9}, 2, 1, root);
    mine.expect_other_length(1);
    host.engine(0).submit(mine.operation(0), steady_clock::now());
    host.engine(1).submit(theirs.operation(0), steady_clock::now());
    for (int round = 0; round < 4; ++round) {
      for (const std::size_t rank : {1U, 0U}) host.engine(rank).work(steady_clock::now());
    }
    EXPECT_EQ(host.engine(0).failure().value_or("none"),
              "rank 1 sends 9 bytes to rank 0, which expects 1, in operation 0: the two sizes must "
              "be equal");
  }
}

TEST(HostRequest, MayPutItsResultWhereItsInputIs) {
  constexpr std::size_t kRanks = 3;
  constexpr std::size_t kBytes = 400'000;
  Host host(kRanks);
  std::vector<std::vector<std::byte>> memory(kRanks, std::vector<std::byte>(kRanks * kBytes));
  std::vector<HostRequest> requests(kRanks);
  const BlockLayout layout(kBytes);
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    std::byte* own = memory[rank].data() + rank * kBytes;
    std::fill(own, own + kBytes, static_cast<std::byte>(rank + 1));
    requests[rank] = {.collective = HostCollective::kAllGather,
                      .lengths = std::vector<std::size_t>(kRanks, kBytes)};
    for (std::size_t i = 0; i < kRanks; ++i) {
      requests[rank].outputs.push_back(memory[rank].data() + i * kBytes);
    }
    host.engine(rank).submit({.request = &requests[rank], .data = own, .layout = &layout},
                             steady_clock::now());
  }
  std::size_t ended = 0;
  while (ended < kRanks) {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      host.engine(rank).work(steady_clock::now());
      ended += host.engine(rank).take_completed();
    }
  }
  for (const auto& of_rank : memory) {
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      ASSERT_EQ(of_rank[i], static_cast<std::byte>(i / kBytes + 1)) << i;
    }
  }
}

}  // namespace
}  // namespace atp
