#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "atp/base/result.h"
#include "atp/collective/base/completion.h"
#include "atp/collective/base/host_request.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/base/request.h"
#include "atp/core/worker/worker_api.h"

// One operation from its submission to its end, shared by the caller's handles and the thread that
// carries it out.

namespace atp {

// Identifies the caller's operation, of which a PendingOperation may be a part.
struct OperationName {
  std::uint64_t number = 0;  // in this communicator, from 0
  std::size_t values = 0;
  const char* what = "all_reduce";
};

// Consecutive blocks of a tensor.
struct TensorPart {
  Values values;
  BlockLayout layout;
};

class PendingOperation {
 public:
  // May replace the operation's result, before anybody is told.
  using Judge = std::function<Status(Status)>;

  // `format`: for a floating-point sum that is not small.
  PendingOperation(const OperationName& name, TensorPart part, NumberFormat format,
                   AllReduceOptions options, Judge judge = nullptr)
      : name_(name),
        part_(std::move(part)),
        options_(std::move(options)),
        kind_{part_.values.type, options_.reduction, format},
        judge_(std::move(judge)),
        completion_(std::exchange(options_.on_done, nullptr)) {}
  // Only in a host's memory.
  PendingOperation(const OperationName& name, TensorPart part, NumberFormat format,
                   AllReduceOptions options, HostRequest request)
      : PendingOperation(name, std::move(part), format, std::move(options)) {
    request_ = std::move(request);
  }

  const OperationName& name() const { return name_; }
  std::string text() const;  // "all_reduce #17 (1,000 values)"
  // "the sum of 1,000 float32 values in blocks of int32"
  std::string kind_text(std::size_t world_size) const;
  std::span<std::byte> bytes() const {
    return {part_.values.data, part_.values.count * bytes_of(part_.values.type)};
  }
  const BlockLayout& layout() const { return part_.layout; }
  const AllReduceOptions& options() const { return options_; }  // without the callback
  const Values& values() const { return part_.values; }
  // Null: an all-reduce.
  const HostRequest* request() const { return request_ ? &*request_ : nullptr; }
  // The format of a sum, unless it is small.
  NumberFormat format() const { return kind_.format; }

  // Its number on a path that it may take (Transport::reserve()).
  void set_reserved(std::uint64_t number) { reserved_ = number; }
  std::uint64_t reserved() const { return reserved_; }

  // Its time was up before it could begin.
  bool is_too_late() const {
    return options_.timeout_is_total && options_.spent >= options_.timeout;
  }

  // Its description for the worker, in a job with this many ranks. Its limits count from now.
  OperationSpec spec(std::size_t world_size, Instant now) const;

  void finish(Status result);
  Status wait() { return completion_.wait(); }
  bool wait_or_interrupted(const MaybeInterruption& interruption) {
    return completion_.wait_or_interrupted(interruption);
  }
  bool done() const { return completion_.done(); }

 private:
  // Depends on the whole operation, before it was split.
  bool is_small(std::size_t world_size) const {
    return name_.values <= small_operation_values(world_size);
  }

  const OperationName name_;
  const TensorPart part_;
  AllReduceOptions options_;
  const OperationKind kind_;
  Judge judge_;
  std::optional<HostRequest> request_;
  std::uint64_t reserved_ = 0;
  Completion completion_;
};

}  // namespace atp
