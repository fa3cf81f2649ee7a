// Builds the plan of each collective, and chooses between algorithms by size and number of ranks.
#include "atp/collective/peer/plan.h"

#include <algorithm>
#include <cstring>

#include "atp/base/check.h"
#include "atp/collective/peer/frame.h"
#include "atp/collective/peer/number_stages.h"
#include "atp/collective/peer/plan_builder.h"

namespace atp {
namespace {

// From this size on a chain is used: a tree's root sends its tensor log N times, a chain's root
// once, but the last rank of a chain waits for all others.
constexpr std::size_t kChainFrom = 128 << 10;
constexpr std::size_t kChainPerRank = 16 << 10;
// A ring takes as many steps as there are ranks, so its blocks must be worth them.
constexpr std::size_t kRingBlock = kSentAtOnceBytes;
constexpr std::size_t kGatheredSum = 8 << 10;

class Planner : private PlanBuilder {
 public:
  Planner(const CollectiveRequest& request, std::size_t rank, std::size_t ranks, SpareMemory& spare)
      : PlanBuilder(rank, ranks, spare), request_(request), rank_(rank), ranks_(ranks) {}

  PeerPlan plan() {
    switch (request_.call) {
      case Collective::kBroadcast: broadcast(); break;
      case Collective::kReduce: reduce(); break;
      case Collective::kGather: gather(); break;
      case Collective::kScatter: scatter(); break;
      case Collective::kAllGather: all_gather(); break;
      case Collective::kReduceScatter: reduce_scatter(); break;
      case Collective::kAllToAll: all_to_all(); break;
      case Collective::kAllReduce: all_reduce(); break;
      case Collective::kBarrier: barrier(); break;
      case Collective::kMonitoredBarrier: monitored_barrier(); break;
      case Collective::kSend: send(request_.root, 0, given(request_.inputs.front())); break;
      case Collective::kReceive: receive(request_.root, 0, request_.outputs.front()); break;
    }
    return take();
  }

 private:
  Ref combine(std::vector<Ref> operands, Bytes to) {
    return PlanBuilder::combine(request_.reduction, std::move(operands), to);
  }
  // Copies this rank's own block, which needs no message.
  static void copy_own(ConstBytes from, Bytes to) {
    if (!from.empty() && from.data() != to.data())
      std::memmove(to.data(), from.data(), from.size());
  }

  // Trees: ranks are numbered from the root on.
  std::size_t from_root() const { return (rank_ + ranks_ - request_.root) % ranks_; }
  std::size_t real(std::size_t virtual_rank) const {
    return (virtual_rank + request_.root) % ranks_;
  }
  bool is_chain(std::size_t bytes) const {
    return bytes >= std::max(kChainFrom, kChainPerRank * ranks_);
  }
  std::size_t parent(std::size_t bytes) const {
    const std::size_t own = from_root();
    return real(is_chain(bytes) ? own - 1 : own & (own - 1));
  }
  // This rank's children, those with the fewest descendants first.
  std::vector<std::size_t> children(std::size_t bytes) const {
    const std::size_t own = from_root();
    std::vector<std::size_t> found;
    if (is_chain(bytes)) {
      if (own + 1 < ranks_) found.push_back(real(own + 1));
      return found;
    }
    for (std::size_t step = 1; (own & step) == 0 && own + step < ranks_; step <<= 1) {
      found.push_back(real(own + step));
    }
    return found;
  }

  void broadcast() {
    const Bytes tensor = request_.outputs.front();
    const Ref value = from_root() == 0 ? given(tensor) : receive(parent(tensor.size()), 0, tensor);
    std::vector<std::size_t> to = children(tensor.size());
    std::reverse(to.begin(), to.end());
    for (const std::size_t child : to) send(child, 0, value);
  }

  void reduce() {
    const ConstBytes own = request_.inputs.front();
    const bool is_root = from_root() == 0;
    std::vector<Ref> operands{given(own)};
    for (const std::size_t child : children(own.size())) {
      operands.push_back(receive(child, 0, scratch(own.size())));
    }
    Ref sum = operands.front();
    if (is_root) {
      sum = combine(std::move(operands), request_.outputs.front());
    } else if (operands.size() > 1) {
      // The root divides.
      const bool averages = request_.reduction == ElementReduction::kAverage;
      sum = PlanBuilder::combine(averages ? ElementReduction::kSum : request_.reduction,
                                 std::move(operands), scratch(own.size()));
    }
    if (!is_root) send(parent(own.size()), 0, sum);
  }

  void gather() {
    const ConstBytes own = request_.inputs.front();
    if (rank_ != request_.root) return send(request_.root, 0, given(own));
    copy_own(own, request_.outputs[rank_]);
    for_others([&](std::size_t other) { receive(other, 0, request_.outputs[other]); });
  }

  void scatter() {
    const Bytes own = request_.outputs.front();
    if (rank_ != request_.root) {
      receive(request_.root, 0, own);
      return;
    }
    copy_own(request_.inputs[rank_], own);
    for_others([&](std::size_t other) { send(other, 0, given(request_.inputs[other])); });
  }

  void all_gather() {
    const ConstBytes own = request_.inputs.front();
    copy_own(own, request_.outputs[rank_]);
    const Ref value = given(own);
    if (ranks_ > kDirectRanks || fills_a_ring(bytes_of(request_.outputs))) {
      return pass_around(value, 0, [&](std::size_t b) { return request_.outputs[b]; });
    }
    for_others([&](std::size_t other) {
      send_given(other, value);
      receive_given(other, request_.outputs[other]);
    });
  }

