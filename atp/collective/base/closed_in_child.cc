#include "atp/collective/base/closed_in_child.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <utility>

namespace atp {
namespace {

struct Registry {
  std::mutex mutex;  // held during a fork, so that the child has a consistent set
  std::set<int> descriptors;
};

Registry* registry = nullptr;  // never destroyed: threads may outlive static objects

void before_fork() { registry->mutex.lock(); }

void in_parent() { registry->mutex.unlock(); }

void in_child() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : registry->descriptors) {
    if (null < 0 || dup3(null, descriptor, O_CLOEXEC) < 0) close(descriptor);
  }
  if (null >= 0) close(null);
  registry->descriptors.clear();
  registry->mutex.unlock();
}

Registry& the_registry() {
  static std::once_flag once;
  std::call_once(once, [] {
    registry = new Registry;
    pthread_atfork(before_fork, in_parent, in_child);
  });
  return *registry;
}

}  // namespace

ClosedInChild::ClosedInChild(std::vector<int> descriptors) : descriptors_(std::move(descriptors)) {
  const std::lock_guard lock(the_registry().mutex);
  registry->descriptors.insert(descriptors_.begin(), descriptors_.end());
}

ClosedInChild::ClosedInChild(const std::function<int()>& open) {
  const std::lock_guard lock(the_registry().mutex);
  descriptors_ = {open()};
  if (descriptors_.front() >= 0) registry->descriptors.insert(descriptors_.front());
}

ClosedInChild::~ClosedInChild() {
  const std::lock_guard lock(registry->mutex);
  for (const int descriptor : descriptors_) registry->descriptors.erase(descriptor);
}

}  // namespace atp
