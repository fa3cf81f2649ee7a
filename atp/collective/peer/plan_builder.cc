#include "atp/collective/peer/plan_builder.h"

namespace atp {

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
  plan_.scratch.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return {plan_.scratch.back().get(), bytes};
}

}  // namespace atp
