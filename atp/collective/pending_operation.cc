#include "atp/collective/pending_operation.h"

#include "atp/collective/failure_text.h"

namespace atp {

std::string PendingOperation::text() const { return operation_text(name_.number, name_.values); }

}  // namespace atp
