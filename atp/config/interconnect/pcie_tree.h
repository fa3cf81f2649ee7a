#pragma once

#include <cstddef>
#include <vector>

#include "atp/config/interconnect/gpu_levels.h"

// The tree by which a machine's GPUs reach each other without NVLink: NUMA nodes, below them PCIe
// switches, below them GPUs. Unlike the classes of `nvidia-smi topo -m` it shows which links are
// shared.

namespace atp {

class PcieTree {
 public:
  enum class Kind { kMachine, kNumaNode, kPcie };

  PcieTree();  // the machine alone, which is node 0

  // Adds a node below another one and returns its number. `uplink` is in bytes per second per
  // direction. A GPU is the node of its slot.
  std::size_t add(std::size_t parent, Kind kind, double uplink);
  std::size_t add_gpu(std::size_t parent, double uplink);  // GPUs count from 0 in this order

  std::size_t gpus() const { return slots_.size(); }
  // PIX, PXB, PHB or SYS, as nvidia-smi calls them.
  GpuLink link(std::size_t from, std::size_t to) const;
  // The narrowest link between two GPUs.
  double pair(std::size_t from, std::size_t to) const;
  // The combined bandwidth from `group` to the rest of `whole`. A link that other GPUs share counts
  // in proportion.
  double group_link(const Gpus& group, const Gpus& whole) const;

 private:
  struct Node {
    std::size_t parent;
    Kind kind;
    double uplink;
    std::size_t depth;
    std::size_t gpus = 0;  // below it
  };
  std::size_t meeting_point(std::size_t from, std::size_t to) const;
  std::vector<std::size_t> counts(const Gpus& group) const;  // by node

  std::vector<Node> nodes_;         // parents first
  std::vector<std::size_t> slots_;  // the nodes of the GPUs
};

}  // namespace atp
