#pragma once

#include <cstddef>
#include <cstdint>

// Whose a job is, for nodes that serve several tenants with keys (docs/protocol.md §2, *Keys*). The
// core has no keys: whoever drives a node checks the packets' tags, and answers this question when
// a job begins.

namespace atp {

// What a tenant's jobs may hold together at a node; 0: as much as the node has.
struct Quota {
  std::uint32_t jobs = 0;
  std::uint32_t aggregators = 0;  // of a switch
  std::size_t bytes = 0;

  bool operator==(const Quota&) const = default;
};

struct JobOwner {
  std::uint32_t tenant = 0;  // 0: no keys, so nobody in particular
  Quota quota;

  bool operator==(const JobOwner&) const = default;
};

class JobOwners {
 public:
  virtual ~JobOwners() = default;
  // The owner of a job whose packet is being handled.
  virtual JobOwner owner_of(std::uint32_t job) const = 0;
};

}  // namespace atp
