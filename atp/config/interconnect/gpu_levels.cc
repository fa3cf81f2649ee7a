#include "atp/config/interconnect/gpu_levels.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace atp {
namespace {

using planner::Level;
using planner::LevelKind;

// GPUs connected by some class of links or a closer one, in an order that keeps closer groups
// together.
struct Group {
  Gpus gpus;
  std::vector<Gpus> parts;  // the groups of the next closer class
};

// All groups of one class.
struct Stage {
  GpuLink link;
  std::vector<Group> groups;
};

bool joined(const NvidiaMatrix& matrix, const Group& a, const Group& b, GpuLink farthest) {
  return std::any_of(a.gpus.begin(), a.gpus.end(), [&](std::size_t from) {
    return std::any_of(b.gpus.begin(), b.gpus.end(),
                       [&](std::size_t to) { return matrix.at(from, to).link <= farthest; });
  });
}

// Merges groups of the stage below that are connected by links of this class or a closer one.
Stage merge(const NvidiaMatrix& matrix, const std::vector<Group>& below, GpuLink link) {
  Stage stage{.link = link, .groups = {}};
  std::vector<bool> taken(below.size(), false);
  for (std::size_t first = 0; first < below.size(); ++first) {
    if (taken[first]) continue;
    Group group;
    std::vector<std::size_t> reached{first};
    taken[first] = true;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const Group& part = below[reached[i]];
      for (std::size_t other = 0; other < below.size(); ++other) {
        if (taken[other] || !joined(matrix, part, below[other], link)) continue;
        taken[other] = true;
        reached.push_back(other);
      }
    }
    std::sort(reached.begin(), reached.end());
    for (const std::size_t part : reached) {
      group.gpus.insert(group.gpus.end(), below[part].gpus.begin(), below[part].gpus.end());
      group.parts.push_back(below[part].gpus);
    }
    stage.groups.push_back(std::move(group));
  }
  return stage;
}

// The stages at which groups grow, closest first.
std::vector<Stage> stages_of(const NvidiaMatrix& matrix) {
  std::vector<Group> groups;
  groups.reserve(matrix.gpus);
  for (std::size_t gpu = 0; gpu < matrix.gpus; ++gpu)
    groups.push_back({.gpus = {gpu}, .parts = {}});
  std::vector<Stage> stages;
  for (int kind = 0; kind < kGpuLinkKinds; ++kind) {
    Stage stage = merge(matrix, groups, static_cast<GpuLink>(kind));
    if (stage.groups.size() == groups.size()) continue;
    groups = stage.groups;
    stages.push_back(std::move(stage));
  }
  return stages;
}

bool is_even(const Stage& stage) {
  return std::all_of(stage.groups.begin(), stage.groups.end(), [&](const Group& group) {
    return group.parts.size() == stage.groups.front().parts.size() &&
           group.gpus.size() == stage.groups.front().gpus.size();
  });
}

// The number of NVLinks per pair of GPUs, if it is the same for all pairs in all groups.
std::optional<int> uniform_nvlinks(const NvidiaMatrix& matrix, const Stage& stage) {
  std::optional<int> links;
  for (const Group& group : stage.groups) {
    for (const std::size_t from : group.gpus) {
      for (const std::size_t to : group.gpus) {
        if (from == to) continue;
        const GpuPath& path = matrix.at(from, to);
        if (path.link != GpuLink::kNvLink || (links && *links != path.nvlinks)) {
          return std::nullopt;
        }
        links = path.nvlinks;
      }
    }
  }
  return links;
}

LevelKind nvlink_kind(const GpuMachine& machine, std::size_t gpus, int links) {
  // The maximum number of NVLinks per GPU to date (H100 and B200).
  constexpr int kMaxNvLinks = 18;
  if (gpus == 2) return LevelKind::kPairs;
  const bool direct = !machine.has_nvswitch && static_cast<int>(gpus - 1) * links <= kMaxNvLinks;
  return direct ? LevelKind::kFull : LevelKind::kSwitch;
}

