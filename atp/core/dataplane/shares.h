#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "atp/core/dataplane/active_jobs.h"
#include "atp/core/dataplane/aggregator.h"
#include "atp/core/tenant.h"

// How a switch's aggregators are shared among the jobs (docs/inside/protocol §4, *Sharing*). The
// default is first come, first served, but while jobs contend, none gets more than its part, which
// its weight decides. A static partition gives each job a region of its own; a quota bounds
// how many a job may hold at a time, and a tenant's quota how many its jobs may hold together. All
// incarnations and trees of a job here have one share, so a restart does not make it two jobs.
//
// A share lives as long as its job has a tree or an aggregator here, so its count of held
// aggregators is exact, and longer while the job is active and no other needs its place. Its
// region, however, is free for the next job as soon as the last tree is gone.

// In the namespace of its type, so that lookup finds it.
bool operator==(const atp_share& a, const atp_share& b);

namespace atp {

struct SharingConfig {
  std::uint32_t partitions = 0;  // number of equal regions, one per job; 0: no partition
  std::uint32_t quota = 0;       // maximum aggregators per job; 0: no quota
  bool first_come = false;       // no job is kept from the last aggregators by its part

  bool operator==(const SharingConfig&) const = default;
};

class Shares {
 public:
  using Id = std::uint16_t;
  static constexpr std::size_t kMax = 65536;
  static constexpr std::size_t kBytes = 64;  // per share

  Shares(const SharingConfig& config, std::uint32_t aggregators);

  // Whether one more job can get a share.
  bool has_room() const;
  // Whether every region belongs to a job.
  bool partition_is_full() const;
  // Call these when a tree of the job is made, and when it is gone. At most kMax jobs may be
  // entered at a time.
  Id enter(const JobKey& job, const Quota& quota = {});
  void leave(Id id);

  // The job's region, for packets that claim nothing.
  const atp_share& region(Id id) const { return entries_[id].share; }
  // The job's share as the pipeline needs it, which reads only one quota: at most what the job
  // holds and its tenant has left, and while aggregators are contested, its part.
  atp_share operator[](Id id) const {
    const Entry& entry = entries_[id];
    atp_share share = entry.share;
    if (contested_ > 0) share.quota = std::min(share.quota, part_of(entry));
    if (entry.tenant == kNoTenant) return share;
    const TenantShare& tenant = tenants_[entry.tenant];
    const std::uint32_t left = tenant.quota > tenant.held ? tenant.quota - tenant.held : 0;
    share.quota = std::min(share.quota, share.held + left);
    return share;
  }
  // How many aggregators the job may hold while others contend for them.
  std::uint32_t part(Id id) const;
  // What a PARAMETER of the job is to say of that (§3, *Header*, rule 8).
  std::uint8_t part_to_say(Id id) const {
    const Entry& entry = entries_[id];
    const std::uint64_t all = weight_with(entry);
    return entry.said.all == all ? entry.said.code : say_part(id, all);
  }
  // The most that the switch's options let it hold, whatever others hold.
  std::uint32_t limit(Id id) const {
    const Entry& entry = entries_[id];
    const std::uint32_t of_job = std::min(entry.share.quota, entry.share.size);
    return entry.tenant == kNoTenant ? of_job : std::min(of_job, tenants_[entry.tenant].quota);
  }
  std::uint32_t weight(Id id) const { return entries_[id].weight; }
  bool has_trees(Id id) const { return entries_[id].trees > 0; }
  // How many aggregators hold a sum or its result. The table could be searched for them, but each
  // status of a node needs the number, and a table is far larger than the processor's caches.
  std::size_t held() const { return held_; }
  void note_claim(Id id) {
    Entry& entry = entries_[id];
    active_.note(entry.active, entry.weight);
    active_.count_claim();
    ++held_;
    ++entry.share.held;
    if (contested_ > 0) --contested_;
    if (entry.tenant != kNoTenant) ++tenants_[entry.tenant].held;
  }
  void note_release(Id id) {
    Entry& entry = entries_[id];
    --held_;
    --entry.share.held;
    if (entry.tenant != kNoTenant) --tenants_[entry.tenant].held;
  }

  // A fragment of the job found no place.
  void note_collision(Id id) {
    Entry& entry = entries_[id];
    active_.note(entry.active, entry.weight);
    if (has_parts() && entry.share.held < part_of(entry)) contested_ = aggregators_;
  }

  bool operator==(const Shares&) const = default;

 private:
  static constexpr std::uint32_t kNoTenant = UINT32_MAX;

  // What part_to_say() said last, while the jobs weigh as much together. It changes no result, so
  // it is not a part of the value.
  struct Said {
    std::uint64_t all = 0;  // 0: unknown
    std::uint8_t code = 0;
    bool operator==(const Said&) const { return true; }
  };

  struct Entry {
    atp_share share{};
    JobKey job;  // of whatever incarnation
    std::uint32_t trees = 0;
    std::uint32_t tenant = kNoTenant;  // its place in tenants_
    std::uint32_t weight = 1;
    ActiveJobs::Period active = 0;
    mutable Said said;

    bool in_use() const { return trees > 0 || share.held > 0; }
    bool operator==(const Entry&) const = default;
  };

  // A tenant that has a quota. A tenant has one place, whatever other places are free.
  struct TenantShare {
    std::uint16_t tenant = 0;
    std::uint32_t quota = 0;
    std::uint32_t held = 0;
    std::uint32_t jobs = 0;  // entries that refer to it; 0: the place is free
    std::uint32_t jobs_with_trees = 0;
    bool operator==(const TenantShare&) const = default;
  };

  bool has_parts() const { return !config_.first_come && config_.partitions == 0; }
  // Of all active jobs and this one.
  std::uint64_t weight_with(const Entry& entry) const {
    return active_.weight() + (active_.active(entry.active) ? 0 : entry.weight);
  }
  std::uint32_t part_of(const Entry& entry) const {
    const std::uint64_t part = aggregators_ * std::uint64_t{entry.weight} / weight_with(entry);
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, part));
  }
  std::uint8_t say_part(Id id, std::uint64_t all) const;
  void weigh(Entry& entry, std::uint32_t weight);
  Id entry_of(const JobKey& job);
  void leave_tenant(Id id);
  void enter_tenant(Id id, std::uint32_t quota);
  std::uint32_t quota_of_job() const { return config_.quota == 0 ? aggregators_ : config_.quota; }
  void give_region(atp_share& share) const;
  bool is_taken(std::uint32_t first) const;

  SharingConfig config_;
  std::uint32_t aggregators_;
  std::uint32_t held_ = 0;       // by all jobs
  std::uint32_t contested_ = 0;  // for so many claims, no job gets more than its part
  ActiveJobs active_;
  std::vector<Entry> entries_;
  std::vector<TenantShare> tenants_;
};

}  // namespace atp
