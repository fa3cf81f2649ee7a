// Decides which job gets which share. Linear searches will do: they run when a tree is made or
// dropped, never per packet.
#include "atp/core/dataplane/shares.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "atp/base/check.h"

bool operator==(const atp_share& a, const atp_share& b) {
  static_assert(std::has_unique_object_representations_v<atp_share>);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

namespace atp {

Shares::Shares(const SharingConfig& config, std::uint32_t aggregators)
    : config_(config), aggregators_(aggregators), active_(aggregators) {
  static_assert(sizeof(Entry) <= kBytes);
  ATP_CHECK(config.partitions <= aggregators);
}

bool Shares::has_room() const {
  return entries_.size() < kMax ||
         std::any_of(
             entries_.begin(), entries_.end(), [](const Entry& entry) { return !entry.in_use(); });
}

bool Shares::partition_is_full() const {
  if (config_.partitions == 0) return false;
  const auto owns = [](const Entry& entry) { return entry.trees > 0 && entry.share.size > 0; };
  return std::count_if(entries_.begin(), entries_.end(), owns) >= config_.partitions;
}

Shares::Id Shares::enter(const JobKey& job, const Quota& quota) {
  const Id id = entry_of(job);
  Entry& entry = entries_[id];
  if (entry.trees == 0) {
    entry.job = job;
    entry.share.quota = quota_of_job();
    give_region(entry.share);
    weigh(entry, quota.weight);
    leave_tenant(id);
    if (quota.aggregators != 0) enter_tenant(id, quota.aggregators);
  }
  if (++entry.trees == 1 && entry.tenant != kNoTenant) ++tenants_[entry.tenant].jobs_with_trees;
  return id;
}

// The job may still be active from before.
void Shares::weigh(Entry& entry, std::uint32_t weight) {
  active_.reweigh(entry.active, entry.weight, weight);
  entry.weight = weight;
  entry.said = {};
}

std::uint32_t Shares::part(Id id) const {
  if (!has_parts()) return limit(id);
  const Entry& entry = entries_[id];
  const std::uint32_t part = std::min(part_of(entry), entry.share.quota);
  if (entry.tenant == kNoTenant) return part;
  const TenantShare& tenant = tenants_[entry.tenant];
  return std::min(part, std::max(1u, tenant.quota / std::max(1u, tenant.jobs_with_trees)));
}

// The part of a tenant's job is not kept: it depends on the tenant's other jobs, too.
std::uint8_t Shares::say_part(Id id, std::uint64_t all) const {
  if (!has_parts()) return 0;
  const Entry& entry = entries_[id];
  const std::uint8_t code = atp_part_code(part(id));
  if (entry.tenant == kNoTenant) entry.said = {all, code};
  return code;
}

void Shares::leave_tenant(Id id) {
  Entry& entry = entries_[id];
  if (entry.tenant == kNoTenant) return;
  TenantShare& tenant = tenants_[entry.tenant];
  tenant.held -= entry.share.held;
  --tenant.jobs;
  entry.tenant = kNoTenant;
}

void Shares::enter_tenant(Id id, std::uint32_t quota) {
  const std::uint16_t number = entries_[id].job.tenant;
  const auto find = [&](auto&& fits) {
    return std::find_if(tenants_.begin(), tenants_.end(), fits);
  };
  auto tenant = find([&](const TenantShare& t) { return t.jobs > 0 && t.tenant == number; });
  if (tenant == tenants_.end()) tenant = find([](const TenantShare& t) { return t.jobs == 0; });
  if (tenant == tenants_.end()) tenant = tenants_.emplace(tenant);
  tenant->tenant = number;
  tenant->quota = quota;
  tenant->held += entries_[id].share.held;
  ++tenant->jobs;
  entries_[id].tenant = static_cast<std::uint32_t>(tenant - tenants_.begin());
}

void Shares::leave(Id id) {
  Entry& entry = entries_[id];
  if (--entry.trees == 0 && entry.tenant != kNoTenant) --tenants_[entry.tenant].jobs_with_trees;
}

// The job's entry, or a free one. As long as there is another, a job that was active keeps its
// own: it counts for the parts.
Shares::Id Shares::entry_of(const JobKey& job) {
  const auto find = [&](auto&& fits) {
    return std::find_if(entries_.begin(), entries_.end(), fits);
  };
  const auto is_kept = [&](const Entry& entry) {
    return entry.in_use() || active_.active(entry.active);
  };
  auto found = find([&](const Entry& e) { return is_kept(e) && same_job(e.job, job); });
  if (found == entries_.end()) found = find([&](const Entry& e) { return !is_kept(e); });
  if (found == entries_.end() && entries_.size() < kMax) found = entries_.emplace(found);
  if (found == entries_.end()) {
    found = find([](const Entry& entry) { return !entry.in_use(); });
    ATP_CHECK(found != entries_.end());
    active_.forget(found->active, found->weight);
  }
  return static_cast<Id>(found - entries_.begin());
}

// Gives the lowest free region, or none if all are taken.
void Shares::give_region(atp_share& share) const {
  share.first = 0;
  share.size = aggregators_;
  if (config_.partitions == 0) return;
  const std::uint32_t size = aggregators_ / config_.partitions;
  share.size = 0;
  for (std::uint32_t region = 0; region < config_.partitions; ++region) {
    if (is_taken(region * size)) continue;
    share.first = region * size;
    share.size = size;
    return;
  }
}

bool Shares::is_taken(std::uint32_t first) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.trees > 0 && entry.share.size > 0 && entry.share.first == first;
  });
}

}  // namespace atp
