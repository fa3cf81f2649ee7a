#include "atp/collective/peer/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "atp/collective/testing/peers.h"

// The plans of all ranks together, carried out in one thread: in every step a random value or
// message makes a little progress. So a plan that reads what another step may have overwritten
// gives a wrong result. Counts what each rank sends to whom.

namespace atp {
namespace {

using testing::readable;
using testing::writable;
using Values = std::vector<std::int64_t>;

class Ranks {
 public:
  Ranks(std::vector<CollectiveRequest> requests, std::uint64_t seed)
      : requests_(std::move(requests)), random_(seed) {
    for (std::size_t rank = 0; rank < requests_.size(); ++rank) {
      plans_.push_back(make_plan(requests_[rank], rank, requests_.size(), spare_));
      filled_.emplace_back(plans_.back().values.size(), 0);
    }
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (std::uint32_t v = 0; v < plans_[rank].values.size(); ++v) add_steps_of(rank, v);
    }
    std::size_t sends = 0;
    for (const PeerPlan& plan : plans_) sends += plan.sends.size();
    EXPECT_EQ(sends, received_) << "somebody sends what nobody receives";
  }

  void run() {
    while (!steps_.empty()) {
      std::shuffle(steps_.begin(), steps_.end(), random_);
      bool moved = false;
      for (const Step& step : steps_) moved = step() || moved;
      ASSERT_TRUE(moved) << "every step waits for another";
      std::erase_if(steps_, [](const Step& step) { return step.done(); });
    }
  }
  // Bytes by sender and receiver.
  const std::map<std::pair<std::size_t, std::size_t>, std::size_t>& sent() const { return sent_; }

 private:
  struct Step {
    std::function<bool()> move;
    std::function<bool()> done;
    bool operator()() const { return move(); }
  };

  std::size_t some_of(std::size_t bytes) {
    const std::size_t elements = bytes / sizeof(std::int64_t);
    return std::min(elements, 1 + random_() % (elements / 3 + 1)) * sizeof(std::int64_t);
  }

  void add_steps_of(std::size_t rank, std::uint32_t v) {
    const PlannedValue& value = plans_[rank].values[v];
    std::size_t& filled = filled_[rank][v];
    switch (value.origin) {
      case PlannedValue::Origin::kGiven: filled = value.bytes; return;
      case PlannedValue::Origin::kReceived: return add_message(rank, v, filled);
      case PlannedValue::Origin::kCombined: return add_combination(rank, value, filled);
    }
  }
  // How much of a value has memory: a window is free as far as its user has come.
  std::size_t room(std::size_t rank, std::uint32_t v) const {
    const PlannedValue& value = plans_[rank].values[v];
    if (value.window == 0) return value.bytes;
    const auto& values = plans_[rank].values;
    const auto user = std::find_if(values.begin(), values.end(), [v](const PlannedValue& one) {
      return std::count(one.operands.begin(), one.operands.end(), v) > 0;
    });
    const std::size_t taken = filled_[rank][static_cast<std::size_t>(user - values.begin())];
    return std::min(value.bytes, taken + value.window);
  }
  // The place of a byte, and how many of `bytes` lie there side by side.
  static std::byte* place(const PlannedValue& value, std::size_t at, std::size_t& bytes) {
    if (value.window == 0) return value.memory + at;
    bytes = std::min(bytes, value.window - at % value.window);
    return value.memory + at % value.window;
  }
  void add_message(std::size_t to, std::uint32_t v, std::size_t& filled) {
    const PlannedValue& value = plans_[to].values[v];
    const PeerPlan& theirs = plans_[value.from];
    const auto send = std::find_if(
        theirs.sends.begin(), theirs.sends.end(),
        [&](const PlannedSend& one) { return one.to == to && one.part == value.part; });
    ASSERT_NE(send, theirs.sends.end()) << "rank " << to << " waits for rank " << value.from;
    const PlannedValue& source = theirs.values[send->value];
    ASSERT_EQ(source.bytes, value.bytes);
    ASSERT_EQ(send->is_eager, value.is_eager) << "the two ranks would count it differently";
    ++received_;
    sent_[{value.from, to}] += value.bytes;
    const std::size_t& there = filled_[value.from][send->value];
    steps_.push_back({[this, to, v, &value, &source, &filled, &there] {
                        std::size_t bytes = some_of(std::min(there, room(to, v)) - filled);
                        std::byte* at = place(value, filled, bytes);
                        std::memcpy(at, source.memory + filled, bytes);
                        filled += bytes;
                        return bytes > 0;
                      },
                      [&] { return filled == value.bytes; }});
  }
  void add_combination(std::size_t rank, const PlannedValue& value, std::size_t& filled) {
    const auto ready = [this, rank, &value] {
      std::size_t least = value.bytes;
      for (const auto operand : value.operands) least = std::min(least, filled_[rank][operand]);
      return least;
    };
    steps_.push_back({[this, rank, ready, &value, &filled] {
                        std::size_t bytes = some_of(ready() - filled);
                        std::vector<const std::byte*> operands;
                        operands.reserve(value.operands.size());
                        for (const auto operand : value.operands) {
                          operands.push_back(place(plans_[rank].values[operand], filled, bytes));
                        }
                        reduce_elements(requests_[rank].kind, value.reduction, operands,
                                        plans_.size(), value.memory + filled,
                                        bytes / sizeof(std::int64_t));
                        filled += bytes;
                        return bytes > 0;
                      },
                      [&] { return filled == value.bytes; }});
  }