std::string child_name(const Stage* below) {
  if (below == nullptr) return "gpu";
  switch (below->link) {
    case GpuLink::kNvLink: return "NVLink group";
    case GpuLink::kPix: return "PCIe switch";
    case GpuLink::kPxb: return "PCIe tree";
    case GpuLink::kPhb: return "host bridge";
    case GpuLink::kNode:
    case GpuLink::kSys: return "NUMA node";
  }
  return "gpu";
}

// The slowest link counts.
double slowest_link(const GpuMachine& machine, const Stage& stage, bool by_nvlink) {
  double slowest = std::numeric_limits<double>::infinity();
  for (const Group& group : stage.groups) {
    for (const Gpus& part : group.parts) {
      slowest = std::min(slowest, machine.group_link(stage.link, part, group.gpus, by_nvlink));
    }
  }
  return slowest;
}

Level level_of(const GpuMachine& machine, const Stage& stage, const Stage* below,
               std::optional<int> nvlinks) {
  Level level{.name = child_name(below),
              .count = static_cast<std::uint32_t>(stage.groups.front().parts.size())};
  if (stage.link == GpuLink::kNvLink) {
    level.kind = nvlink_kind(machine, stage.groups.front().gpus.size(), *nvlinks);
    level.bandwidth = {machine.nvlink * *nvlinks};
    return level;
  }
  const bool by_nvlink = below != nullptr && below->link == GpuLink::kNvLink;
  level.bandwidth = {slowest_link(machine, stage, by_nvlink)};
  return level;
}

// Levels, top to bottom; empty if the machine is not a tree of equal groups.
std::vector<Level> levels_of(const GpuMachine& machine, const std::vector<Stage>& stages) {
  std::vector<Level> levels;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    std::optional<int> nvlinks;
    if (stages[i].link == GpuLink::kNvLink) {
      nvlinks = uniform_nvlinks(machine.paths, stages[i]);
      if (!nvlinks) return {};
    }
    if (!is_even(stages[i])) return {};
    levels.push_back(level_of(machine, stages[i], i == 0 ? nullptr : &stages[i - 1], nvlinks));
  }
  std::reverse(levels.begin(), levels.end());
  return levels;
}

void describe_pairs(const GpuMachine& machine, ImportedMachine& imported) {
  const NvidiaMatrix& matrix = machine.paths;
  planner::PointToPointMatrix pairs{.size = static_cast<std::uint32_t>(matrix.gpus)};
  double most = 0;
  bool has_nvlink = false;
  for (std::size_t from = 0; from < matrix.gpus; ++from) {
    for (std::size_t to = 0; to < matrix.gpus; ++to) {
      const double bandwidth = from == to ? 0 : machine.pair(from, to);
      most = std::max(most, bandwidth);
      has_nvlink |= from != to && matrix.at(from, to).link == GpuLink::kNvLink;
      pairs.bandwidth.push_back({bandwidth});
    }
  }
  imported.interconnect.levels = {{.name = "gpu",
                                   .count = static_cast<std::uint32_t>(matrix.gpus),
                                   .kind = has_nvlink ? LevelKind::kFull : LevelKind::kSwitch,
                                   .bandwidth = {most}}};
  imported.interconnect.point_to_point = std::move(pairs);
  imported.remarks.emplace_back(
      "The GPUs do not form a tree of equal groups, so each pair is described separately.");
  if (has_nvlink) return;
  imported.remarks.emplace_back(
      "Each GPU has one slot. Links that pairs between sockets share are not modelled.");
}

// A layout orders devices by the levels, which may differ from the order of their numbers.
std::string order_of(const GpuMachine& machine, const Gpus& order) {
  std::string text;
  for (const std::size_t gpu : order) {
    const int number = machine.numbers.empty() ? static_cast<int>(gpu) : machine.numbers[gpu];
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

}  // namespace

ImportedMachine machine_of(const GpuMachine& machine) {
  ImportedMachine imported{.gpus = machine.paths.gpus};
  const std::vector<Stage> stages = stages_of(machine.paths);
  if (stages.empty()) return imported;
  imported.interconnect.levels = levels_of(machine, stages);
  if (imported.interconnect.levels.empty()) {
    describe_pairs(machine, imported);
    return imported;
  }
  const Gpus& order = stages.back().groups.front().gpus;
  if (!std::is_sorted(order.begin(), order.end())) imported.order = order_of(machine, order);
  return imported;
}

}  // namespace atp
