// Builds the plan of each stage, and the functions that combine integers in it.
#include "atp/collective/peer/number_stages.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "atp/wire/lanes.h"

namespace atp {
namespace {

constexpr DataType kType = DataType::kFloat32;
// How much is combined at a time: it fits the first-level cache.
constexpr std::size_t kPieceBytes = 4096;
using Piece = std::array<std::uint8_t, kPieceBytes>;

const std::uint8_t* wire(const std::byte* bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes);
}

std::size_t values_of(const CollectiveRequest& request) {
  return request.outputs.front().size() / sizeof(float);
}

BlockLayout layout_of(const CollectiveRequest& request) {
  return request.segments.empty() ? BlockLayout(values_of(request)) : BlockLayout(request.segments);
}

bool is_exact(const CollectiveRequest& request, std::size_t ranks) {
  return *request.format == NumberFormat::kExact ||
         values_of(request) <= small_operation_values(ranks);
}

// to = incoming ∘ own, lane by lane.
void combine(std::uint8_t kind, const std::uint8_t* incoming, const std::uint8_t* own,
             std::uint8_t* to, std::size_t bytes) {
  Piece sum;
  for (std::size_t at = 0; at < bytes; at += sum.size()) {
    const std::size_t length = std::min(sum.size(), bytes - at);
    store_lanes(kind, sum.data(), own + at, length);
    combine_and_load_lanes(kind, sum.data(), incoming + at, to + at, length);
  }
}

}  // namespace

NumberStages::Places::Places(const CollectiveRequest& request, std::size_t ranks) {
  const std::size_t values = values_of(request);
  const bool has_exponents = !is_exact(request, ranks);
  if (has_exponents) {
    exponents = (sizeof(std::int16_t) * layout_of(request).blocks() + 7) / 8 * 8;
    rest = 2 * exponents;
  }
  const bool is_narrow = has_exponents && *request.format == NumberFormat::kBlocksInt16;
  end = rest +
        (is_narrow ? sizeof(std::int16_t) * values : ExactGather::scratch_bytes(values, ranks));
}

NumberStages::NumberStages(const CollectiveRequest& request, std::size_t rank, std::size_t ranks,
                           SpareMemory& spare, const Places& places)
    : request_(request),
      rank_(rank),
      ranks_(ranks),
      spare_(spare),
      scratch_(spare.take(places.end)),
      tensor_(request.outputs.front().data()),
      divisor_(request.reduction == ElementReduction::kAverage ? static_cast<float>(ranks) : 1.0F),
      layout_(layout_of(request)),
      is_exact_(is_exact(request, ranks)),
      sent_exponents_(reinterpret_cast<std::uint8_t*>(scratch_.memory.get())),
      exponents_(reinterpret_cast<std::int16_t*>(scratch_.memory.get() + places.exponents),
                 is_exact_ ? 0 : layout_.blocks()),
      narrow_sums_(sent_exponents_ + places.rest),
      floats_(rank, ranks, spare, tensor_, divisor_,
              Bytes(scratch_.memory.get(), places.end).subspan(places.rest)),
      codec_(kType, ranks, is_narrow() ? NumberFormat::kBlocksInt16 : NumberFormat::kBlocks,
             layout_, exponents_) {
  if (!is_exact_) return;
  floats_.add(0, layout_.values());
  stage_ = Stage::kFloats;
}

std::optional<PeerPlan> NumberStages::next() {
  std::optional<PeerPlan> plan = next_stage();
  if (plan && scratch_.memory != nullptr) plan->scratch.push_back(std::exchange(scratch_, {}));
  return plan;
}

std::optional<PeerPlan> NumberStages::next_stage() {
  if (stage_ == Stage::kNone) {
    stage_ = Stage::kExponents;
    return exponents();
  }
  if (stage_ == Stage::kExponents) {
    agree_on_exponents();
    stage_ = Stage::kFloats;
  }
  if (stage_ == Stage::kFloats) {
    if (auto plan = floats_.next()) return plan;
    stage_ = Stage::kIntegers;
    if (!is_exact_) return integers();
  }
  return std::nullopt;
}

