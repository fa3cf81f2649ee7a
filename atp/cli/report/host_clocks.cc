#include "atp/cli/report/host_clocks.h"

#include <algorithm>
#include <utility>

namespace atp {
namespace {

// The latest are the best: clocks drift.
constexpr std::size_t kMostSamples = 200;

using OperationKey = std::pair<std::string, std::int64_t>;

// The first end of each operation on a host.
std::map<OperationKey, WallTime> ends_on(const std::vector<FlightRecord>& records,
                                         const std::string& host) {
  std::map<OperationKey, WallTime> ends;
  for (const FlightRecord& record : records) {
    if (record.host != host) continue;
    std::vector<std::string> keys;
    keys.reserve(record.groups.size());
    for (const auto& group : record.groups) keys.push_back(group.key());
    for (const auto& operation : record.operations) {
      if (!operation.completed || !waits_for_all(operation)) continue;
      const auto [at, is_new] =
          ends.emplace(OperationKey{keys[operation.group], operation.number}, *operation.completed);
      if (!is_new) at->second = std::min(at->second, *operation.completed);
    }
  }
  return ends;
}

}  // namespace

bool waits_for_all(const FlightRecord::Operation& operation) {
  if (operation.is_transfer) return false;
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"}) {
    if (operation.name.starts_with(name)) return true;
  }
  return false;
}

HostClocks::HostClocks(const std::vector<FlightRecord>& records) {
  if (records.empty()) return;
  reference_ = records.front().host;
  std::vector<std::string> hosts;
  hosts.reserve(records.size());
  for (const FlightRecord& record : records) hosts.push_back(record.host);
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (hosts.size() == 1) return;
  const auto reference = ends_on(records, reference_);
  for (const std::string& host : hosts) {
    if (host == reference_) continue;
    std::vector<std::pair<WallTime, std::int64_t>> samples;
    for (const auto& [key, end] : ends_on(records, host)) {
      const auto same = reference.find(key);
      if (same != reference.end()) samples.emplace_back(same->second, end - same->second);
    }
    std::sort(samples.rbegin(), samples.rend());
    samples.resize(std::min(samples.size(), kMostSamples));
    std::vector<std::int64_t> ahead;
    ahead.reserve(samples.size());
    for (const auto& sample : samples) ahead.push_back(sample.second);
    Difference difference{.host = host, .operations = ahead.size()};
    if (!ahead.empty()) {
      const auto middle = ahead.begin() + static_cast<std::ptrdiff_t>(ahead.size() / 2);
      std::nth_element(ahead.begin(), middle, ahead.end());
      difference.ahead = *middle;
    }
    if (difference.operations >= kFewest) ahead_[host] = difference.ahead;
    differences_.push_back(std::move(difference));
  }
}

WallTime HostClocks::corrected(const std::string& host, WallTime time) const {
  const auto found = ahead_.find(host);
  return found == ahead_.end() ? time : time - found->second;
}

}  // namespace atp
