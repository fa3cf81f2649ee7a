#include "atp/collective/base/pending_operation.h"

#include "atp/collective/base/number_text.h"

namespace atp {

std::string PendingOperation::text() const {
  if (const auto& whole = request_.part_of) {
    return operation_text(name_.what, whole->number, whole->values, whole->tag);
  }
  return operation_text(name_.what, name_.number, name_.values, request_.tag,
                        unit_of(request_.kind));
}

std::string PendingOperation::kind_text(std::size_t world_size) const {
  OperationKind kind = kind_;
  if (is_small(world_size) && kind.format != NumberFormat::kFixed)
    kind.format = NumberFormat::kExact;
  return operation_kind_text(name_.values, kind);
}

OperationSpec PendingOperation::spec(std::size_t world_size, Instant now) const {
  return {.count = layout_.values(),
          .type = kind_.type,
          .reduction = kind_.reduction,
          .format = kind_.format,
          .small = is_small(world_size),
          .blocks = layout_.blocks(),
          .layout = layout_.fingerprint(),
          .tag = request_.tag,
          .timeout = request_.timeout,
          .ends_by = request_.timeout_is_total ? now + request_.timeout - request_.spent : kNever};
}

void PendingOperation::finish(Status result) {
  const Judge judge = std::exchange(judge_, nullptr);
  completion_.finish(judge ? judge(std::move(result)) : std::move(result));
}

}  // namespace atp
