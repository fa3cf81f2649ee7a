#include "python/csrc/peers_backend.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "atp/base/check.h"
#include "python/csrc/argument_checks.h"
#include "python/csrc/overlap.h"
#include "python/csrc/peer_requests.h"
#include "python/csrc/signals.h"

// The life of a collective: its checks, its number and its work, and the end of the group. The
// collectives themselves are in peers_collectives.cc and peers_reductions.cc.

namespace atp::pytorch {
namespace {

using c10d::OpType;
using Name = Buffers::Name;

constexpr Name kBarrier{OpType::BARRIER, "barrier", "atp:barrier"};
constexpr Name kMonitoredBarrier{OpType::BARRIER, "monitored_barrier", "atp:monitored_barrier"};
constexpr Name kSend{OpType::SEND, "send", "atp:send"};
constexpr Name kReceive{OpType::RECV, "recv", "atp:recv"};
constexpr Name kReceiveAny{OpType::RECVANYSOURCE, "recv", "atp:recvAnySource"};

std::string text_of(const Status& status) { return status.ok() ? "" : status.error().message; }

RecordedShape shape_of(at::TensorList tensors) {
  RecordedShape shape;
  shape.tensors = static_cast<std::uint32_t>(tensors.size());
  if (tensors.size() == 1) {
    const auto sizes = tensors.front().sizes();
    if (sizes.size() <= RecordedShape::kMostDimensions) {
      shape.dimensions = static_cast<std::uint32_t>(sizes.size());
      std::copy(sizes.begin(), sizes.end(), shape.sizes.begin());
      return shape;
    }
  }
  shape.dimensions = 1;
  for (const at::Tensor& tensor : tensors) shape.sizes[0] += tensor.numel();
  return shape;
}

CompletionPool::Ended ended(const c10::intrusive_ptr<CollectiveWork>& work) {
  return {.settle = [work] { work->settle(); }, .tell = [work] { work->tell(); }};
}

}  // namespace

PeersBackend::PeersBackend(int rank, int size, std::chrono::milliseconds timeout)
    : Backend(rank, size), timeout_(timeout), completion_(CompletionPool::start()) {}

PeersBackend::~PeersBackend() { end_threads(); }

void PeersBackend::end_threads() {
  closed_ = true;
  peers_.reset();
  for (auto* pool : {&completion_, &transfers_}) {
    if (*pool == nullptr) continue;
    if (!is_forked()) {
      (*pool)->close();
    } else {
      // It would wait for threads that only the parent has.
      [[maybe_unused]] const auto* left_alone = new std::shared_ptr(std::move(*pool));
    }
  }
}

void PeersBackend::check_open(const char* operation) const {
  TORCH_CHECK_WITH(
      DistBackendError, !is_forked(), operation,
      ": this process was forked after the process group was created, and has no part in "
      "it; leave collectives to the parent, or call destroy_process_group() and "
      "init_process_group() here (or start the process with the method \"spawn\")");
  TORCH_CHECK_WITH(DistBackendError, !closed_, operation,
                   ": this rank has left the group (it was destroyed or aborted)");
}

void PeersBackend::check_root(const Name& name, std::int64_t root) const {
  TORCH_CHECK_VALUE(root >= 0 && root < getSize(), name.operation,
                    ": expected a root among ranks 0 to ", getSize() - 1, " but found ", root);
}

void PeersBackend::fail_after_other_path(std::string_view path) {
  if (peers_ == nullptr) return;
  // The other path may itself have failed after this one, on another rank.
  const auto text = [](const std::string& why) {
    const std::string prefix = "the group has failed: ";
    return why.starts_with(prefix) ? why : prefix + why;
  };
  if (path == "peers") {
    if (const auto why = transport_failure_text()) peers_->stop(text(*why));
  } else if (const auto why = peers_->failure()) {
    fail_transport(text(*why));
  }
}

PeersBackend::OwnWork PeersBackend::begin_work(const char* path, const Name& name,
                                               at::TensorList inputs, const Tensors& results) {
  check_open(name.operation);
  fail_after_other_path(path);
  for (const at::Tensor& tensor : inputs) Buffers::check_device(name.operation, tensor);
  for (const at::Tensor& tensor : results) Buffers::check_device(name.operation, tensor);
  check_results_apart(name.operation, results);
  traffic_.add(path, name.operation, inputs);
  auto work = c10::make_intrusive<CollectiveWork>(getRank(), ++sequence_, results, Buffers(name));
  record(work, {.name = name.operation, .path = path, .number = work->getSequencenumber()}, inputs,
         results);
  return work;
}

void PeersBackend::record(const OwnWork& work, OperationStart start, at::TensorList inputs,
                          const Tensors& results) {
  if (recorded_ == nullptr) return;
  // torch gives a group its description only after making it.
  std::call_once(described_, [this] { recorded_->describe(getGroupDesc()); });
  start.input = shape_of(inputs);
  start.output = shape_of(results);
  if (!inputs.empty()) {
    start.type = dtype_name(inputs.front().scalar_type());
  } else if (!results.empty()) {
    start.type = dtype_name(results.front().scalar_type());
  }
  start.timeout = timeout_.load();
  work->record_to(recorded_, recorded_->begin(start));
}

std::chrono::milliseconds PeersBackend::timeout_of(std::chrono::milliseconds asked_for) const {
  return asked_for == c10d::kUnsetTimeout ? timeout_.load() : asked_for;
}

PeersBackend::EndPart PeersBackend::expect_parts_of(CompletionPool& pool, const OwnWork& work,
                                                    std::size_t count) const {
  // If an exception is thrown in between, the work started below never ends; the group does not
  // wait for it, as the parts that were not started drop it.
  const auto expected = std::make_shared<CompletionPool::Expected>(pool.expect());
  if (!work->expect_parts(count)) expected->end(ended(work));
  return [work, expected](const std::string& error) {
    if (work->end_part(error)) expected->end(ended(work));
  };
}

PeersBackend::EndPart PeersBackend::expect_parts(const OwnWork& work, std::size_t count) const {
  return expect_parts_of(*completion_, work, count);
}

PeersBackend::EndPart PeersBackend::expect_here(const OwnWork& work) const {
  const auto expected = std::make_shared<CompletionPool::Expected>(completion_->expect());
  work->expect_parts(1);
  return [work, expected, caller = std::this_thread::get_id()](const std::string& error) {
    work->end_part(error);
    if (std::this_thread::get_id() == caller) {
      expected->end_here(ended(work));
    } else {
      expected->end(ended(work));
    }
  };
}

PeersBackend::WorkPtr PeersBackend::submit(const OwnWork& work,
                                           std::vector<CollectiveRequest> requests,
                                           std::chrono::milliseconds timeout, bool waits) {
  ATP_CHECK(peers_ != nullptr);
  std::uint64_t number = peers_->reserve(requests.size());
  for (CollectiveRequest& request : requests) {
    request.number = number++;
    request.timeout = timeout_of(timeout);
    request.spent = work->spent();
  }
  keep_apart(std::span(requests), work->buffers(), own_rank(), ranks());
  if (waits) return carry_out_here(work, std::move(requests));
  const EndPart end_part = expect_parts(work, requests.size());
  for (CollectiveRequest& request : requests) {
    request.on_done = [end_part](const Status& status) { end_part(text_of(status)); };
    peers_->submit(std::move(request));
  }
  return work;
}

PeersBackend::WorkPtr PeersBackend::submit_move(const OwnWork& work,
                                                std::vector<CollectiveRequest> requests,
                                                std::chrono::milliseconds timeout, bool waits) {
  if (!moves_itself()) return submit(work, std::move(requests), timeout, waits);
  keep_apart(std::span(requests), work->buffers(), own_rank(), ranks());
  submit_own(work, std::move(requests), timeout, waits);
  return work;
}

// Ends a work on the thread that waits for it; on the completion's, if that has been interrupted.
class PeersBackend::Caller {
 public:
  Caller(OwnWork work, CompletionPool::Expected expected)
      : work_(std::move(work)), expected_(std::move(expected)) {}

