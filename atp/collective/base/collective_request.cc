// Which blocks each collective takes and gives, and the checks of a request.
#include "atp/collective/base/collective_request.h"

#include <algorithm>

#include "atp/base/text.h"
#include "atp/collective/base/number_text.h"

namespace atp {
namespace {

struct Shape {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
};

Shape shape_of(const CollectiveRequest& request, std::size_t rank, std::size_t ranks) {
  const bool is_root = request.root == rank;
  switch (request.call) {
    case Collective::kBroadcast:
    case Collective::kAllReduce:
    case Collective::kReceive: return {0, 1};
    case Collective::kReduce: return {1, is_root ? 1U : 0U};
    case Collective::kGather: return {1, is_root ? ranks : 0};
    case Collective::kScatter: return {is_root ? ranks : 0, 1};
    case Collective::kAllGather: return {1, ranks};
    case Collective::kReduceScatter: return {ranks, 1};
    case Collective::kAllToAll: return {ranks, ranks};
    case Collective::kSend: return {1, 0};
    case Collective::kBarrier:
    case Collective::kMonitoredBarrier: break;
  }
  return {};
}

template <class Blocks>
bool are_whole(const Blocks& blocks, std::size_t element) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const auto& block) { return block.size() % element == 0; });
}

Status check_root(const CollectiveRequest& request, std::size_t rank, std::size_t ranks) {
  if (!has_root(request.call)) return ok_status();
  const bool may_be_any = request.call == Collective::kReceive;
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
Status check_own(const CollectiveRequest& request, std::size_t rank, std::size_t ranks) {
  if (request.inputs.empty() || request.outputs.empty()) return ok_status();
  const ConstBytes input = block_of(request.inputs, rank, ranks);
  const Bytes output = block_of(request.outputs, rank, ranks);
  if (input.size() == output.size()) return ok_status();
  return Error{"the block of this rank has " + with_commas(input.size()) +
               " bytes in the input and " + with_commas(output.size()) + " in the output"};
}

// Checks a sum by the rule of numbers.
Status check_format(const CollectiveRequest& request, std::size_t ranks) {
  const bool is_sum = request.reduction == ElementReduction::kSum ||
                      request.reduction == ElementReduction::kAverage;
  if (request.call != Collective::kAllReduce || request.kind != ElementKind::kFloat32 || !is_sum) {
    return Error{"only sums and averages of float32 in an all_reduce have a format"};
  }
  if (*request.format == NumberFormat::kFixed) {
    return Error{
        "a ring does not support the fixed scale: use blocks of int32 or int16, or exact sums"};
  }
  std::size_t values = 0;
  for (const std::size_t length : request.segments) values += length;
  const std::size_t found = request.outputs.front().size() / sizeof(float);
  if (!request.segments.empty() && values != found) {
    return Error{"its segments have " + with_commas(values) + " values and the tensor has " +
                 with_commas(found) + ": give the lengths of all segments"};
  }
  return atp::check_format(*request.format, ranks);
}

}  // namespace

std::string_view to_string(Collective call) {
  switch (call) {
    case Collective::kBroadcast: return "broadcast";
    case Collective::kReduce: return "reduce";
    case Collective::kGather: return "gather";
    case Collective::kScatter: return "scatter";
    case Collective::kAllGather: return "all_gather";
    case Collective::kReduceScatter: return "reduce_scatter";
    case Collective::kAllToAll: return "all_to_all";
    case Collective::kAllReduce: return "all_reduce";
    case Collective::kBarrier: return "barrier";
    case Collective::kMonitoredBarrier: return "monitored_barrier";
    case Collective::kSend: return "send";
    case Collective::kReceive: return "recv";
  }
  return "unknown";
}

Status check(const CollectiveRequest& request, std::size_t rank, std::size_t ranks) {
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
  if (request.format) {
    Status format = check_format(request, ranks);
    if (!format) return format;
  }
  return check_own(request, rank, ranks);
}

std::size_t longest_block(const CollectiveRequest& request) {
  std::size_t longest = 0;
  for (const ConstBytes block : request.inputs) longest = std::max(longest, block.size());
  for (const Bytes block : request.outputs) longest = std::max(longest, block.size());
  return longest;
}

std::uint64_t total_bytes(const CollectiveRequest& request) {
  // For the others, each message has its length.
  if (request.call != Collective::kBroadcast && request.call != Collective::kReduce &&
      request.call != Collective::kAllReduce) {
    return 0;
  }
  return request.inputs.empty() ? request.outputs.front().size() : request.inputs.front().size();
}

}  // namespace atp
