#pragma once

#include <string>

#include "atp/base/text.h"

namespace atp {

// How every transport says that an operation's total time is over. torch's own tests and programs
// that recover from its errors look for the word "timeout" in them, so it is spelt as they do.
inline std::string overdue_text(Duration time_out) {
  return "not ended within its timeout of " + seconds_text(time_out);
}

}  // namespace atp
