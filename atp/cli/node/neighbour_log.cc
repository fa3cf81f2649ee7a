#include "atp/cli/node/neighbour_log.h"

#include <fmt/core.h>

#include <utility>

#include "atp/base/text.h"
#include "atp/driver/udp/address.h"

namespace atp {

void UnreachableLog::add(const Endpoint& peer) {
  ++so_far_;
  const auto known = errors_.find(peer);
  if (known != errors_.end()) {
    ++known->second;
  } else if (errors_.size() < kMaxPeers) {
    errors_.emplace(peer, 1);
  } else {
    ++of_others_;
  }
}

std::vector<std::string> UnreachableLog::lines() {
  std::vector<std::string> lines;
  const auto add_line = [&](std::uint64_t count, const std::string& whom) {
    lines.push_back(fmt::format("{} ICMP error{} ({} so far): {} unreachable", with_commas(count),
                                count == 1 ? "" : "s", with_commas(so_far_), whom));
  };
  for (const auto& [peer, count] : std::exchange(errors_, {})) {
    add_line(count, to_string(peer) + " is");
  }
  if (const std::uint64_t others = std::exchange(of_others_, 0)) add_line(others, "others are");
  return lines;
}

std::vector<SilentParent> silent_parents_of(const SwitchNode& node, Instant now) {
  std::vector<SilentParent> silent;
  node.for_each_tree([&](const Tree& tree, const atp_share&) {
    if (tree.parent_is_silent(now)) silent.push_back({tree.job(), tree.parent()});
  });
  return silent;
}

std::vector<LogLine> ParentLog::lines(const std::vector<SilentParent>& silent) {
  std::vector<LogLine> lines;
  const auto line = [&](const JobKey& job, const Endpoint& parent, const char* what) {
    lines.push_back({fmt::format("{}: {}, the next node above, {}", name_of(names_.of(job)),
                                 to_string(parent), what),
                     about(names_.of(job))});
  };
  std::map<Endpoint, JobKey> now_silent;
  for (const SilentParent& one : silent) now_silent.emplace(one.parent, one.job);
  for (const auto& [parent, job] : now_silent) {
    if (!known_.contains(parent)) line(job, parent, "does not answer");
  }
  for (const auto& [parent, job] : known_) {
    if (!now_silent.contains(parent)) line(job, parent, "answers again, or its job has ended");
  }
  known_ = std::move(now_silent);
  return lines;
}

}  // namespace atp
