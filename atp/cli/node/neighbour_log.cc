#include "atp/cli/node/neighbour_log.h"

#include <fmt/core.h>

#include <algorithm>
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

std::vector<Finding> silent_parents_of(const SwitchNode& node, Instant now, const JobNames& names) {
  std::vector<Finding> silent;
  node.for_each_tree([&](const Tree& tree, const atp_share&) {
    if (!tree.parent_is_silent(now)) return;
    const std::string parent = to_string(tree.parent());
    const bool is_known = std::any_of(silent.begin(), silent.end(),
                                      [&](const Finding& one) { return one.node == parent; });
    if (is_known) return;
    const JobName job = names.of(tree.job());
    const std::string who = fmt::format("{}: {}, the next node above,", name_of(job), parent);
    silent.push_back({.severity = Severity::kBad,
                      .kind = "silent",
                      .node = parent,
                      .job = job,
                      .text = who + " does not answer",
                      .over = who + " answers again, or its job has ended"});
  });
  return silent;
}

}  // namespace atp
