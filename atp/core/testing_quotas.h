#pragma once

#include <map>

#include "atp/core/tenant.h"

// Tenants for tests of nodes without a driver: what each may hold.

namespace atp {

struct TestQuotas final : Quotas {
  Quota of_tenant(std::uint16_t tenant) const override {
    const auto quota = by_tenant.find(tenant);
    return quota == by_tenant.end() ? Quota{} : quota->second;
  }
  std::map<std::uint16_t, Quota> by_tenant;
};

}  // namespace atp
