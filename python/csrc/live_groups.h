#pragma once

#include <mutex>
#include <set>
#include <vector>

#include "python/csrc/process_group.h"

// The groups that are alive, so that a process that ends without destroying them can leave them
// while callbacks may still run. A group adds itself, and removes itself first thing in its
// destructor, so a pointer in here is valid for as long as the lock is held. (A c10 weak pointer
// would delay the destructor itself.) A forked child has none of its parent's groups.

namespace atp::pytorch {

class LiveGroups {
 public:
  static LiveGroups& instance();

  void add(ProcessGroupATP* group);
  void remove(ProcessGroupATP* group);
  // Its wait is bounded, whatever a callback may do.
  void abort_all();

 private:
  std::mutex mutex_;
  std::set<ProcessGroupATP*> groups_;
  // A callback that drops its own group is still running when the group is gone.
  std::vector<std::weak_ptr<CompletionPool>> pools_;
};

}  // namespace atp::pytorch
