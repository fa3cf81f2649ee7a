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
  // (block_of()).
  Call(Collective collective, std::vector<std::size_t> lengths, std::size_t ranks, std::size_t rank,
       Rank root = 0)
      : rank_(rank), ranks_(ranks), lengths_(std::move(lengths)) {
    request_.call = collective;
    if (adds(collective)) {
      request_.kind = ElementKind::kFloat32;
      request_.reduction = ElementReduction::kSum;
    }
    request_.root = root;
    request_.timeout_is_total = false;
    const std::size_t all = std::accumulate(lengths_.begin(), lengths_.end(), std::size_t{0});
    if (collective == Collective::kAllGather) {
      gather();
    } else if (collective == Collective::kReduceScatter) {
      input_ = floats_of_rank(rank, all);
      Bytes left(input_);
      for (const std::size_t length : lengths_) {
        request_.inputs.emplace_back(left.first(4 * length));
        left = left.subspan(4 * length);
      }
      outputs_.emplace_back(4 * lengths_[rank]);
    } else if (exchanges(collective)) {
      exchange();
    } else if (collective == Collective::kReduce) {
      input_ = floats_of_rank(rank, all);
      request_.inputs = {input_};
      if (rank == root) outputs_.emplace_back(4 * all);
    } else {
      outputs_.push_back(bytes_of_rank(rank, all));
    }
    for (auto& output : outputs_) request_.outputs.emplace_back(output);
    layout_ = BlockLayout(adds(collective) ? all : longest_block(request_));
  }

  HostOperation operation(std::uint64_t number) {
    return {.number = number, .request = &request_, .layout = &layout_};
  }

  bool is_right() const {
    if (request_.call == Collective::kBroadcast) {
      return outputs_[0] == bytes_of_rank(request_.root, lengths_[0]);
    }
    if (request_.call == Collective::kReduceScatter) return is_right_sum();
    if (request_.call == Collective::kReduce) return is_right_reduce();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::size_t rank = outputs_.size() == ranks_ ? i : request_.root;
      const bool gathers = request_.call == Collective::kAllGather;
      if (outputs_[i] != (gathers ? bytes_of_rank(rank, lengths_[rank]) : block_of(rank, rank_))) {
        return false;
      }
    }
    return true;
  }

  // Makes this rank expect another length from `from`.
  void expect_other_length(std::size_t from) {
    Bytes& block = request_.outputs[request_.outputs.size() == ranks_ ? from : 0];
    block = block.first(1);
  }

 private:
  static std::vector<std::byte> floats_of_rank(std::size_t rank, std::size_t count) {
    std::vector<std::byte> bytes(4 * count);
    for (std::size_t i = 0; i < count; ++i) {
      reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(rank + i % 1000);
    }
    return bytes;
  }
  void gather() {
    input_ = bytes_of_rank(rank_, lengths_[rank_]);
    request_.inputs = {input_};
    for (const std::size_t length : lengths_) outputs_.emplace_back(length);
  }
  std::vector<std::byte> block_of(std::size_t from, std::size_t to) const {
    return bytes_of_rank(17 * from + to, lengths_[(from + to) % ranks_]);
  }
  void exchange() {
    const bool is_root = rank_ == request_.root;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const bool is_of_root = rank == request_.root;
      const bool gathers = request_.call == Collective::kGather;
      const bool is_between_all = request_.call == Collective::kAllToAll;
      const bool sends = is_between_all || (gathers ? is_of_root : is_root);
      const bool gets = is_between_all || (gathers ? is_root : is_of_root);
      if (sends) blocks_.push_back(block_of(rank_, rank));
      if (gets) outputs_.emplace_back(block_of(rank, rank_).size());
    }
    for (const auto& block : blocks_) request_.inputs.emplace_back(block);
  }
  // The input stays as it is.
  bool is_right_reduce() const {
    if (input_ != floats_of_rank(rank_, input_.size() / 4)) return false;
    if (rank_ != request_.root) return true;
    const auto* sums = reinterpret_cast<const float*>(outputs_[0].data());
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
    const auto own = lengths_.begin() + static_cast<std::ptrdiff_t>(rank_);
    const std::size_t begin = std::accumulate(lengths_.begin(), own, std::size_t{0});
    const auto* sums = reinterpret_cast<const float*>(outputs_.front().data());
    for (std::size_t i = 0; i < *own; ++i) {
      const std::size_t of_ranks = ranks_ * (ranks_ - 1) / 2 + ranks_ * ((begin + i) % 1000);
      if (sums[i] != static_cast<float>(of_ranks)) return false;
    }
    return true;
  }

  std::size_t rank_;
  std::size_t ranks_;
  std::vector<std::size_t> lengths_;
  CollectiveRequest request_;
  BlockLayout layout_;
  std::vector<std::byte> input_;
  std::vector<std::vector<std::byte>> outputs_;
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
      calls.emplace_back(Collective::kAllGather, lengths, ranks, rank);
      calls.emplace_back(Collective::kReduceScatter, lengths, ranks, rank);
    }
    for (const auto collective : {Collective::kBroadcast, Collective::kReduce}) {
      calls.emplace_back(collective, std::vector{std::size_t{length}}, ranks, rank,
                         static_cast<Rank>(length % ranks));
    }
    for (const auto collective :
         {Collective::kGather, Collective::kScatter, Collective::kAllToAll}) {
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
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kBroadcast,
        Collective::kReduce, Collective::kGather, Collective::kScatter, Collective::kAllToAll}) {
    for (std::size_t rounds = 0; rounds < 8; ++rounds) {
      Host host(3);
      const bool has_one =
          collective == Collective::kBroadcast || collective == Collective::kReduce;
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
          << to_string(collective);
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
       {Collective::kAllGather, {8, 8}, 2, 0},
       {Collective::kAllGather, {4, 8}, 2, 1}},
      {"the shares",
       {Collective::kReduceScatter, {300, 300}, 2, 0},
       {Collective::kReduceScatter, {200, 400}, 2, 1}},
      {"the root", {Collective::kBroadcast, {8}, 2, 0, 0}, {Collective::kBroadcast, {8}, 2, 1, 1}},
      {"the root of a reduce",
       {Collective::kReduce, {8}, 2, 0, 0},
       {Collective::kReduce, {8}, 2, 1, 1}},
      {"the root of a gather",
       {Collective::kGather, {8, 8}, 2, 0, 0},
       {Collective::kGather, {8, 8}, 2, 1, 1}},
      {"an all-to-all and a scatter",
       {Collective::kAllToAll, {8, 8}, 2, 0},
       {Collective::kScatter, {8, 8}, 2, 1}},
      {"the collective",
       {Collective::kBroadcast, {8}, 2, 0, 0},
       {Collective::kAllGather, {8, 8}, 2, 1}},
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
      calls.emplace_back(Collective::kBroadcast, std::vector<std::size_t>{8}, 4, rank,
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
  for (const auto collective : {Collective::kGather, Collective::kScatter, Collective::kAllToAll}) {
    Host host(2);
    // Rank 0 receives from rank 1, except in a scatter, whose root is rank 1.
    const Rank root = collective == Collective::kScatter ? 1 : 0;
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
  std::vector<CollectiveRequest> requests(kRanks);
  const BlockLayout layout(kBytes);
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    std::byte* own = memory[rank].data() + rank * kBytes;
    std::fill(own, own + kBytes, static_cast<std::byte>(rank + 1));
    requests[rank].call = Collective::kAllGather;
    requests[rank].inputs = {{own, kBytes}};
    for (std::size_t i = 0; i < kRanks; ++i) {
      requests[rank].outputs.emplace_back(memory[rank].data() + i * kBytes, kBytes);
    }
    host.engine(rank).submit({.request = &requests[rank], .layout = &layout}, steady_clock::now());
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
