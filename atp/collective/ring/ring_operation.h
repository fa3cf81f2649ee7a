#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "atp/collective/ring/request.h"

// One operation from its submission to its end, shared by the caller's handle and the ring's
// thread. It ends exactly once: first the callback is told, then those who wait.

namespace atp {

class RingOperation {
 public:
  RingOperation(RingRequest request, std::uint64_t number)
      : request_(std::move(request)), number_(number) {}

  const RingRequest& request() const { return request_; }
  std::uint64_t number() const { return number_; }
  std::string text() const { return operation_text(request_, number_); }

  void finish(Status result);
  Status wait();
  bool done() const;

 private:
  RingRequest request_;
  const std::uint64_t number_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Status> result_;
};

}  // namespace atp
