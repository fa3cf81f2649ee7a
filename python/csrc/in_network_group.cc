#include "python/csrc/in_network_group.h"

#include <algorithm>
#include <utility>

#include "atp/collective/base/number_text.h"
#include "atp/collective/peer/peers_transport.h"
#include "python/csrc/argument_checks.h"
#include "python/csrc/measured.h"
#include "python/csrc/peer_requests.h"

// Decides which types and reductions the network carries, and as which type, and submits their
// all-reduces; all other collectives go to the peer connections.

namespace atp::pytorch {
namespace {

constexpr Buffers::Name kInNetworkAllReduce{c10d::OpType::ALLREDUCE, "all_reduce",
                                            "atp:all_reduce"};
constexpr Buffers::Name kInNetworkAllReduceCoalesced{
    c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", "atp:all_reduce_coalesced"};

bool is_comparison(const c10d::ReduceOp& op) {
  return op.op_ == c10d::ReduceOp::MAX || op.op_ == c10d::ReduceOp::MIN;
}

Reduction network_reduction(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::AVG: return Reduction::kAverage;
    case c10d::ReduceOp::MAX: return Reduction::kMax;
    case c10d::ReduceOp::MIN: return Reduction::kMin;
    default: return Reduction::kSum;
  }
}

void check_one_type(const Buffers::Name& name, at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_TYPE(tensor.scalar_type() == tensors.front().scalar_type(), name.operation,
                     ": the tensors of one call must be of one type, and these are ",
                     tensors.front().scalar_type(), " and ", tensor.scalar_type(),
                     "; make a call for each type");
  }
}

}  // namespace

InNetworkGroup::InNetworkGroup(int rank, int size, std::chrono::milliseconds timeout,
                               std::unique_ptr<Communicator> communicator, NumberFormat format)
    : ProcessGroupATP(rank, size, timeout),
      format_(format),
      communicator_(std::move(communicator)),
      keeps_digest_(communicator_ != nullptr && communicator_->digest()) {}

// The table in docs/use/torch.md.
std::optional<InNetworkGroup::Carriage> InNetworkGroup::carriage(at::ScalarType type,
                                                                 const c10d::ReduceOp& op) {
  if (!is_linear(op) && !is_comparison(op)) return std::nullopt;
  // A factor is applied before the values are rounded to a narrow type, so a scaled sum is also
  // rounded only once.
  const c10d::ReduceOp::RedOpType asked = op.op_;
  const bool scales = asked == c10d::ReduceOp::PREMUL_SUM;
  switch (type) {
    case at::kFloat: return Carriage{at::kFloat, asked};
    case at::kBFloat16:
    case at::kHalf: return Carriage{scales ? at::kFloat : type, asked};
    case at::kInt:
    case at::kShort:
    case at::kChar:
    case at::kByte: return Carriage{at::kInt, asked};
    case at::kBool: {  // the sum is a logical or
      const bool is_or = asked == c10d::ReduceOp::SUM;
      return Carriage{at::kInt, is_or ? c10d::ReduceOp::MAX : asked};
    }
    default: return std::nullopt;
  }
}

std::optional<InNetworkGroup::Carriage> InNetworkGroup::own_carriage(
    at::ScalarType type, const c10d::ReduceOp& op) const {
  const std::optional<Carriage> sent = carriage(type, op);
  // A digest has the words that a network would carry.
  const bool is_sent = sent && (at::isFloatingType(type) || keeps_digest_);
  if (is_sent || !in_memory() || kind_of(type) == ElementKind::kByte) return sent;
  return Carriage{.type = type, .reduction = op.op_, .as_elements = true};
}

