#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "atp/base/random.h"
#include "atp/core/worker/worker.h"
#include "atp/sim/oracle.h"
#include "atp/sim/plan.h"

namespace atp::sim {

// The application above a worker: it submits the job's operations in order, a few at a time with
// pauses, owns their tensors, has each result checked when it completes, and leaves at the end. Its
// constructor allocates all memory.
class Application : public Tensors {
 public:
  Application(const Plan& plan, std::uint32_t job, Rank rank);

  // When to call step(); kNever while it waits for the worker.
  Instant next_action() const;
  void step(Instant now, Worker& worker);
  void handle_event(Instant now, const Event& event, const Worker& worker, Oracle& oracle);

  std::span<const std::byte> input(OperationId id) override { return inputs_[number_of(id)]; }
  std::span<std::byte> output(OperationId id) override { return output_of(number_of(id)); }
  const BlockLayout& layout(OperationId id) override { return layouts_[number_of(id)]; }
  std::span<std::int16_t> exponents(OperationId id) override { return exponents_[number_of(id)]; }

  std::uint32_t job() const { return job_index_; }
  Rank rank() const { return rank_; }
  bool joined() const { return joined_; }
  bool left() const { return left_; }
  bool finished() const { return completed_ == operations_.size(); }
  std::uint64_t completed() const { return completed_; }
  // How often the worker had no room for an operation.
  std::uint64_t waits_for_room() const { return waits_for_room_; }
  std::uint32_t detached() const { return detached_; }
  std::uint32_t attached() const { return attached_; }
  bool failed() const { return failure_.has_value(); }
  const std::optional<Failure>& failure() const { return failure_; }
  // Whether it has left before the end, as its plan says.
  bool aborted() const { return aborted_; }
  std::uint64_t failed_operations() const { return failed_operations_; }
  const std::vector<std::string>& violations() const { return violations_; }

  void leave() { wants_to_leave_ = true; }
  // Checks that no tensor was written to after its operation had completed or failed, when its
  // memory belongs to the caller again. Call it at the end.
  void check_untouched();

 private:
  void submit(Instant now, Worker& worker);
  Instant resumes_at(Instant now, std::uint64_t number) const;
  void complete(Instant now, std::uint64_t number, const Worker& worker, Oracle& oracle);
  void abort_if_planned();
  void seal(std::uint64_t number);
  // The operation's number in the plan; beyond all of them if it is not one of the plan's.
  std::uint64_t number_of(OperationId id) const { return id - first_operation_; }
  std::span<std::byte> output_of(std::uint64_t number) {
    return operations_[number].in_place ? inputs_[number] : outputs_[number];
  }

  JobPlan job_;
  std::uint32_t job_index_;
  Rank rank_;
  OperationId first_operation_;
  std::vector<OperationPlan> operations_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::vector<std::byte>> outputs_;  // empty if the operation is in place
  std::vector<BlockLayout> layouts_;
  std::vector<std::vector<std::int16_t>> exponents_;
  Random random_;
  Instant heal_{};
  Duration late_{};  // behind the others in each step
  Instant ready_{};  // the earliest time of the next submission
  bool started_ = false;
  bool joined_ = false;
  bool left_ = false;
  bool wants_to_leave_ = false;
  bool leaving_ = false;
  bool aborted_ = false;
  bool has_no_room_ = false;  // the worker's queue is full until an operation has ended
  std::uint64_t submitted_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t waits_for_room_ = 0;
  std::uint64_t failed_operations_ = 0;
  std::uint32_t detached_ = 0;
  std::uint32_t attached_ = 0;
  std::vector<bool> done_;
  std::vector<std::optional<std::uint64_t>>
      seals_;  // hashes of the tensors of operations that ended
  std::optional<Failure> failure_;
  std::vector<std::string> violations_;
};

}  // namespace atp::sim
