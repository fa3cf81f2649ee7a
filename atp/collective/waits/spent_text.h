#pragma once

#include <string>

#include "atp/base/text.h"

namespace atp {

// Why an operation is overdue before it has begun: its rank used up the time-out by copying or
// converting tensors. It must not begin then, and nobody else is to blame.
inline std::string spent_text(const std::string& rank, Duration timeout) {
  return overdue_text(timeout) + ": " + rank +
         " needed all of it to copy or convert its tensors, before the operation could begin; give "
         "the group a longer timeout, or use smaller tensors";
}

}  // namespace atp