std::optional<InNetworkGroup::Carriage> InNetworkGroup::carriage_of(
    const Tensors& tensors, const c10d::ReduceOp& op) const {
  if (communicator_ == nullptr) return std::nullopt;
  const bool has_values = std::any_of(tensors.begin(), tensors.end(),
                                      [](const at::Tensor& tensor) { return tensor.numel() > 0; });
  if (!has_values || !std::all_of(tensors.begin(), tensors.end(), is_dense)) return std::nullopt;
  const at::ScalarType type = tensors.front().scalar_type();
  const std::optional<Carriage> found = own_carriage(type, op);
  const auto is_alike = [type](const at::Tensor& tensor) { return tensor.scalar_type() == type; };
  // Peers take tensors of several types in one call.
  if (found && found->as_elements && !std::all_of(tensors.begin(), tensors.end(), is_alike)) {
    return std::nullopt;
  }
  return found;
}

void InNetworkGroup::set_reduction(const Buffers::Name& name, const Carriage& carriage,
                                   at::TensorList tensors, const c10d::ReduceOp& op,
                                   Buffers& buffers, CollectiveRequest* request) const {
  // First the caller's reduction, which may be refused: bool has no average.
  const c10d::ReduceOp left = buffers.reduction(op, tensors, getSize());
  if (carriage.as_elements) {
    request->kind = kind_of(carriage.type);
    request->reduction = reduction_of(name, left, carriage.type);
    return;
  }
  const bool is_or = carriage.reduction != op.op_;
  const Reduction reduction = network_reduction(is_or ? carriage.reduction : left.op_);
  request->kind = kind_of(carriage.type);
  request->reduction = element_reduction_of(reduction);
  const OperationKind kind{data_type_of(request->kind).value(), reduction};
  const Status possible = check_kind(kind, format_, request->format, ranks());
  TORCH_CHECK_TYPE(possible.ok(), name.operation, ": ", possible.error().message);
  if (carriage.type != tensors.front().scalar_type()) buffers.carry_as(carriage.type);
}

// One operation for any number of tensors: they are concatenated, and each starts a new block.
c10::intrusive_ptr<c10d::Work> InNetworkGroup::carry_out(const Buffers::Name& name,
                                                         const Carriage& carriage,
                                                         const Tensors& tensors,
                                                         const c10d::AllreduceOptions& options,
                                                         CollectiveRequest request) {
  check_one_type(name, tensors);
  const OwnWork work = begin_work("innetwork", name, tensors, tensors);
  Buffers& buffers = work->buffers();
  set_reduction(name, carriage, tensors, options.reduceOp, buffers, &request);
  buffers.convert_within(timeout_of(options.timeout));
  request.call = Collective::kAllReduce;
  request.outputs = {memory_of(name, one_buffer(buffers, tensors))};
  if (tensors.size() > 1) request.segments = lengths_of(tensors);
  submit_own(work, {std::move(request)}, options.timeout, !options.asyncOp);
  return work;
}

