// When a simulated rank submits operations, with which tensors, and whether the results are right.
#include "atp/sim/application.h"

#include <algorithm>

#include "atp/sim/values.h"

namespace atp::sim {
namespace {

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<int>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace

Application::Application(const Plan& plan, std::uint32_t job, Rank rank)
    : job_(plan.jobs[job]),
      job_index_(job),
      rank_(rank),
      first_operation_(plan.first_operation),
      operations_(rank < job_.own_operations.size() && !job_.own_operations[rank].empty()
                      ? job_.own_operations[rank]
                      : job_.operations),
      random_(plan.seed * 7919 + job * 1009 + rank),
      heal_(plan.heal),
      done_(operations_.size()),
      seals_(operations_.size()) {
  if (rank < job_.start.size()) ready_ += job_.start[rank];
  if (rank < job_.late.size()) late_ = job_.late[rank];
  inputs_.resize(operations_.size());
  outputs_.resize(operations_.size());
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    OperationPlan& operation = operations_[i];
    layouts_.push_back(operation.segments.empty() ? BlockLayout(operation.spec.count)
                                                  : BlockLayout(operation.segments));
    exponents_.emplace_back(layouts_.back().blocks());
    operation.spec.blocks = layouts_.back().blocks();
    operation.spec.layout = layouts_.back().fingerprint();
    inputs_[i].resize(operation.spec.count * bytes_of(operation.spec.type));
    fill_input(job_, i, rank, operation, inputs_[i]);
    if (!operation.in_place) outputs_[i].resize(inputs_[i].size());
  }
}

Instant Application::next_action() const {
  if (!started_) return ready_;
  if (left_ || leaving_) return kNever;
  if (wants_to_leave_) return Instant{};
  if (failure_) return kNever;
  const bool may_submit = joined_ && !has_no_room_ && submitted_ < operations_.size() &&
                          submitted_ - completed_ < job_.max_in_flight;
  return may_submit ? ready_ : kNever;
}

void Application::step(Instant now, Worker& worker) {
  if (!started_) {
    started_ = true;
    worker.start(now);
  } else if (wants_to_leave_) {
    leaving_ = true;
    const char* const cause = failure_ ? "mismatch" : aborted_ ? "it was told to stop" : "";
    worker.leave(now, cause);
  } else {
    submit(now, worker);
  }
}

void Application::submit(Instant now, Worker& worker) {
  const std::optional<OperationId> id = worker.submit(now, operations_[submitted_].spec);
  if (!id && worker.joined() && submitted_ > completed_) {
    has_no_room_ = true;
    ++waits_for_room_;
    return;
  }
  if (!id || number_of(*id) != submitted_) {
    // A worker that refuses an operation has reported a failure, or will do so next.
    violations_.push_back(id ? "operations are not numbered in the order of their submission"
                             : "an operation was refused before any failure was reported");
    wants_to_leave_ = true;
    return;
  }
  ++submitted_;
  const auto most = static_cast<std::uint64_t>(job_.think_max.count());
  ready_ = now + Duration{static_cast<Duration::rep>(most > 0 ? random_.below(most) : 0)};
}

void Application::handle_event(Instant now, const Event& event, const Worker& worker,
                               Oracle& oracle) {
  switch (event.kind) {
    case EventKind::kJoined:
      joined_ = true;
      abort_if_planned();
      break;
    case EventKind::kCompleted: complete(now, number_of(event.operation), worker, oracle); break;
    case EventKind::kFailed:
      ++failed_operations_;
      if (event.operation != kNoOperation) seal(number_of(event.operation));
      if (!failure_) failure_ = event.failure;
      // As the collectives do.
      if (failure_->code == FailureCode::kOperationMismatch && !leaving_) wants_to_leave_ = true;
      break;
    case EventKind::kDetached: ++detached_; break;
    case EventKind::kAttached: ++attached_; break;
    case EventKind::kSilent:
    case EventKind::kHeard:
    case EventKind::kWaiting:
    case EventKind::kWaitingOver:
    case EventKind::kPeerRefused:
    case EventKind::kNoRoom: break;
    case EventKind::kLeft: left_ = true; break;
  }
}

// Pauses spread the operations over the faults, so no pause goes on when these have stopped: what
// is left then must be done in bounded time, which a pause must not use up. Without faults
// (experiments/sharing) they never stop.
Instant Application::resumes_at(Instant now, std::uint64_t number) const {
  Random random(job_.data_seed * 1000003 + number);
  const Duration pause{static_cast<Duration::rep>(static_cast<double>(job_.pause.count()) *
                                                  (0.5 + random.uniform()))};
  if (heal_ == Instant{}) return now + pause;
  return std::min(now + pause, std::max(now, heal_));
}

void Application::complete(Instant now, std::uint64_t number, const Worker& worker,
                           Oracle& oracle) {
  if (number >= submitted_ || done_[number]) {
    violations_.push_back("operation " + std::to_string(number) +
                          " completed twice or was never submitted");
    return;
  }
  done_[number] = true;
  ++completed_;
  has_no_room_ = false;
  ready_ = std::max(ready_, resumes_at(now, number) + late_);
  if (auto wrong =
          oracle.check(job_index_, number, rank_, worker.value_count(), output_of(number))) {
    violations_.push_back(*std::move(wrong));
  }
  seal(number);
  if (finished() && job_.leave_at_once) wants_to_leave_ = true;
  abort_if_planned();
}

void Application::abort_if_planned() {
  if (!job_.abort || job_.abort->rank != rank_ || completed_ != job_.abort->after) return;
  aborted_ = true;
  wants_to_leave_ = true;
}

void Application::seal(std::uint64_t number) {
  if (number < seals_.size()) seals_[number] = hash_of(output_of(number));
}

void Application::check_untouched() {
  for (std::uint64_t number = 0; number < seals_.size(); ++number) {
    if (!seals_[number] || *seals_[number] == hash_of(output_of(number))) continue;
    violations_.push_back("the tensor of operation " + std::to_string(number) +
                          " was written to after its end");
  }
}

}  // namespace atp::sim
