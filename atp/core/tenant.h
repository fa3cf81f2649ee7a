#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/wire/packet_view.h"
#include "atp/wire/status.h"

// What the jobs of a tenant may hold, at nodes that serve several tenants with keys
// (docs/inside/protocol §2, *Keys*). The core has no keys: whoever drives a node checks the
// packets' tags, numbers the tenants, and answers this question when a job begins.

namespace atp {

constexpr std::uint32_t kMostWeight = 1000;

// What a tenant's jobs may hold together at a node; 0: as much as the node has.
struct Quota {
  std::uint32_t jobs = 0;
  std::uint32_t aggregators = 0;  // of a switch
  std::size_t bytes = 0;
  std::uint32_t weight = 1;  // of a job at a switch, where aggregators are scarce

  bool operator==(const Quota&) const = default;
};

class Quotas {
 public:
  virtual ~Quotas() = default;
  virtual Quota of_tenant(std::uint16_t tenant) const = 0;
  // A job may have another weight than its tenant's others.
  virtual std::uint32_t weight_of(const JobKey& job) const { return of_tenant(job.tenant).weight; }
};

// Without keys there are no limits.
inline Quota quota_of(const Quotas* quotas, std::uint16_t tenant) {
  return quotas == nullptr ? Quota{} : quotas->of_tenant(tenant);
}
inline Quota quota_of(const Quotas* quotas, const JobKey& job) {
  if (quotas == nullptr) return {};
  Quota quota = quotas->of_tenant(job.tenant);
  quota.weight = quotas->weight_of(job);
  return quota;
}

// Whether a tenant may begin one more job, or one more stream range of a job. The node passes what
// it has, in the order of the jobs:
//
//   QuotaCheck check(quota, job);
//   for (const Tree& tree : trees) check.note(tree.job(), bytes_of(tree));
//   const Refusal refusal = check.refusal(needed);
class QuotaCheck {
 public:
  QuotaCheck(const Quota& quota, const JobKey& job) : quota_(quota), job_(job), last_(job) {}

  // Notes a stream range of an incarnation of a job. All its ranges and incarnations count as one
  // job.
  void note(const JobKey& job, std::size_t bytes);
  // Nothing, or the limit that a new range of `needed` bytes would exceed.
  Refusal refusal(std::size_t needed) const;

 private:
  const Quota quota_;
  const JobKey job_;
  JobKey last_;               // the tenant's last job noted
  std::uint32_t others_ = 0;  // the tenant's jobs besides this one
  std::size_t held_ = 0;      // their bytes, and those that this one has already
};

}  // namespace atp
