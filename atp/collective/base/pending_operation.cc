#include "atp/collective/base/pending_operation.h"

#include "atp/collective/base/number_text.h"

namespace atp {

std::string PendingOperation::text() const {
  if (const auto& whole = options_.part_of) {
    return operation_text(name_.what, whole->number, whole->values, whole->tag);
  }
  return operation_text(name_.what, name_.number, name_.values, options_.tag);
}

std::string PendingOperation::kind_text(std::size_t world_size) const {
  OperationKind kind = kind_;
  if (is_small(world_size) && kind.format != NumberFormat::kFixed)
    kind.format = NumberFormat::kExact;
  return operation_kind_text(name_.values, kind);
}

OperationSpec PendingOperation::spec(std::size_t world_size, Instant now) const {
  return {.count = part_.values.count,
          .type = kind_.type,
          .reduction = kind_.reduction,
          .format = kind_.format,
          .small = is_small(world_size),
          .blocks = part_.layout.blocks(),
          .layout = part_.layout.fingerprint(),
          .tag = options_.tag,
          .timeout = options_.timeout,
          .ends_by = options_.timeout_is_total ? now + options_.timeout - options_.spent : kNever};
}

void PendingOperation::finish(Status result) {
  const Judge judge = std::exchange(judge_, nullptr);
  completion_.finish(judge ? judge(std::move(result)) : std::move(result));
}

}  // namespace atp
