#include "atp/collective/peer/number_stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <random>

#include "atp/collective/testing/peers.h"

// The stages of all ranks together, carried out in one thread: in every step one rank begins a
// stage, or a random value or message makes a little progress. A rank begins a stage while what it
// had before still goes out, so one that overwrites this gives a wrong sum.

namespace atp {
namespace {

using testing::writable;

struct Case {
  NumberFormat format;
  std::size_t values;
  std::vector<std::size_t> segments;
  bool has_special = false;
};
const Case kCases[] = {
    {NumberFormat::kBlocks, 100, {}},  // gathered exactly
    {NumberFormat::kBlocks, 9001, {}},
    {NumberFormat::kBlocks, 9001, {}, true},
    {NumberFormat::kBlocks, 40'000, {7, 0, 30'000, 9993}, true},
    {NumberFormat::kBlocksInt16, 9001, {}},
    {NumberFormat::kBlocksInt16, 40'000, {7, 0, 30'000, 9993}},
    {NumberFormat::kExact, 5000, {}},
    {NumberFormat::kExact, 150'000, {}},  // several stages
};

// Exact in every format.
float value(std::size_t rank, std::size_t i, const Case& of) {
  if (of.has_special && rank == 1 && i % 3000 == 5) return std::numeric_limits<float>::infinity();
  return static_cast<float>((i * 7 + rank * 3) % 16);
}

class Rank {
 public:
  Rank(std::size_t rank, std::size_t ranks, const Case& of, SpareMemory& spare) {
    for (std::size_t i = 0; i < of.values; ++i) tensor_.push_back(value(rank, i, of));
    request_ = {.call = Collective::kAllReduce,
                .kind = ElementKind::kFloat32,
                .reduction = ElementReduction::kSum,
                .format = of.format,
                .segments = of.segments,
                .outputs = {writable(tensor_)}};
    stages_ = make_stages(request_, rank, ranks, spare);
    begin_stage();
  }

  std::deque<PlannedValue> values;
  std::deque<std::size_t> filled;
  std::vector<PlannedSend> sends;
  bool has_all_stages = false;

  bool is_complete() const {
    for (std::size_t v = 0; v < values.size(); ++v) {
      if (filled[v] < values[v].bytes) return false;
    }
    return true;
  }
  void begin_stage() {
    std::optional<PeerPlan> plan = stages_->next();
    has_all_stages = !plan;
    if (!plan) return;
    const auto first = static_cast<std::uint32_t>(values.size());
    for (PlannedValue& each : plan->values) {
      for (std::uint32_t& operand : each.operands) operand += first;
      const bool is_given = each.origin == PlannedValue::Origin::kGiven;
      filled.push_back(is_given ? each.bytes : 0);
      values.push_back(each);
    }
    for (PlannedSend send : plan->sends) {
      send.value += first;
      sends.push_back(send);
    }
    for (Scratch& each : plan->scratch) scratch_.push_back(std::move(each));
  }
  // How far a value has come for what uses it: a window is free up to there.
  std::size_t room(std::uint32_t v) const {
    if (values[v].window == 0) return values[v].bytes;
    for (std::uint32_t user = v + 1; user < values.size(); ++user) {
      if (values[user].operands == std::vector{v}) {
        return std::min(values[v].bytes, filled[user] + values[v].window);
      }
    }
    return 0;
  }
  const std::vector<float>& tensor() const { return tensor_; }
  // It is the caller's again.
  void take_back() { std::fill(tensor_.begin(), tensor_.end(), -1.0F); }

