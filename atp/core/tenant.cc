// Decides whether what a tenant asks for fits into its quota.
#include "atp/core/tenant.h"

namespace atp {

void QuotaCheck::note(const JobKey& job, std::size_t bytes) {
  if (job.tenant != job_.tenant) return;
  held_ += bytes;
  if (!same_job(job, job_) && !same_job(job, last_)) ++others_;
  last_ = job;
}

Refusal QuotaCheck::refusal(std::size_t needed) const {
  if (quota_.jobs != 0 && others_ >= quota_.jobs) {
    return {RefusalReason::kTenantJobs, quota_.jobs};
  }
  const std::size_t left = quota_.bytes > held_ ? quota_.bytes - held_ : 0;
  if (quota_.bytes == 0 || needed <= left) return {};
  return memory_refusal(left, needed, RefusalReason::kTenantMemory);
}

}  // namespace atp
