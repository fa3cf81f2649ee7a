#include "atp/collective/base/hosts.h"

#include <algorithm>
#include <string>

namespace atp {

Status Hosts::check(const std::vector<std::size_t>& host_of, std::size_t world_size) {
  if (host_of.empty()) return ok_status();
  if (host_of.size() != world_size) {
    return Error{"found the hosts of " + std::to_string(host_of.size()) + " ranks, expected " +
                 std::to_string(world_size) + ": give the host of each rank"};
  }
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    if (host_of[rank] > next) {
      return Error{"rank " + std::to_string(rank) + " is on host " + std::to_string(host_of[rank]) +
                   ", and no rank below it is on host " + std::to_string(next) +
                   ": number the hosts from 0 in the order of their lowest ranks"};
    }
    next = std::max(next, host_of[rank] + 1);
  }
  return ok_status();
}

Hosts::Hosts(const std::vector<std::size_t>& host_of) {
  for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
    if (host_of[rank] >= ranks_.size()) ranks_.resize(host_of[rank] + 1);
    ranks_[host_of[rank]].push_back(static_cast<Rank>(rank));
  }
}

std::size_t Hosts::most_ranks() const {
  std::size_t most = 0;
  for (const std::vector<Rank>& ranks : ranks_) most = std::max(most, ranks.size());
  return most;
}

std::vector<Rank> Hosts::leaders() const {
  std::vector<Rank> leaders;
  leaders.reserve(ranks_.size());
  for (const std::vector<Rank>& ranks : ranks_) leaders.push_back(ranks.front());
  return leaders;
}

bool sums_on_hosts(const CommunicatorOptions& options) {
  const bool in_words = options.number_format == NumberFormat::kBlocks ||
                        options.number_format == NumberFormat::kBlocksInt16;
  if (options.host_of.empty() || !in_words) return false;
  const Hosts hosts(options.host_of);
  return hosts.count() > 1 && hosts.most_ranks() > 1;
}

}  // namespace atp
