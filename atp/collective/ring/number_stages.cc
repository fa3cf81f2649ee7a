// Builds the schedule of each stage, and the functions that combine integers in it.
#include "atp/collective/ring/number_stages.h"

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

std::size_t values_of(const RingRequest& request) {
  std::size_t bytes = 0;
  for (const Bytes& block : request.outputs) bytes += block.size();
  return bytes / sizeof(float);
}

BlockLayout layout_of(const RingRequest& request) {
  return request.segments.empty() ? BlockLayout(values_of(request)) : BlockLayout(request.segments);
}

bool is_exact(const RingRequest& request, std::size_t ranks) {
  return request.format == NumberFormat::kExact ||
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

NumberStages::Places::Places(const RingRequest& request, std::size_t ranks) {
  const std::size_t values = values_of(request);
  const bool has_exponents = !is_exact(request, ranks);
  if (has_exponents) {
    exponents = (sizeof(std::int16_t) * layout_of(request).blocks() + 7) / 8 * 8;
    rest = 2 * exponents;
  }
  const bool is_narrow = has_exponents && request.format == NumberFormat::kBlocksInt16;
  end = rest +
        (is_narrow ? sizeof(std::int16_t) * values : ExactGather::scratch_bytes(values, ranks));
}

std::size_t NumberStages::scratch_bytes(const RingRequest& request, std::size_t ranks) {
  return Places(request, ranks).end;
}

NumberStages::NumberStages(const RingRequest& request, std::size_t rank, std::size_t ranks,
                           Bytes scratch, const Places& places)
    : request_(request),
      rank_(rank),
      ranks_(ranks),
      tensor_(request.outputs[0].data()),
      divisor_(request.reduction == Reduction::kAverage ? static_cast<float>(ranks) : 1.0F),
      layout_(layout_of(request)),
      is_exact_(is_exact(request, ranks)),
      sent_exponents_(reinterpret_cast<std::uint8_t*>(scratch.data())),
      exponents_(reinterpret_cast<std::int16_t*>(scratch.data() + places.exponents),
                 is_exact_ ? 0 : layout_.blocks()),
      narrow_sums_(sent_exponents_ + places.rest),
      floats_(rank, ranks, tensor_, divisor_, scratch.first(places.end).subspan(places.rest)),
      codec_(kType, ranks, is_narrow() ? NumberFormat::kBlocksInt16 : NumberFormat::kBlocks,
             layout_, exponents_) {
  if (!is_exact_) return;
  floats_.add(0, layout_.values());
  stage_ = Stage::kFloats;
}

bool NumberStages::has_more() const {
  return is_exact_ ? floats_.has_more() : stage_ != Stage::kIntegers;
}

std::optional<Schedule> NumberStages::next() {
  if (stage_ == Stage::kNone) {
    stage_ = Stage::kExponents;
    return exponents();
  }
  if (stage_ == Stage::kExponents) {
    agree_on_exponents();
    stage_ = Stage::kFloats;
  }
  if (stage_ == Stage::kFloats) {
    if (auto schedule = floats_.next()) return schedule;
    stage_ = Stage::kIntegers;
    if (!is_exact_) return integers();
  }
  return std::nullopt;
}

Schedule NumberStages::exponents() {
  const std::size_t blocks = layout_.blocks();
  write_exponents(kType, layout_, 0, blocks, tensor_, sent_exponents_);
  const auto place = [this, blocks](std::size_t share) {
    const std::size_t begin = blocks * share / ranks_;
    const std::size_t end = blocks * (share + 1) / ranks_;
    return std::as_writable_bytes(std::span(sent_exponents_ + 2 * begin, 2 * (end - begin)));
  };
  Schedule schedule{.first = place(first_block(rank_, ranks_)), .element = 2};
  append_reduce_scatter(
      rank_, ranks_,
      [&](std::size_t share) -> Schedule::Step {
        const Bytes to = place(share);
        return {.to = to, .take = [to](std::size_t offset, ConstBytes incoming) {
                  auto* largest = reinterpret_cast<std::uint8_t*>(to.data() + offset);
                  combine(ATP_KIND_EXPONENTS, wire(incoming.data()), largest, largest,
                          incoming.size());
                }};
      },
      schedule);
  append_all_gather(
      rank_, ranks_, [&](std::size_t share) { return Schedule::Step{.to = place(share)}; },
      schedule);
  return schedule;
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

Schedule NumberStages::integers() {
  const std::size_t share = first_block(rank_, ranks_);
  const std::size_t end = share_begin(share) + request_.outputs[share].size() / sizeof(float);
  Piece own;
  const std::size_t most = own.size() / codec_.lane_bytes();
  for (std::size_t at = share_begin(share); at < end; at += most) {
    const std::size_t count = std::min(most, end - at);
    codec_.write(at, at + count, BlockCodec::As::kIntegers, tensor_, own.data());
    std::memcpy(sums(at), own.data(), count * codec_.lane_bytes());
  }
  Schedule schedule{.first = sums_of(share), .element = codec_.lane_bytes()};
  append_reduce_scatter(
      rank_, ranks_, [this](std::size_t of) { return step_adding(of); }, schedule);
  append_all_gather(rank_, ranks_, [this](std::size_t of) { return step_storing(of); }, schedule);
  return schedule;
}

Schedule::Step NumberStages::step_adding(std::size_t share) {
  return {.to = sums_of(share), .take = [this, share](std::size_t offset, ConstBytes incoming) {
            add_to(share_begin(share) + offset / codec_.lane_bytes(), incoming, share == rank_);
          }};
}

Schedule::Step NumberStages::step_storing(std::size_t share) {
  if (!is_narrow()) return {.to = sums_of(share)};
  return {.to = sums_of(share), .take = [this, share](std::size_t offset, ConstBytes incoming) {
            const std::size_t begin = share_begin(share) + offset / codec_.lane_bytes();
            const std::size_t end = begin + incoming.size() / codec_.lane_bytes();
            std::memcpy(sums(begin), incoming.data(), incoming.size());
            codec_.read(begin, end, divisor_, wire(incoming.data()), tensor_);
          }};
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
  return static_cast<std::size_t>(request_.outputs[share].data() - tensor_) / sizeof(float);
}

std::uint8_t* NumberStages::sums(std::size_t value) const {
  return is_narrow() ? narrow_sums_ + sizeof(std::int16_t) * value
                     : reinterpret_cast<std::uint8_t*>(tensor_) + sizeof(float) * value;
}

Bytes NumberStages::sums_of(std::size_t share) const {
  const std::size_t values = request_.outputs[share].size() / sizeof(float);
  return std::as_writable_bytes(std::span(sums(share_begin(share)), values * codec_.lane_bytes()));
}

}  // namespace atp