void InNetworkGroup::submit_own(const OwnWork& work, std::vector<CollectiveRequest> requests,
                                std::chrono::milliseconds timeout, bool waits) {
  const bool here = waits && requests.size() == 1;
  const EndPart end = here ? expect_here(work) : expect_parts(work, requests.size());
  for (CollectiveRequest& request : requests) {
    request.timeout = timeout_of(timeout);
    request.spent = work->spent();
    request.here = here;
    request.on_done = [end](const Status& status) {
      end(status.ok() ? "" : status.error().message);
    };
    communicator_->submit(std::move(request));
  }
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::allreduce(Tensors& tensors,
                                                         const c10d::AllreduceOptions& options) {
  const std::optional<Carriage> found = carriage_of(tensors, options.reduceOp);
  if (!found) return PeersBackend::allreduce(tensors, options);
  return carry_out(kInNetworkAllReduce, *found, tensors, options, {});
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const std::optional<Carriage> found = carriage_of(tensors, options.reduceOp);
  if (!found) return PeersBackend::allreduce_coalesced(tensors, options);
  return carry_out(kInNetworkAllReduceCoalesced, *found, tensors, options, {});
}

c10::intrusive_ptr<c10d::Work> InNetworkGroup::average_segments(
    const at::Tensor& tensor, const std::vector<std::size_t>& lengths,
    std::optional<NumberFormat> format) {
  Tensors tensors{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  const at::ScalarType type = tensor.scalar_type();
  TORCH_CHECK_TYPE(
      !format || carriage(type, options.reduceOp), kInNetworkAllReduce.operation,
      ": int16 on the wire is for float32, bfloat16 and float16, and this tensor is of ", type,
      "; leave it to atp.torch.ddp_hook");
  const std::optional<Carriage> found = carriage_of(tensors, options.reduceOp);
  if (!found) return average_segments_by_peers(tensor, lengths, format);
  return carry_out(kInNetworkAllReduce, *found, tensors, options,
                   {.format = format, .segments = lengths});
}

std::chrono::nanoseconds InNetworkGroup::measure(std::size_t values, std::size_t rounds,
                                                 std::chrono::milliseconds timeout,
                                                 const MaybeInterruption& interruption) {
  const auto zeros = std::make_shared<std::vector<float>>(values);
  return shortest_of(rounds, timeout, [&](std::chrono::milliseconds left) {
    const CollectiveRequest asked{
        .timeout = left,
        .is_probe = true,
        .on_done = [zeros](const Status&) {},  // it goes on after an interruption
    };
    return communicator_->all_reduce(*zeros, asked).wait_or_interrupted(interruption);
  });
}

void InNetworkGroup::add_ring(const CostModels& figures, std::uint64_t judged_every) {
  const Status added = communicator_->add_ring(peers_transport(peers()), figures, judged_every);
  TORCH_CHECK_WITH(DistBackendError, added.ok(), added.error().message);
}

std::optional<TunerCounts> InNetworkGroup::tuner_counts() const {
  return communicator_ == nullptr ? std::nullopt : communicator_->tuner_counts();
}

std::optional<DigestReading> InNetworkGroup::digest() const {
  return communicator_ == nullptr ? std::nullopt : communicator_->digest();
}

std::optional<DigestReading> InNetworkGroup::final_digest(bool restart) {
  if (communicator_ == nullptr) return std::nullopt;
  completion().wait_until_settled(completion().mark());
  return restart ? communicator_->restart_digest() : communicator_->digest();
}

void InNetworkGroup::leave_transport() {
  // If the server does not acknowledge the LEAVE, only the lease remains, until it expires.
  if (communicator_ != nullptr) static_cast<void>(communicator_->shutdown());
}

void InNetworkGroup::abort_transport() {
  if (communicator_ != nullptr) communicator_->abort(leaving_because());
}

void InNetworkGroup::give_up_transport() {
  if (communicator_ != nullptr) communicator_->give_up(leaving_because());
}

FailureKind InNetworkGroup::transport_failure() const {
  return communicator_ == nullptr ? FailureKind::kNone : communicator_->failure_kind();
}

std::optional<std::string> InNetworkGroup::transport_failure_text() const {
  return communicator_ == nullptr ? std::nullopt : communicator_->failure();
}

void InNetworkGroup::fail_transport(const std::string& why) {
  if (communicator_ != nullptr) communicator_->give_up(why);
}

ProcessGroupATP::Counts InNetworkGroup::counters() const {
  if (communicator_ != nullptr) return communicator_->counters();
  return sums_around_ring() ? peers()->counters() : Counts();
}

std::optional<WaitedForRanks> InNetworkGroup::transport_waited_for() const {
  return communicator_ == nullptr ? std::nullopt : communicator_->waited_for();
}

std::map<Rank, Duration> InNetworkGroup::transport_waits() const {
  return communicator_ == nullptr ? std::map<Rank, Duration>() : communicator_->waits();
}

std::size_t InNetworkGroup::values_per_fragment() const {
  return communicator_ == nullptr ? 0 : communicator_->values_per_fragment();
}

}  // namespace atp::pytorch