PeerPlan NumberStages::exponents() {
  const std::size_t blocks = layout_.blocks();
  write_exponents(kType, layout_, 0, blocks, tensor_, sent_exponents_);
  const auto place = [this, blocks](std::size_t share) {
    const std::size_t begin = blocks * share / ranks_;
    const std::size_t end = blocks * (share + 1) / ranks_;
    return std::as_writable_bytes(std::span(sent_exponents_ + 2 * begin, 2 * (end - begin)));
  };
  PlanBuilder plan(rank_, ranks_, spare_);
  const auto largest = plan.add_around(
      plan.given(place(plan.before())), [&](std::size_t share) { return place(share).size(); },
      [&](std::size_t share, PlanBuilder::Ref incoming) {
        const Bytes to = place(share);
        return plan.make(incoming, to, [to](std::size_t offset, ConstBytes theirs) {
          auto* own = reinterpret_cast<std::uint8_t*>(to.data() + offset);
          combine(ATP_KIND_EXPONENTS, wire(theirs.data()), own, own, theirs.size());
        });
      });
  plan.pass_around(largest, static_cast<std::uint32_t>(ranks_), place);
  return plan.take();
}

void NumberStages::agree_on_exponents() {
  read_exponents(sent_exponents_, exponents_);
  if (is_narrow()) return;
  for (std::size_t block = 0; block < exponents_.size(); ++block) {
    if (exponents_[block] != kSpecialBlock) continue;
    const BlockRun run = layout_.block(block);
    floats_.add(run.begin, run.end);
  }
}

PeerPlan NumberStages::integers() {
  PlanBuilder plan(rank_, ranks_, spare_, floats_.next_part());
  const std::size_t end = share_begin(plan.before() + 1);
  Piece own;
  const std::size_t most = own.size() / codec_.lane_bytes();
  for (std::size_t at = share_begin(plan.before()); at < end; at += most) {
    const std::size_t count = std::min(most, end - at);
    codec_.write(at, at + count, BlockCodec::As::kIntegers, tensor_, own.data());
    std::memcpy(sums(at), own.data(), count * codec_.lane_bytes());
  }
  const auto value_at = [this](std::size_t share, std::size_t offset) {
    return share_begin(share) + offset / codec_.lane_bytes();
  };
  const auto sum = plan.add_around(
      plan.given(sums_of(plan.before())), [this](std::size_t of) { return sums_of(of).size(); },
      [&](std::size_t share, PlanBuilder::Ref incoming) {
        return plan.make(incoming, sums_of(share),
                         [this, share, value_at](std::size_t offset, ConstBytes theirs) {
                           add_to(value_at(share, offset), theirs, share == rank_);
                         });
      });
  plan.pass_around(
      sum, static_cast<std::uint32_t>(ranks_), [this](std::size_t of) { return sums_of(of); },
      [&](std::size_t share, PlanBuilder::Ref finished) {
        if (!is_narrow()) return;
        plan.make(finished, sums_of(share),
                  [this, share, value_at](std::size_t offset, ConstBytes sums) {
                    const std::size_t begin = value_at(share, offset);
                    codec_.read(begin, begin + sums.size() / codec_.lane_bytes(), divisor_,
                                wire(sums.data()), tensor_);
                  });
      });
  return plan.take();
}

// The last addition makes the result; in 32 bits it takes the sum's place.
void NumberStages::add_to(std::size_t begin, ConstBytes incoming, bool is_last) {
  Piece own;
  Piece finished;
  const std::uint8_t kind = is_narrow() ? ATP_KIND_SUM_BLOCKS_INT16 : ATP_KIND_SUM_BLOCKS;
  while (!incoming.empty()) {
    const std::size_t bytes = std::min(incoming.size(), own.size());
    const std::size_t end = begin + bytes / codec_.lane_bytes();
    codec_.write(begin, end, BlockCodec::As::kIntegers, tensor_, own.data());
    std::uint8_t* to = is_last && !is_narrow() ? finished.data() : sums(begin);
    combine(kind, wire(incoming.data()), own.data(), to, bytes);
    if (is_last) codec_.read(begin, end, divisor_, to, tensor_);
    begin = end;
    incoming = incoming.subspan(bytes);
  }
}

std::size_t NumberStages::share_begin(std::size_t share) const {
  const std::size_t values = layout_.values();
  return values / ranks_ * share + std::min(share, values % ranks_);
}

std::uint8_t* NumberStages::sums(std::size_t value) const {
  return is_narrow() ? narrow_sums_ + sizeof(std::int16_t) * value
                     : reinterpret_cast<std::uint8_t*>(tensor_) + sizeof(float) * value;
}

Bytes NumberStages::sums_of(std::size_t share) const {
  const std::size_t values = share_begin(share + 1) - share_begin(share);
  return std::as_writable_bytes(std::span(sums(share_begin(share)), values * codec_.lane_bytes()));
}

}  // namespace atp
