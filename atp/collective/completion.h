#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "atp/base/result.h"

namespace atp {

// The end of an operation, which comes exactly once. What waits for it is told in a fixed order:
// first the callback, outside all locks, then those who block in wait().
class Completion {
 public:
  explicit Completion(std::function<void(const Status&)> on_done) : on_done_(std::move(on_done)) {}

  // Who calls it owns a share of this object until it returns: who waits for it may be gone first.
  void finish(Status result);
  Status wait();
  bool done() const;

 private:
  std::function<void(const Status&)> on_done_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Status> result_;
};

// An operation that has ended, and whose callers are yet to be told.
template <class Operation>
struct EndedOperation {
  std::shared_ptr<Operation> operation;
  Status result;
};

}  // namespace atp
