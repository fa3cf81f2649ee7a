#pragma once

#include <map>

#include "atp/core/tenant.h"

// Tenants for tests of nodes without a driver: who owns each job.

namespace atp {

struct TestOwners final : JobOwners {
  JobOwner owner_of(std::uint32_t job) const override {
    const auto owner = by_job.find(job);
    return owner == by_job.end() ? JobOwner{} : owner->second;
  }
  std::map<std::uint32_t, JobOwner> by_job;
};

}  // namespace atp
