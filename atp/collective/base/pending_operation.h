#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "atp/base/result.h"
#include "atp/collective/base/collective_request.h"
#include "atp/collective/base/completion.h"
#include "atp/collective/base/number_text.h"
#include "atp/core/worker/worker_api.h"

// One operation from its submission to its end, shared by the caller's handles and the thread that
// carries it out.

namespace atp {

// Identifies the caller's operation, of which a PendingOperation may be a part.
struct OperationName {
  std::uint64_t number = 0;  // in this communicator, from 0
  std::size_t values = 0;
  std::string_view what = "all_reduce";
};

class PendingOperation {
 public:
  // May replace the operation's result, before anybody is told.
  using Judge = std::function<Status(Status)>;

  // `layout`: of the values that are added, or of the bytes of the longest block. `format`: for a
  // floating-point sum that is not small.
  PendingOperation(const OperationName& name, CollectiveRequest&& request, BlockLayout layout,
                   NumberFormat format, Judge judge = nullptr)
      : name_(name),
        request_(std::move(request)),
        layout_(std::move(layout)),
        kind_{data_type_of(request_.kind).value_or(DataType::kFloat32),
              wire_reduction_of(request_.reduction).value_or(Reduction::kSum), format},
        judge_(std::move(judge)),
        completion_(std::exchange(request_.on_done, nullptr)) {}

  const OperationName& name() const { return name_; }
  std::string text() const;  // "all_reduce #17 (1,000 values)"
  // "the sum of 1,000 float32 values in blocks of int32"
  std::string kind_text(std::size_t world_size) const;
  const CollectiveRequest& request() const { return request_; }  // without the callback
  // Of an all-reduce: its memory.
  Bytes bytes() const { return request_.outputs.empty() ? Bytes() : request_.outputs.front(); }
  const BlockLayout& layout() const { return layout_; }
  const OperationKind& kind() const { return kind_; }
  // The format of a sum, unless it is small.
  NumberFormat format() const { return kind_.format; }
  // Depends on the whole operation, before it was split.
  bool is_small(std::size_t world_size) const {
    return name_.values <= small_operation_values(world_size);
  }

  // Its number on a path that it may take (Transport::reserve()).
  void set_reserved(std::uint64_t number) { reserved_ = number; }
  std::uint64_t reserved() const { return reserved_; }

  // Its time was up before it could begin.
  bool is_too_late() const {
    return request_.timeout_is_total && request_.spent >= request_.timeout;
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
  const OperationName name_;
  CollectiveRequest request_;
  const BlockLayout layout_;
  const OperationKind kind_;
  Judge judge_;
  std::uint64_t reserved_ = 0;
  Completion completion_;
};

}  // namespace atp
