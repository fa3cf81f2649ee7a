#include "python/csrc/live_groups.h"

namespace atp::pytorch {

LiveGroups& LiveGroups::instance() {
  static LiveGroups groups;
  return groups;
}

void LiveGroups::add(ProcessGroupATP* group) {
  const std::lock_guard lock(mutex_);
  groups_.insert(group);
  std::erase_if(queues_, [](const auto& queue) { return queue.expired(); });
  queues_.push_back(group->completion_queue());
}

void LiveGroups::remove(ProcessGroupATP* group) {
  const std::lock_guard lock(mutex_);
  groups_.erase(group);
}

void LiveGroups::abort_all() {
  std::vector<std::weak_ptr<CompletionThread::Queue>> queues;
  {
    const std::lock_guard lock(mutex_);
    for (ProcessGroupATP* group : groups_) group->abort();
    queues = queues_;
  }
  // Not under the lock: a callback may drop a group.
  for (const auto& weak : queues) {
    if (const auto queue = weak.lock()) queue->wait_until_idle_for(std::chrono::seconds(10));
  }
}

}  // namespace atp::pytorch
