#include "atp/cli/run/end_policy.h"

namespace atp {

bool EndPolicy::rank_ended(Instant now, int exit_code) {
  if (exit_code == 0 || exit_code_) return false;
  exit_code_ = exit_code;
  begin_grace(now);
  return true;
}

void EndPolicy::begin_grace(Instant now) {
  if (next_step_ != Step::kNone) return;
  next_step_ = Step::kTerminate;
  next_at_ = now + grace_;
}

EndPolicy::Step EndPolicy::due(Instant now) {
  if (now < next_at_) return Step::kNone;
  const Step step = next_step_;
  next_step_ = Step::kKill;
  next_at_ = step == Step::kTerminate ? now + kTerminatePeriod : kNever;
  return step;
}

}  // namespace atp
