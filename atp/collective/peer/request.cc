// Which blocks each collective takes and gives, and the checks of a request.
#include "atp/collective/peer/request.h"

#include <algorithm>

#include "atp/base/text.h"

namespace atp {
namespace {

struct Shape {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
};

Shape shape_of(const PeerRequest& request, std::size_t rank, std::size_t ranks) {
  const bool is_root = request.root == rank;
  switch (request.call) {
    case PeerCall::kBroadcast:
    case PeerCall::kAllReduce:
    case PeerCall::kReceive: return {0, 1};
    case PeerCall::kReduce: return {1, is_root ? 1U : 0U};
    case PeerCall::kGather: return {1, is_root ? ranks : 0};
    case PeerCall::kScatter: return {is_root ? ranks : 0, 1};
    case PeerCall::kAllGather: return {1, ranks};
    case PeerCall::kReduceScatter: return {ranks, 1};
    case PeerCall::kAllToAll: return {ranks, ranks};
    case PeerCall::kSend: return {1, 0};
    case PeerCall::kBarrier:
    case PeerCall::kMonitoredBarrier: break;
  }
  return {};
}

bool adds(PeerCall call) {
  return call == PeerCall::kReduce || call == PeerCall::kAllReduce ||
         call == PeerCall::kReduceScatter;
}

bool has_root(PeerCall call) {
  return call == PeerCall::kBroadcast || call == PeerCall::kReduce || call == PeerCall::kGather ||
         call == PeerCall::kScatter || is_transfer(call);
}

template <class Blocks>
bool are_whole(const Blocks& blocks, std::size_t element) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const auto& block) { return block.size() % element == 0; });
}

Status check_root(const PeerRequest& request, std::size_t rank, std::size_t ranks) {
  if (!has_root(request.call)) return ok_status();
  const bool may_be_any = request.call == PeerCall::kReceive;
  if (may_be_any && request.root == kAnyRank) {
    if (ranks > 1) return ok_status();
    return Error{
        "this group has no other rank that could send, and a rank cannot send to itself: "
        "copy the tensor instead"};
  }
  if (request.root >= ranks) {
    return Error{"there is no rank " + std::to_string(request.root) + " in this group of " +
                 std::to_string(ranks)};
  }
  if (is_transfer(request.call) && request.root == rank) {
    return Error{"a rank cannot send to itself, or receive from itself: copy the tensor instead"};
  }
  return ok_status();
}

// Checks the block that a rank keeps, which goes from input to output.
Status check_own(const PeerRequest& request, std::size_t rank, std::size_t ranks) {
  if (request.inputs.empty() || request.outputs.empty()) return ok_status();
  const ConstBytes input = request.inputs[request.inputs.size() == ranks ? rank : 0];
  const Bytes output = request.outputs[request.outputs.size() == ranks ? rank : 0];
  if (input.size() == output.size()) return ok_status();
  return Error{"the block of this rank has " + with_commas(input.size()) +
               " bytes in the input and " + with_commas(output.size()) + " in the output"};
}

}  // namespace

std::string_view to_string(PeerCall call) {
  switch (call) {
    case PeerCall::kBroadcast: return "broadcast";
    case PeerCall::kReduce: return "reduce";
    case PeerCall::kGather: return "gather";
    case PeerCall::kScatter: return "scatter";
    case PeerCall::kAllGather: return "all_gather";
    case PeerCall::kReduceScatter: return "reduce_scatter";
    case PeerCall::kAllToAll: return "all_to_all";
    case PeerCall::kAllReduce: return "all_reduce";
    case PeerCall::kBarrier: return "barrier";
    case PeerCall::kMonitoredBarrier: return "monitored_barrier";
    case PeerCall::kSend: return "send";
    case PeerCall::kReceive: return "recv";
  }
  return "unknown";
}

Status check(const PeerRequest& request, std::size_t rank, std::size_t ranks) {
  Status root = check_root(request, rank, ranks);
  if (!root) return root;
  const Shape shape = shape_of(request, rank, ranks);
  if (request.inputs.size() != shape.inputs || request.outputs.size() != shape.outputs) {
    return Error{"expected " + std::to_string(shape.inputs) + " input and " +
                 std::to_string(shape.outputs) + " output blocks, found " +
                 std::to_string(request.inputs.size()) + " and " +
                 std::to_string(request.outputs.size())};
  }
  if (adds(request.call)) {
    if (request.reduction == ElementReduction::kNone ||
        !can_reduce(request.kind, request.reduction)) {
      return Error{"there is no " + std::string(to_string(request.reduction)) + " of " +
                   std::string(to_string(request.kind))};
    }
    if (!are_whole(request.inputs, bytes_of(request.kind)) ||
        !are_whole(request.outputs, bytes_of(request.kind))) {
      return Error{"a block is not a whole number of elements"};
    }
  }
  return check_own(request, rank, ranks);
}

std::uint64_t total_bytes(const PeerRequest& request) {
  // For the others, each message has its length.
  if (request.call != PeerCall::kBroadcast && request.call != PeerCall::kReduce &&
      request.call != PeerCall::kAllReduce) {
    return 0;
  }
  return request.inputs.empty() ? request.outputs.front().size() : request.inputs.front().size();
}

}  // namespace atp
