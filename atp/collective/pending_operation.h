#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "atp/base/result.h"
#include "atp/collective/communicator.h"
#include "atp/collective/completion.h"

// One operation from its submission to its end, shared by the caller's handles and the thread that
// carries it out.

namespace atp {

// What the caller asked for, of which a PendingOperation may be a part.
struct OperationName {
  std::uint64_t number = 0;  // among all of this communicator, from 0
  std::size_t values = 0;
};

class PendingOperation {
 public:
  PendingOperation(const OperationName& name, std::span<float> data, AllReduceOptions options)
      : name_(name),
        data_(data),
        options_(std::move(options)),
        completion_(std::exchange(options_.on_done, nullptr)) {}

  const OperationName& name() const { return name_; }
  std::string text() const;  // "all_reduce #17 (1,000 values)"
  std::span<float> data() const { return data_; }
  const AllReduceOptions& options() const { return options_; }  // without the callback

  void finish(Status result) { completion_.finish(std::move(result)); }
  Status wait() { return completion_.wait(); }
  bool done() const { return completion_.done(); }

 private:
  const OperationName name_;
  const std::span<float> data_;
  AllReduceOptions options_;
  Completion completion_;
};

}  // namespace atp
