#include "atp/config/interconnect/pcie_tree.h"

#include <algorithm>
#include <limits>

namespace atp {

PcieTree::PcieTree() {
  nodes_.push_back({.parent = 0, .kind = Kind::kMachine, .uplink = 0, .depth = 0});
}

std::size_t PcieTree::add(std::size_t parent, Kind kind, double uplink) {
  nodes_.push_back(
      {.parent = parent, .kind = kind, .uplink = uplink, .depth = nodes_[parent].depth + 1});
  return nodes_.size() - 1;
}

std::size_t PcieTree::add_gpu(std::size_t parent, double uplink) {
  slots_.push_back(add(parent, Kind::kPcie, uplink));
  for (std::size_t node = slots_.back(); node != 0; node = nodes_[node].parent) {
    ++nodes_[node].gpus;
  }
  ++nodes_[0].gpus;
  return slots_.size() - 1;
}

std::size_t PcieTree::meeting_point(std::size_t from, std::size_t to) const {
  std::size_t a = slots_[from];
  std::size_t b = slots_[to];
  while (a != b) {
    std::size_t& deeper = nodes_[a].depth >= nodes_[b].depth ? a : b;
    deeper = nodes_[deeper].parent;
  }
  return a;
}

GpuLink PcieTree::link(std::size_t from, std::size_t to) const {
  const Node& meeting = nodes_[meeting_point(from, to)];
  if (meeting.kind == Kind::kMachine) return GpuLink::kSys;
  if (meeting.kind == Kind::kNumaNode) return GpuLink::kPhb;
  // If there is one switch between them, each slot is one level below it; otherwise there are
  // several.
  const std::size_t levels =
      nodes_[slots_[from]].depth + nodes_[slots_[to]].depth - 2 * meeting.depth;
  return levels <= 2 ? GpuLink::kPix : GpuLink::kPxb;
}

double PcieTree::pair(std::size_t from, std::size_t to) const {
  const std::size_t meeting = meeting_point(from, to);
  double narrowest = std::numeric_limits<double>::infinity();
  for (const std::size_t end : {from, to}) {
    for (std::size_t node = slots_[end]; node != meeting; node = nodes_[node].parent) {
      narrowest = std::min(narrowest, nodes_[node].uplink);
    }
  }
  return narrowest;
}

std::vector<std::size_t> PcieTree::counts(const Gpus& group) const {
  std::vector<std::size_t> counts(nodes_.size());
  for (const std::size_t gpu : group) ++counts[slots_[gpu]];
  for (std::size_t node = nodes_.size() - 1; node > 0; --node) {
    counts[nodes_[node].parent] += counts[node];
  }
  return counts;
}

double PcieTree::group_link(const Gpus& group, const Gpus& whole) const {
  // The lowest node above all of `whole` is the last one that has them all, as parents come first.
  const std::vector<std::size_t> all = counts(whole);
  std::size_t top = nodes_.size() - 1;
  while (all[top] != whole.size()) --top;
  const std::vector<std::size_t> own = counts(group);
  std::vector<double> below(nodes_.size());
  for (std::size_t node = nodes_.size() - 1; node > top; --node) {
    if (own[node] == 0) continue;
    const Node& here = nodes_[node];
    const double share =
        here.uplink * static_cast<double>(own[node]) / static_cast<double>(here.gpus);
    const bool is_slot = below[node] == 0;
    below[here.parent] += is_slot ? share : std::min(share, below[node]);
  }
  return below[top];
}

}  // namespace atp
