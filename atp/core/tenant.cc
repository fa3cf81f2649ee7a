// Decides whether what a tenant asks for fits into its quota.
#include "atp/core/tenant.h"

namespace atp {

void QuotaCheck::note(std::uint32_t tenant, std::uint32_t job, std::size_t bytes) {
  if (tenant != owner_.tenant) return;
  held_ += bytes;
  if (job != job_ && job != last_) ++others_;
  last_ = job;
}

Refusal QuotaCheck::refusal(std::size_t needed) const {
  const Quota& quota = owner_.quota;
  if (quota.jobs != 0 && others_ >= quota.jobs) return {RefusalReason::kTenantJobs, quota.jobs};
  const std::size_t left = quota.bytes > held_ ? quota.bytes - held_ : 0;
  if (quota.bytes == 0 || needed <= left) return {};
  return memory_refusal(left, needed, RefusalReason::kTenantMemory);
}

}  // namespace atp
