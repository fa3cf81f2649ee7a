#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "atp/base/result.h"
#include "atp/collective/communicator.h"

// One operation from its submission to its end, shared by the caller's handles and the thread that
// carries it out. It ends exactly once; what waits for it is told in a fixed order: first the
// callback, outside all locks, then those who block in wait().

namespace atp {

class PendingOperation {
 public:
  PendingOperation(std::uint64_t number, std::span<float> data, AllReduceOptions options)
      : number_(number), data_(data), options_(std::move(options)) {}

  std::uint64_t number() const { return number_; }  // among all of this communicator, from 0
  std::span<float> data() const { return data_; }
  const AllReduceOptions& options() const { return options_; }

  void finish(Status result);
  Status wait();
  bool done() const;

 private:
  const std::uint64_t number_;
  const std::span<float> data_;
  AllReduceOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Status> result_;
};

}  // namespace atp
