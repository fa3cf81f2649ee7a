#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "atp/base/result.h"
#include "atp/collective/communicator.h"

// One operation from its submission to its end, shared by the caller's handles and the thread that
// carries it out. It ends exactly once; what waits for it is told in a fixed order: first the
// callback, outside all locks, then those who block in wait().

namespace atp {

// What the caller asked for, of which a PendingOperation may be a part.
struct OperationName {
  std::uint64_t number = 0;  // among all of this communicator, from 0
  std::size_t values = 0;
};

class PendingOperation {
 public:
  PendingOperation(const OperationName& name, std::span<float> data, AllReduceOptions options)
      : name_(name), data_(data), options_(std::move(options)) {}

  const OperationName& name() const { return name_; }
  std::string text() const;  // "all_reduce #17 (1,000 values)"
  std::span<float> data() const { return data_; }
  const AllReduceOptions& options() const { return options_; }

  void finish(Status result);
  Status wait();
  bool done() const;

 private:
  const OperationName name_;
  const std::span<float> data_;
  AllReduceOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Status> result_;
};

}  // namespace atp
