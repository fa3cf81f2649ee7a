#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "atp/config/site/job_weights.h"
#include "atp/core/tenant.h"
#include "atp/driver/keys/keyring.h"

// The weights that a cluster file gives to jobs by their numbers (`atp switch --weights FILE`), and
// the limits of their tenants (`--keys`). Ranks choose a job's number. So on a switch with keys an
// entry must name the tenant: otherwise each could take a weight that was meant for another's job.

namespace atp {

class NodeWeights final : public Quotas {
 public:
  // Null without a file. `keys` may be null. Throws CommandError if the file has an error.
  static std::unique_ptr<NodeWeights> open(const std::string& path, const Keyring* keys);

  // Reads the file again. With an error in it, the weights stay as they are.
  void reload();

  Quota of_tenant(std::uint16_t tenant) const override { return quota_of(keys_, tenant); }
  std::uint32_t weight_of(const JobKey& job) const override;

 private:
  NodeWeights(std::string path, const Keyring* keys, std::vector<JobWeight> entries)
      : path_(std::move(path)), keys_(keys), entries_(std::move(entries)) {}
  void log_entries(const char* again) const;

  const std::string path_;
  const Keyring* keys_;
  std::vector<JobWeight> entries_;
};

// Why an entry holds for no job of a node with these keys; empty: it does.
std::string why_idle(const JobWeight& entry, const Keyring* keys);

}  // namespace atp