 private:
  std::vector<float> tensor_;
  CollectiveRequest request_;
  std::vector<Scratch> scratch_;
  std::unique_ptr<PlanStages> stages_;
};

std::byte* place(const PlannedValue& of, std::size_t at, std::size_t& bytes) {
  if (of.window == 0) return of.memory + at;
  bytes = std::min(bytes, of.window - at % of.window);
  return of.memory + at % of.window;
}

class World {
 public:
  World(std::size_t ranks, const Case& of, std::uint64_t seed) : of_(of), random_(seed) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(rank, ranks, of, spare_));
    }
  }

  void run() {
    std::vector<bool> ended(ranks_.size(), false);
    for (std::size_t left = ranks_.size(); left > 0;) {
      bool moved = false;
      std::vector<std::size_t> order(ranks_.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random_);
      for (const std::size_t rank : order) {
        if (ended[rank] || random_() % 3 == 0) continue;
        moved = step(rank) || moved;
        if (!ranks_[rank]->has_all_stages || !is_sent(rank)) continue;
        check(rank);
        ranks_[rank]->take_back();
        ended[rank] = true;
        --left;
      }
      still_ = moved ? 0 : still_ + 1;
      ASSERT_LT(still_, 100) << "every rank waits for another";
    }
  }

 private:
  bool step(std::size_t rank) {
    Rank& own = *ranks_[rank];
    if (!own.has_all_stages && own.is_complete() && random_() % 2 == 0) {
      own.begin_stage();
      return true;
    }
    bool moved = false;
    for (std::uint32_t v = 0; v < own.values.size(); ++v) {
      if (own.filled[v] == own.values[v].bytes || random_() % 2 == 0) continue;
      const bool comes_in = own.values[v].origin == PlannedValue::Origin::kReceived;
      moved = (comes_in ? receive(rank, v) : combine(own, v)) || moved;
    }
    return moved;
  }
  std::size_t some_of(std::size_t bytes) {
    const std::size_t words = bytes / 4;
    return words == 0 ? bytes : 4 * std::min(words, 1 + random_() % (words / 2 + 1));
  }
  bool receive(std::size_t rank, std::uint32_t v) {
    Rank& own = *ranks_[rank];
    const PlannedValue& to = own.values[v];
    const Rank& other = *ranks_[to.from];
    const auto send =
        std::find_if(other.sends.begin(), other.sends.end(),
                     [&](const PlannedSend& one) { return one.to == rank && one.part == to.part; });
    if (send == other.sends.end()) return false;
    const PlannedValue& source = other.values[send->value];
    EXPECT_EQ(source.bytes, to.bytes);
    std::size_t bytes = some_of(std::min(other.filled[send->value], own.room(v)) - own.filled[v]);
    std::byte* at = place(to, own.filled[v], bytes);
    if (bytes > 0) std::memcpy(at, source.memory + own.filled[v], bytes);
    own.filled[v] += bytes;
    return bytes > 0;
  }
  bool combine(Rank& own, std::uint32_t v) {
    const PlannedValue& to = own.values[v];
    const std::uint32_t operand = to.operands.front();
    std::size_t bytes = some_of(own.filled[operand] - own.filled[v]);
    const std::byte* at = place(own.values[operand], own.filled[v], bytes);
    if (bytes > 0) to.take(own.filled[v], {at, bytes});
    own.filled[v] += bytes;
    return bytes > 0;
  }
  // Whether the others have received everything.
  bool is_sent(std::size_t rank) const {
    const auto& sends = ranks_[rank]->sends;
    return std::all_of(sends.begin(), sends.end(), [&](const PlannedSend& send) {
      const Rank& to = *ranks_[send.to];
      for (std::size_t v = 0; v < to.values.size(); ++v) {
        const PlannedValue& value = to.values[v];
        if (value.origin == PlannedValue::Origin::kReceived && value.from == rank &&
            value.part == send.part) {
          return to.filled[v] == value.bytes;
        }
      }
      return false;
    });
  }
  void check(std::size_t rank) const {
    for (std::size_t i = 0; i < of_.values; ++i) {
      float sum = 0;
      for (std::size_t r = 0; r < ranks_.size(); ++r) sum += value(r, i, of_);
      ASSERT_EQ(ranks_[rank]->tensor()[i], sum) << "value " << i << " at rank " << rank;
    }
  }

  const Case& of_;
  std::mt19937_64 random_;
  SpareMemory spare_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  int still_ = 0;
};

TEST(NumberStages, give_the_sum_to_all_in_whatever_order_ranks_and_messages_progress) {
  for (const Case& of : kCases) {
    for (const std::size_t ranks : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 17U}) {
      if (ranks == 17 && of.values > 10'000) continue;
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(of.values) +
                   " values, format " + std::to_string(static_cast<int>(of.format)));
      World(ranks, of, 31 * ranks + of.values).run();
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace atp
