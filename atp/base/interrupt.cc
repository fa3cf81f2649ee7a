#include "atp/base/interrupt.h"

#include <atomic>

namespace atp {
namespace {

std::atomic<InterruptCheck> the_check{nullptr};

}  // namespace

void set_interrupt_check(InterruptCheck check) { the_check = check; }

bool interrupted() {
  const InterruptCheck check = the_check.load();
  return check != nullptr && check();
}

}  // namespace atp