  const std::vector<CollectiveRequest> requests_;
  std::mt19937_64 random_;
  SpareMemory spare_;
  std::vector<PeerPlan> plans_;
  std::vector<std::vector<std::size_t>> filled_;  // by rank and value
  std::vector<Step> steps_;
  std::size_t received_ = 0;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> sent_;
};

// Values by rank, of a tensor or of a block; for floats such whose sum depends on the order.
std::vector<Values> some_values(ElementKind kind, std::size_t ranks, std::size_t count) {
  std::vector<Values> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t value = i * 7919 + rank * 104'729;
      values[i] = kind == ElementKind::kInt64
                      ? static_cast<std::int64_t>(value)
                      : std::bit_cast<std::int64_t>(std::pow(7.0, rank) / double(value + 1));
    }
    all.push_back(std::move(values));
  }
  return all;
}

// In the order of ranks.
Values sum_of(ElementKind kind, const std::vector<Values>& all) {
  Values sum(all.front().size());
  std::vector<const std::byte*> operands;
  operands.reserve(all.size());
  for (const Values& values : all) operands.push_back(readable(values).data());
  reduce_elements(kind, ElementReduction::kSum, operands, all.size(), writable(sum).data(),
                  sum.size());
  return sum;
}

bool is_ring(const Ranks& ranks, std::size_t count) {
  return std::all_of(ranks.sent().begin(), ranks.sent().end(), [&](const auto& each) {
    return each.first.second == (each.first.first + 1) % count;
  });
}
std::size_t most_sent(const Ranks& ranks, std::size_t count) {
  std::vector<std::size_t> by_rank(count, 0);
  for (const auto& [path, bytes] : ranks.sent()) by_rank[path.first] += bytes;
  return *std::max_element(by_rank.begin(), by_rank.end());
}

constexpr std::size_t kLarge = 64 * 1024 / sizeof(std::int64_t) + 1;  // of a block, in values

struct Case {
  const char* what;
  std::size_t ranks;
  std::size_t block;  // values
  ElementKind kind = ElementKind::kInt64;
  bool is_ring = false;
};
const std::vector<Case> kCases = {
    {"two ranks have one link", 2, kLarge, ElementKind::kInt64, false},
    {"small blocks go to all", 3, 100, ElementKind::kInt64, false},
    {"blocks below the limit go to all", 4, kLarge - 2, ElementKind::kInt64, false},
    {"large blocks go around", 3, kLarge, ElementKind::kInt64, true},
    {"they do among more ranks", 5, kLarge, ElementKind::kInt64, true},
    {"they do among eight ranks", 8, kLarge, ElementKind::kInt64, true},
    {"floats are added in the order of ranks", 4, kLarge, ElementKind::kFloat64, false},
};

