#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "atp/config/interconnect/nvidia_matrix.h"
#include "atp/planner/interconnect.h"

// The GPUs of one machine as levels, whichever program has described it.
//
// GPUs connected by one class of links form groups, and these form the groups of the next class,
// and so on. If all groups of a class have the same size, this tree becomes levels. A group fully
// connected by NVLinks becomes a switch if the machine has an NVSwitch or if a GPU could not have
// that many links; otherwise it becomes direct links. Any other machine becomes one level with a
// matrix of its pairs: direct links if there are NVLinks (such as the cube of eight V100), else a
// switch, because each GPU has one slot.

namespace atp {

using Gpus = std::vector<std::size_t>;

// The paths between a machine's GPUs, and their bandwidths in bytes per second per direction.
struct GpuMachine {
  NvidiaMatrix paths;
  bool has_nvswitch = false;  // known to have one; else the number of NVLinks decides
  double nvlink = 0;          // of one NVLink
  // The combined bandwidth from `group` to the rest of `whole`, whose groups are joined by links of
  // this class. `by_nvlink`: NVLink joins the GPUs of `group`.
  std::function<double(GpuLink, const Gpus& group, const Gpus& whole, bool by_nvlink)> group_link;
  std::function<double(std::size_t from, std::size_t to)> pair;
  std::vector<int> numbers;  // of the GPUs for CUDA; empty: from 0
};

// A machine, or one host of several.
struct ImportedMachine {
  planner::Interconnect interconnect;  // without levels if it has a single GPU
  std::string source;                  // "the output of nvidia-smi topo -m"
  std::vector<std::string> remarks;
  std::size_t gpus = 0;
  std::string order;   // CUDA_VISIBLE_DEVICES for the order of the levels; empty: by number
  double network = 0;  // of its network cards together, in bytes per second; 0: unknown
};

// Only levels, matrix and what follows from their choice: remarks, number and order of GPUs.
ImportedMachine machine_of(const GpuMachine& machine);

}  // namespace atp
