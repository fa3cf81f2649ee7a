#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "atp/base/interrupt.h"
#include "atp/base/result.h"

namespace atp {

// The end of an operation, which comes exactly once. First the callback runs, outside all locks;
// then the threads that block in wait() continue.
class Completion {
 public:
  explicit Completion(std::function<void(const Status&)> on_done) : on_done_(std::move(on_done)) {}

  // The caller must own a reference to this object until it returns: those who wait may be gone.
  void finish(Status result);
  Status wait();
  // False: it has not ended.
  bool wait_or_interrupted(const MaybeInterruption& interruption = nullptr);
  bool done() const;

 private:
  std::function<void(const Status&)> on_done_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Status> result_;
};

// An operation that has ended, but whose callers have not been told yet.
template <class Operation>
struct EndedOperation {
  std::shared_ptr<Operation> operation;
  Status result;
};

}  // namespace atp
