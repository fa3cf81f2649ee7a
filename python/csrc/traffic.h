#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

// Counts the callers' collectives by the path that each took, which shows whether the gradients
// went through the network of switches, around a ring, or over the peer connections.

namespace atp::pytorch {

struct TrafficRow {
  std::string path;       // "innetwork", "ring" or "peers"
  std::string operation;  // "all_reduce", "broadcast", ...
  std::string dtype;      // "float32", ...; "none" where there is no tensor
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  // the size of this rank's input
};

class Traffic {
 public:
  void add(const char* path, const char* operation, at::TensorList tensors);
  std::vector<TrafficRow> rows() const;

 private:
  struct Count {
    std::uint64_t calls = 0;
    std::uint64_t bytes = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, std::string>, Count> counts_;
};

}  // namespace atp::pytorch
