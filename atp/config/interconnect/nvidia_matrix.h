#pragma once

#include <string>
#include <string_view>
#include <vector>

// The matrix that `nvidia-smi topo -m` prints: the path between each pair of GPUs. Its columns for
// network cards and CPU affinity and its legend are skipped.

namespace atp {

// From the closest to the farthest.
enum class GpuLink {
  kNvLink,  // NV#: a bonded set of # NVLinks
  kPix,     // at most one PCIe bridge
  kPxb,     // several PCIe bridges, no host bridge
  kPhb,     // a PCIe host bridge, typically the CPU
  kNode,    // the interconnect between host bridges of a NUMA node
  kSys,     // the interconnect between NUMA nodes (SOC in old versions)
};
inline constexpr int kGpuLinkKinds = 6;

struct GpuPath {
  GpuLink link = GpuLink::kSys;
  int nvlinks = 0;  // for kNvLink
  bool operator==(const GpuPath&) const = default;
};

struct NvidiaMatrix {
  std::size_t gpus = 0;
  std::vector<GpuPath> paths;  // gpus x gpus in row order; the diagonal is unused
  const GpuPath& at(std::size_t from, std::size_t to) const { return paths[from * gpus + to]; }
};

std::string_view gpu_link_name(GpuLink link);  // "NV", "PIX", ...

// Throws FileError.
NvidiaMatrix parse_nvidia_matrix(std::string_view text, const std::string& file);

}  // namespace atp