  // For the peers' thread.
  void end_part(const Status& status) {
    if (!work_->end_part(text_of(status))) return;
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    if (has_left_) expected_.end(ended(work_));
  }
  void end() { expected_.end_here(ended(work_)); }
  // The operation goes on without its caller.
  void leave() {
    const std::lock_guard lock(mutex_);
    has_left_ = true;
    if (has_ended_) expected_.end(ended(work_));
  }

 private:
  const OwnWork work_;
  CompletionPool::Expected expected_;
  std::mutex mutex_;
  bool has_ended_ = false;
  bool has_left_ = false;
};

// No caller has the work yet, so no other thread needs to run callbacks, and this thread would wait
// next.
PeersBackend::WorkPtr PeersBackend::carry_out_here(const OwnWork& work,
                                                   std::vector<CollectiveRequest> requests) {
  const auto caller = std::make_shared<Caller>(work, completion_->expect());
  work->expect_parts(requests.size());
  std::vector<PeerHandle> handles;
  for (CollectiveRequest& request : requests) {
    request.on_done = [caller](const Status& status) { caller->end_part(status); };
    handles.push_back(peers_->submit(std::move(request)));
  }
  for (const PeerHandle& handle : handles) {
    if (handle.wait_or_interrupted()) continue;
    caller->leave();
    throw_if_interrupted();
    return work;
  }
  caller->end();
  return work;
}

CompletionPool& PeersBackend::transfer_completion() {
  const std::lock_guard lock(transfers_mutex_);
  if (transfers_ == nullptr) transfers_ = CompletionPool::start();
  return *transfers_;
}

PeersBackend::WorkPtr PeersBackend::transfer(const Name& name, Collective call, std::size_t peer,
                                             const Tensors& tensors, int tag) {
  check_open(name.operation);
  check_count(name, "call", 1, tensors.size());
  Buffers::check_device(name.operation, tensors.front());
  traffic_.add("peers", name.operation, tensors);
  const auto work =
      c10::make_intrusive<CollectiveWork>(getRank(), sequence_, tensors, Buffers(name));
  const bool sends = call == Collective::kSend;
  record(work,
         {.name = name.operation,
          .path = "peers",
          .number = ++transfers_begun_,
          .is_transfer = true,
          .peer = peer == kAnyRank ? -1 : static_cast<std::int32_t>(peer),
          .tag = static_cast<std::uint32_t>(tag)},
         sends ? at::TensorList(tensors) : at::TensorList(), sends ? Tensors() : tensors);
  CollectiveRequest request = request_of(call, tensors.front().scalar_type());
  request.root = peer;
  request.tag = static_cast<std::uint32_t>(tag);
  request.timeout = timeout_of(c10d::kUnsetTimeout);
  if (sends) {
    request.inputs = {memory_of(name, work->buffers().input(tensors.front()))};
  } else {
    request.outputs = {memory_of(name, work->buffers().output(tensors.front()))};
  }
  request.spent = work->spent();
  const EndPart end_part = expect_parts_of(transfer_completion(), work, 1);
  request.on_done = [end_part](const Status& status) { end_part(text_of(status)); };
  const PeerHandle handle = peers_->submit(std::move(request));
  work->set_source([handle] { return static_cast<int>(handle.source()); });
  return work;
}

PeersBackend::WorkPtr PeersBackend::send(Tensors& tensors, int to_rank, int tag) {
  check_root(kSend, to_rank);
  return transfer(kSend, Collective::kSend, static_cast<std::size_t>(to_rank), tensors, tag);
}

PeersBackend::WorkPtr PeersBackend::recv(Tensors& tensors, int from_rank, int tag) {
  check_root(kReceive, from_rank);
  return transfer(kReceive, Collective::kReceive, static_cast<std::size_t>(from_rank), tensors,
                  tag);
}

PeersBackend::WorkPtr PeersBackend::recvAnysource(Tensors& tensors, int tag) {
  return transfer(kReceiveAny, Collective::kReceive, kAnyRank, tensors, tag);
}

PeersBackend::WorkPtr PeersBackend::barrier(const c10d::BarrierOptions& options) {
  const OwnWork work = begin(kBarrier, {}, {});
  const CompletionPool::Mark earlier = completion_->mark();
  CollectiveRequest request;
  request.call = Collective::kBarrier;
  request.timeout = timeout_of(options.timeout);
  request.number = peers_->reserve(1);
  if (!options.asyncOp) {
    completion_->wait_until_settled(earlier);
    throw_if_interrupted();
    return carry_out_here(work, {std::move(request)});
  }
  const EndPart end_part = expect_parts(work, 2);
  request.on_done = [end_part](const Status& status) { end_part(text_of(status)); };
  peers_->submit(std::move(request));
  completion_->when_settled(earlier, [end_part] { end_part(""); });
  return work;
}

void PeersBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const OwnWork work = begin(kMonitoredBarrier, {}, {});
  CollectiveRequest request;
  request.call = Collective::kMonitoredBarrier;
  request.names_all = wait_all_ranks;
  // Zero asks who is here now; a request without a time-out has zero, too.
  request.timeout = std::max(timeout_of(options.timeout), std::chrono::milliseconds(1));
  request.number = peers_->reserve(1);
  completion_->wait_until_settled(completion_->mark());
  throw_if_interrupted();
  carry_out_here(work, {std::move(request)})->wait();
}

void PeersBackend::shutdown() {
  // The operations in progress have ended, and their callers know of any failure.
  if (!is_forked() && peers_ != nullptr) static_cast<void>(peers_->shutdown());
}

void PeersBackend::give_up_peers() {
  if (!is_forked() && peers_ != nullptr) peers_->give_up(leaving_because());
}

std::optional<WaitedForRanks> PeersBackend::peers_waited_for() const {
  return peers_ == nullptr ? std::nullopt : peers_->waited_for();
}

std::map<Rank, Duration> PeersBackend::peers_waits() const {
  return peers_ == nullptr ? std::map<Rank, Duration>() : peers_->waits();
}

FailureKind PeersBackend::peers_failure() const {
  return peers_ == nullptr ? FailureKind::kNone : peers_->failure_kind();
}

void PeersBackend::abort() {
  if (!is_forked() && peers_ != nullptr) peers_->abort(leaving_because());
}

}  // namespace atp::pytorch
