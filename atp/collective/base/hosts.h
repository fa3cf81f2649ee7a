#pragma once

#include <cstddef>
#include <vector>

#include "atp/base/result.h"
#include "atp/collective/base/options.h"

namespace atp {

// The hosts of a job's ranks. The lowest rank of each host is its leader, which sends for all of
// them.
class Hosts {
 public:
  // An error unless `host_of` numbers the hosts of all ranks as CommunicatorOptions requires.
  static Status check(const std::vector<std::size_t>& host_of, std::size_t world_size);
  explicit Hosts(const std::vector<std::size_t>& host_of);

  std::size_t count() const { return ranks_.size(); }
  // In rising order.
  const std::vector<Rank>& ranks_on(std::size_t host) const { return ranks_[host]; }
  std::size_t most_ranks() const;
  std::vector<Rank> leaders() const;

 private:
  std::vector<std::vector<Rank>> ranks_;
};

// Whether the ranks of each host sum in memory before one of them sends. Depends only on options
// that are the same on all ranks.
bool sums_on_hosts(const CommunicatorOptions& options);

}  // namespace atp
