#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "python/csrc/process_group.h"

// The groups that are alive, so that a process that ends without destroying them can leave them
// while callbacks may still run. A weak pointer delays a group's destructor, but not its
// release_resources(), in which it leaves and removes itself. A forked child has none of its
// parent's groups.

namespace atp::pytorch {

class LiveGroups {
 public:
  static LiveGroups& instance();

  void add(const c10::intrusive_ptr<ProcessGroupATP>& group);
  void remove(ProcessGroupATP* group);
  // Its wait is bounded, whatever a callback may do.
  void abort_all();

 private:
  std::mutex mutex_;
  std::map<ProcessGroupATP*, c10::weak_intrusive_ptr<ProcessGroupATP>> groups_;
  // A callback that drops its own group is still running when the group is gone.
  std::vector<std::weak_ptr<CompletionPool>> pools_;
};

}  // namespace atp::pytorch
