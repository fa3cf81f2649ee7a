#include "atp/config/interconnect/nvidia_topology.h"

#include <algorithm>
#include <optional>

#include "atp/config/text/file.h"
#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

using planner::Level;
using planner::LevelKind;

// GPUs connected by some class of links or a closer one, in an order that keeps closer groups
// together.
struct Group {
  std::vector<std::size_t> gpus;
  std::size_t children = 1;  // groups of the next closer class; 1 if this class merges none
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
    Group group{.gpus = {}, .children = 0};
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
    }
    group.children = reached.size();
    stage.groups.push_back(std::move(group));
  }
  return stage;
}

// The stages at which groups grow, closest first.
std::vector<Stage> stages_of(const NvidiaMatrix& matrix) {
  std::vector<Group> groups;
  groups.reserve(matrix.gpus);
  for (std::size_t gpu = 0; gpu < matrix.gpus; ++gpu) groups.push_back({.gpus = {gpu}});
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
    return group.children == stage.groups.front().children &&
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

LevelKind nvlink_kind(std::size_t gpus, int links) {
  // The maximum number of NVLinks per GPU to date (H100 and B200).
  constexpr int kMaxNvLinks = 18;
  if (gpus == 2) return LevelKind::kPairs;
  const bool direct = static_cast<int>(gpus - 1) * links <= kMaxNvLinks;
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

Level level_of(const Stage& stage, const Stage* below, const GpuLinkBandwidths& bandwidths,
               std::optional<int> nvlinks) {
  Level level{.name = child_name(below),
              .count = static_cast<std::uint32_t>(stage.groups.front().children)};
  if (stage.link == GpuLink::kNvLink) {
    level.kind = nvlink_kind(stage.groups.front().gpus.size(), *nvlinks);
    level.bandwidth = {bandwidths.of({.link = GpuLink::kNvLink, .nvlinks = *nvlinks})};
    return level;
  }
  level.bandwidth = {bandwidths.of({.link = stage.link})};
  // GPUs connected by NVLink still have a PCIe slot each; groups connected by PCIe share a link.
  if (below != nullptr && below->link == GpuLink::kNvLink) {
    level.bandwidth = level.bandwidth * static_cast<double>(below->groups.front().gpus.size());
  }
  return level;
}

// Levels, top to bottom; empty if the machine is not a tree of equal groups.
std::vector<Level> levels_of(const NvidiaMatrix& matrix, const std::vector<Stage>& stages,
                             const GpuLinkBandwidths& bandwidths) {
  std::vector<Level> levels;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    std::optional<int> nvlinks;
    if (stages[i].link == GpuLink::kNvLink) {
      nvlinks = uniform_nvlinks(matrix, stages[i]);
      if (!nvlinks) return {};
    }
    if (!is_even(stages[i])) return {};
    levels.push_back(level_of(stages[i], i == 0 ? nullptr : &stages[i - 1], bandwidths, nvlinks));
  }
  std::reverse(levels.begin(), levels.end());
  return levels;
}

void describe_pairs(const NvidiaMatrix& matrix, const GpuLinkBandwidths& bandwidths,
                    Imported& imported) {
  planner::PointToPointMatrix pairs{.size = static_cast<std::uint32_t>(matrix.gpus)};
  double most = 0;
  bool has_nvlink = false;
  for (std::size_t from = 0; from < matrix.gpus; ++from) {
    for (std::size_t to = 0; to < matrix.gpus; ++to) {
      const double bandwidth = from == to ? 0 : bandwidths.of(matrix.at(from, to));
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
      "Each GPU has one slot. That pairs between sockets share a link is not modelled.");
}

// A layout orders devices by the levels, which may differ from the order of their numbers.
void remark_order(const Stage& top, Imported& imported) {
  const std::vector<std::size_t>& order = top.groups.front().gpus;
  if (std::is_sorted(order.begin(), order.end())) return;
  std::string text;
  for (const std::size_t gpu : order) text += (text.empty() ? "" : ",") + std::to_string(gpu);
  imported.remarks.push_back(
      "The order here differs from the GPUs' numbers: run with "
      "CUDA_VISIBLE_DEVICES=" +
      text + ".");
}

Imported import_matrix(const NvidiaMatrix& matrix, const std::string& file,
                       const GpuLinkBandwidths& bandwidths) {
  if (matrix.gpus < 2) refuse({file, 0, ""}, "one GPU", "two or more");
  Imported imported;
  imported.interconnect.name = made_plain(file.substr(file.find_last_of('/') + 1));
  imported.remarks = {
      "Imported from " + made_plain(file) + ", the output of nvidia-smi topo -m.",
      "It contains no bandwidths: these are typical ones for the classes of links. Replace them "
      "with yours."};
  const std::vector<Stage> stages = stages_of(matrix);
  imported.interconnect.levels = levels_of(matrix, stages, bandwidths);
  if (imported.interconnect.levels.empty()) {
    describe_pairs(matrix, bandwidths, imported);
  } else {
    remark_order(stages.back(), imported);
  }
  const Status valid = planner::validate(imported.interconnect);
  if (!valid) throw FileError({file, 0, ""}, valid.error().message);
  return imported;
}

}  // namespace

double GpuLinkBandwidths::of(const GpuPath& path) const {
  return bytes_per_second[static_cast<std::size_t>(path.link)] *
         (path.link == GpuLink::kNvLink ? path.nvlinks : 1);
}

Result<Imported> import_nvidia_topology(std::string_view text, const std::string& file,
                                        const GpuLinkBandwidths& bandwidths) {
  return read_or_error(
      [&] { return import_matrix(parse_nvidia_matrix(text, file), file, bandwidths); });
}

}  // namespace atp
