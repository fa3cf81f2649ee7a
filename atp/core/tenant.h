#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/wire/status.h"

// Who owns a job, at nodes that serve several tenants with keys (docs/protocol.md §2, *Keys*). The
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

// Whether a tenant may begin one more job, or one more stream range of a job. The node passes what
// it has, in the order of the jobs' numbers:
//
//   QuotaCheck check(owner, job);
//   for (const Tree& tree : trees) check.note(tree.tenant(), tree.job().job, bytes_of(tree));
//   const Refusal refusal = check.refusal(needed);
class QuotaCheck {
 public:
  QuotaCheck(const JobOwner& owner, std::uint32_t job) : owner_(owner), job_(job), last_(job) {}

  // Notes a stream range of an incarnation of a job. All its ranges and incarnations count as one
  // job.
  void note(std::uint32_t tenant, std::uint32_t job, std::size_t bytes);
  // Nothing, or the limit that a new range of `needed` bytes would exceed.
  Refusal refusal(std::size_t needed) const;

 private:
  const JobOwner owner_;
  const std::uint32_t job_;
  std::uint32_t last_;        // the last number noted
  std::uint32_t others_ = 0;  // the tenant's jobs besides this one
  std::size_t held_ = 0;      // their bytes, and those that this one has already
};

}  // namespace atp