  bool fills_a_ring(std::size_t bytes) const { return ranks_ > 2 && bytes / ranks_ > kRingBlock; }
  bool adds_around(std::size_t bytes) const {
    if (request_.around_ring && ranks_ > 1) return true;
    return fills_a_ring(bytes) && is_any_order(request_.kind, request_.reduction);
  }
  template <class Block>
  static std::size_t bytes_of(const std::vector<Block>& blocks) {
    std::size_t sum = 0;
    for (const auto& block : blocks) sum += block.size();
    return sum;
  }

  // Adds this rank's blocks to the sums that pass by; those that go on are in `sums`, and an empty
  // one may be anywhere.
  Ref add_blocks_around(const std::vector<ConstBytes>& blocks, const std::vector<Bytes>& sums) {
    return add_around(
        given(blocks[before()]), [&](std::size_t b) { return blocks[b].size(); },
        [&](std::size_t b, Ref incoming) {
          const Bytes to = sums[b].empty() ? scratch(blocks[b].size()) : sums[b];
          // The last one divides.
          const bool averages = request_.reduction == ElementReduction::kAverage && b != rank_;
          return PlanBuilder::combine(averages ? ElementReduction::kSum : request_.reduction,
                                      {incoming, given(blocks[b])}, to);
        });
  }

  void all_to_all() {
    copy_own(request_.inputs[rank_], request_.outputs[rank_]);
    for_others([&](std::size_t other) {
      send_given(other, given(request_.inputs[other]));
      receive_given(other, request_.outputs[other]);
    });
  }

  // Combines all ranks' values of this rank's block, in the order of ranks.
  Ref combine_block(ConstBytes own, Bytes result) {
    std::vector<Ref> operands;
    operands.reserve(ranks_);
    for (std::size_t r = 0; r < ranks_; ++r) {
      operands.push_back(r == rank_ ? given(own) : receive_given(r, scratch(own.size())));
    }
    return combine(std::move(operands), result);
  }

  void reduce_scatter() {
    if (adds_around(bytes_of(request_.inputs))) {
      std::vector<Bytes> sums(ranks_);
      sums[rank_] = request_.outputs.front();
      add_blocks_around(request_.inputs, sums);
      return;
    }
    for_others([&](std::size_t other) { send_given(other, given(request_.inputs[other])); });
    combine_block(request_.inputs[rank_], request_.outputs.front());
  }

  Bytes block(Bytes tensor, std::size_t b) const {
    const std::size_t element = atp::bytes_of(request_.kind);
    const std::size_t count = tensor.size() / element;
    const auto begin = [&](std::size_t of) {
      return (count / ranks_ * of + std::min(of, count % ranks_)) * element;
    };
    return tensor.subspan(begin(b), begin(b + 1) - begin(b));
  }

  void all_reduce() {
    const Bytes tensor = request_.outputs.front();
    const bool is_small = tensor.size() <= kGatheredSum && ranks_ <= kDirectRanks;
    if (is_small && !request_.around_ring) {
      // Send from a copy: the result may overwrite the tensor before the last rank has taken it.
      const Bytes copy = scratch(tensor.size());
      copy_own(tensor, copy);
      combine_block(copy, tensor);
      const Ref own = given(copy);
      for_others([&](std::size_t other) { send_given(other, own); });
      return;
    }
    if (adds_around(tensor.size())) {
      // In place: a value arrives in a block only after what this rank sent of it has gone around.
      std::vector<Bytes> blocks(ranks_);
      for (std::size_t b = 0; b < ranks_; ++b) blocks[b] = block(tensor, b);
      const Ref sum = add_blocks_around({blocks.begin(), blocks.end()}, blocks);
      return pass_around(sum, static_cast<std::uint32_t>(ranks_),
                         [&](std::size_t b) { return blocks[b]; });
    }
    // In place: a rank sends its sum only after it has received everything that went into it.
    for_others([&](std::size_t other) { send_given(other, given(block(tensor, other))); });
    const Bytes own = block(tensor, rank_);
    const Ref sum = combine_block(own, own);
    for_others([&](std::size_t other) {
      send(other, 1, sum);
      receive(other, 1, block(tensor, other));
    });
  }

  void barrier() {
    Ref heard = given({});
    std::uint32_t part = 0;
    for (std::size_t step = 1; step < ranks_; step <<= 1, ++part) {
      send((rank_ + step) % ranks_, part, heard);
      heard = combine({heard, receive((rank_ + ranks_ - step) % ranks_, part, {})}, {});
    }
  }

  // Rank 0 waits for a message from every rank, and then releases them.
  void monitored_barrier() {
    if (rank_ != 0) {
      send(0, 0, given({}));
      receive(0, 1, {});
      return;
    }
    std::vector<Ref> heard{given({})};
    for_others([&](std::size_t other) { heard.push_back(receive(other, 0, {})); });
    const Ref all = combine(std::move(heard), {});
    for_others([&](std::size_t other) { send(other, 1, all); });
  }

  const CollectiveRequest& request_;
  const std::size_t rank_;
  const std::size_t ranks_;
};

}  // namespace

PeerPlan make_plan(const CollectiveRequest& request, std::size_t rank, std::size_t ranks,
                   SpareMemory& spare) {
  return Planner(request, rank, ranks, spare).plan();
}

std::unique_ptr<PlanStages> make_stages(const CollectiveRequest& request, std::size_t rank,
                                        std::size_t ranks, SpareMemory& spare) {
  if (!request.format || ranks == 1 || request.outputs.front().empty()) return nullptr;
  return std::make_unique<NumberStages>(request, rank, ranks, spare);
}

}  // namespace atp
