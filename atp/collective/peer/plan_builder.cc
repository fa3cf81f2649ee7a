#include "atp/collective/peer/plan_builder.h"

#include <algorithm>

namespace atp {
namespace {

// It fits the second-level cache, and has room for what is sent at once, twice.
constexpr std::size_t kWindow = 128 * 1024;

}  // namespace

PlanBuilder::Ref PlanBuilder::add(PlannedValue value) {
  plan_.values.push_back(std::move(value));
  return static_cast<Ref>(plan_.values.size() - 1);
}

PlanBuilder::Ref PlanBuilder::given(ConstBytes bytes) {
  return add({.origin = PlannedValue::Origin::kGiven,
              .memory = const_cast<std::byte*>(bytes.data()),
              .bytes = bytes.size()});
}

PlanBuilder::Ref PlanBuilder::receive(std::size_t from, std::uint32_t part, Bytes to,
                                      bool is_eager) {
  return add({.origin = PlannedValue::Origin::kReceived,
              .memory = to.data(),
              .bytes = to.size(),
              .from = from,
              .part = first_part_ + part,
              .is_eager = is_eager});
}

PlanBuilder::Ref PlanBuilder::receive_passing(std::size_t from, std::uint32_t part,
                                              std::size_t bytes) {
  const Bytes memory = scratch(std::min(bytes, kWindow));
  const Ref value = receive(from, part, memory);
  if (bytes > memory.size()) {
    plan_.values[value].bytes = bytes;
    plan_.values[value].window = memory.size();
  }
  return value;
}

PlanBuilder::Ref PlanBuilder::combine(ElementReduction reduction, std::vector<Ref> operands,
                                      Bytes to) {
  return add({.origin = PlannedValue::Origin::kCombined,
              .memory = to.data(),
              .bytes = to.size(),
              .operands = std::move(operands),
              .reduction = reduction});
}

PlanBuilder::Ref PlanBuilder::make(Ref from, Bytes to, PlannedValue::Take take) {
  return add({.origin = PlannedValue::Origin::kCombined,
              .memory = to.data(),
              .bytes = to.size(),
              .operands = {from},
              .take = std::move(take)});
}

void PlanBuilder::send(std::size_t to, std::uint32_t part, Ref value, bool is_eager) {
  plan_.sends.push_back({to, first_part_ + part, value, is_eager});
}

Bytes PlanBuilder::scratch(std::size_t bytes) {
  keep(spare_.take(bytes));
  return {plan_.scratch.back().memory.get(), bytes};
}

}  // namespace atp
