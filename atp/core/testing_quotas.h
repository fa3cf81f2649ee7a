#pragma once

#include <cstdint>
#include <map>

#include "atp/core/tenant.h"

// Tenants and jobs for tests of nodes without a driver: what each may hold.

namespace atp {

struct TestQuotas final : Quotas {
  Quota of_tenant(std::uint16_t tenant) const override {
    const auto quota = by_tenant.find(tenant);
    return quota == by_tenant.end() ? Quota{} : quota->second;
  }
  std::uint32_t weight_of(const JobKey& job) const override {
    const auto own = weights.find(job.job);
    return own == weights.end() ? Quotas::weight_of(job) : own->second;
  }
  std::map<std::uint16_t, Quota> by_tenant;
  std::map<std::uint32_t, std::uint32_t> weights;  // by job
};

}  // namespace atp