class Plan : public ::testing::TestWithParam<std::tuple<Case, std::uint64_t>> {
 protected:
  const Case& of() const { return std::get<0>(GetParam()); }
  std::uint64_t seed() const { return std::get<1>(GetParam()); }
};

TEST_P(Plan, an_all_reduce_gives_the_sum_to_all) {
  const std::size_t n = of().ranks;
  std::vector<Values> tensors = some_values(of().kind, n, n * of().block + 1);
  const Values expected = sum_of(of().kind, tensors);
  std::vector<CollectiveRequest> requests;
  requests.reserve(n);
  for (Values& tensor : tensors) {
    requests.push_back({.call = Collective::kAllReduce,
                        .kind = of().kind,
                        .reduction = ElementReduction::kSum,
                        .outputs = {writable(tensor)}});
  }
  Ranks ranks(std::move(requests), seed());
  ranks.run();
  for (const Values& tensor : tensors) EXPECT_EQ(tensor, expected) << of().what;
  EXPECT_EQ(is_ring(ranks, n) && n > 2, of().is_ring) << of().what;
  if (of().is_ring) {
    EXPECT_LE(most_sent(ranks, n), 2 * (n - 1) * (of().block + 1) * sizeof(std::int64_t));
  }
}

TEST_P(Plan, a_reduce_scatter_gives_each_its_sum_and_changes_no_input) {
  const std::size_t n = of().ranks;
  const std::vector<Values> tensors = some_values(of().kind, n, n * of().block);
  const Values expected = sum_of(of().kind, tensors);
  std::vector<Values> sums(n, Values(of().block));
  std::vector<CollectiveRequest> requests;
  for (std::size_t rank = 0; rank < n; ++rank) {
    CollectiveRequest request{.call = Collective::kReduceScatter,
                              .kind = of().kind,
                              .reduction = ElementReduction::kSum,
                              .outputs = {writable(sums[rank])}};
    for (std::size_t b = 0; b < n; ++b) {
      request.inputs.push_back(
          readable(tensors[rank])
              .subspan(sizeof(std::int64_t) * of().block * b, sizeof(std::int64_t) * of().block));
    }
    requests.push_back(std::move(request));
  }
  Ranks ranks(std::move(requests), seed());
  ranks.run();
  for (std::size_t rank = 0; rank < n; ++rank) {
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(of().block * rank);
    EXPECT_EQ(sums[rank], Values(begin, begin + static_cast<std::ptrdiff_t>(of().block)))
        << of().what;
  }
  EXPECT_EQ(tensors, some_values(of().kind, n, n * of().block)) << of().what;
  EXPECT_EQ(is_ring(ranks, n) && n > 2, of().is_ring) << of().what;
}

// It adds nothing, so floats go around as well.
TEST_P(Plan, an_all_gather_gives_all_blocks_to_all) {
  const std::size_t n = of().ranks;
  const std::vector<Values> blocks = some_values(of().kind, n, of().block);
  std::vector<std::vector<Values>> gathered(n, std::vector<Values>(n, Values(of().block)));
  std::vector<CollectiveRequest> requests;
  for (std::size_t rank = 0; rank < n; ++rank) {
    CollectiveRequest request{
        .call = Collective::kAllGather, .kind = of().kind, .inputs = {readable(blocks[rank])}};
    for (Values& block : gathered[rank]) request.outputs.push_back(writable(block));
    requests.push_back(std::move(request));
  }
  Ranks ranks(std::move(requests), seed());
  ranks.run();
  for (const auto& all : gathered) EXPECT_EQ(all, blocks) << of().what;
  EXPECT_EQ(is_ring(ranks, n) && n > 2, of().block >= kLarge && n > 2) << of().what;
}

INSTANTIATE_TEST_SUITE_P(OfRanks, Plan,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Range<std::uint64_t>(0, 3)),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param).what;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name + "_" + std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace atp
