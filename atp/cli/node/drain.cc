#include "atp/cli/node/drain.h"

#include "atp/cli/status/status_table.h"

namespace atp {

std::optional<std::string> Drain::look(Instant now, std::size_t jobs) {
  if (jobs > 0) {
    empty_since_.reset();
  } else if (!empty_since_) {
    empty_since_ = now;
  }
  if (jobs_ == jobs) return std::nullopt;
  const bool begins = !jobs_;
  jobs_ = jobs;
  return drain_text(jobs) + (begins ? ": new jobs are refused" : "");
}

}  // namespace atp
