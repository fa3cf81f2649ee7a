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

std::optional<std::string> why_interrupted(const MaybeInterruption& interruption) {
  if (interrupted()) return "the wait was interrupted";
  return interruption == nullptr ? std::nullopt : interruption->why();
}

}  // namespace atp
