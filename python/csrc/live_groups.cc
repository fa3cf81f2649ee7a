#include "python/csrc/live_groups.h"

#include <pthread.h>

namespace atp::pytorch {
namespace {

// Not destroyed: groups may outlive static objects, and a forked child cannot know what state the
// parent's was in.
LiveGroups* of_this_process = nullptr;

void start_afresh() { of_this_process = new LiveGroups; }

}  // namespace

LiveGroups& LiveGroups::instance() {
  static std::once_flag once;
  std::call_once(once, [] {
    start_afresh();
    pthread_atfork(nullptr, nullptr, start_afresh);
  });
  return *of_this_process;
}

void LiveGroups::add(const c10::intrusive_ptr<ProcessGroupATP>& group) {
  const std::lock_guard lock(mutex_);
  groups_.emplace(group.get(), group);
  std::erase_if(pools_, [](const auto& pool) { return pool.expired(); });
  pools_.push_back(group->completion_pool());
}

void LiveGroups::remove(ProcessGroupATP* group) {
  const std::lock_guard lock(mutex_);
  groups_.erase(group);
}

// The lock is held over nothing that a group does, because the end of one may drop another, and a
// callback may drop any.
void LiveGroups::abort_all() {
  std::vector<c10::intrusive_ptr<ProcessGroupATP>> groups;
  std::vector<std::weak_ptr<CompletionPool>> pools;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, weak] : groups_) {
      if (auto group = weak.lock()) groups.push_back(std::move(group));
    }
    pools = pools_;
  }
  for (const auto& group : groups) group->give_up_at_exit();  // all at once
  for (const auto& group : groups) group->abort();
  groups.clear();
  for (const auto& weak : pools) {
    if (const auto pool = weak.lock()) pool->wait_until_idle_for(std::chrono::seconds(10));
  }
}

}  // namespace atp::pytorch
