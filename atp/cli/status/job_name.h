#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>

// Which job something is about. These functions take anything that has the members of a JobName.

namespace atp {

struct JobName {
  std::uint64_t job = 0;
  std::string tenant;  // "" on a node without keys
  std::uint64_t incarnation = 0;

  auto operator<=>(const JobName&) const = default;
};

JobName name_of_job(const auto& one) { return {one.job, one.tenant, one.incarnation}; }

// In the order of their names. Neither function copies a name.
bool is_job_before(const auto& one, const auto& other) {
  return std::tie(one.job, one.tenant, one.incarnation) <
         std::tie(other.job, other.tenant, other.incarnation);
}
bool is_same_job(const auto& one, const auto& other) {
  return one.job == other.job && one.incarnation == other.incarnation && one.tenant == other.tenant;
}

// "job 7", or "job 7 of vision".
std::string name_of(const auto& one)
  requires requires { one.tenant; }
{
  return "job " + std::to_string(one.job) + (one.tenant.empty() ? "" : " of " + one.tenant);
}

}  // namespace atp
