#pragma once

#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/config/interconnect/gpu_levels.h"
#include "atp/config/interconnect/interconnect_file.h"

// One cluster of hosts, each imported from its own file. The planner knows trees of equal units, so
// the hosts must have the same levels; if bandwidths differ, the slowest counts.

namespace atp {

struct ImportedHost {
  std::string name;
  std::string file;
  ImportedMachine machine;
};

// The cluster file of a single machine of two GPUs or more. The name may be empty.
Result<Imported> imported_machine(const ImportedHost& host);

// The cluster of two hosts or more with different names, under one switch. `host_bandwidth` is that
// of a host's link, in bytes per second per direction. 0: that of its network cards if the files
// have it, else 100 Gbit/s.
Result<Imported> merged_hosts(const std::vector<ImportedHost>& hosts, double host_bandwidth = 0);

}  // namespace atp
