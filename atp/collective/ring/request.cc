// The requests of each collective, and the checks of their blocks.
#include "atp/collective/ring/request.h"

#include <algorithm>

#include "atp/base/text.h"
#include "atp/collective/base/number_text.h"

namespace atp {
namespace {

template <class Block>
std::vector<Block> equal_blocks(Block values, std::size_t count) {
  std::vector<Block> blocks;
  blocks.reserve(count);
  const std::size_t bytes = values.size() / count;
  for (std::size_t b = 0; b < count; ++b) blocks.push_back(values.subspan(b * bytes, bytes));
  return blocks;
}

template <class Block>
bool are_whole(const std::vector<Block>& blocks, ElementType type) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const Block& block) { return block.size() % bytes_of(type) == 0; });
}

bool are_same(const RingRequest& request) {
  return std::equal(
      request.inputs.begin(), request.inputs.end(), request.outputs.begin(), request.outputs.end(),
      [](ConstBytes in, Bytes out) { return in.data() == out.data() && in.size() == out.size(); });
}

bool are_side_by_side(const std::vector<Bytes>& blocks) {
  return std::adjacent_find(blocks.begin(), blocks.end(), [](Bytes one, Bytes next) {
           return one.data() + one.size() != next.data();
         }) == blocks.end();
}

// Checks an all-reduce of float32.
Status check_numbers(const RingRequest& request, std::size_t ranks) {
  if (!are_side_by_side(request.outputs)) {
    return Error{"the blocks of a float32 all_reduce must be contiguous"};
  }
  if (request.format == NumberFormat::kFixed) {
    return Error{
        "a ring does not support the fixed scale: use blocks of int32 or int16, or exact sums"};
  }
  std::size_t values = 0;
  for (const std::size_t length : request.segments) values += length;
  std::size_t bytes = 0;
  for (const Bytes& block : request.outputs) bytes += block.size();
  if (!request.segments.empty() && values != bytes / sizeof(float)) {
    return Error{"its segments have " + with_commas(values) + " values and the tensor has " +
                 with_commas(bytes / sizeof(float)) + ": give the lengths of all segments"};
  }
  return check_format(request.format, ranks);
}

}  // namespace

std::string_view to_string(RingCollective collective) {
  switch (collective) {
    case RingCollective::kAllReduce: return "all_reduce";
    case RingCollective::kReduceScatter: return "reduce_scatter";
    case RingCollective::kAllGather: break;
  }
  return "all_gather";
}

bool follows_number_rule(const RingRequest& request) {
  return request.collective == RingCollective::kAllReduce && request.type == ElementType::kFloat32;
}

RingRequest all_reduce_request(ElementType type, Bytes values, std::size_t ranks) {
  RingRequest request{.collective = RingCollective::kAllReduce, .type = type};
  const std::size_t count = values.size() / bytes_of(type);
  for (std::size_t b = 0, at = 0; b < ranks; ++b) {
    const std::size_t bytes = (count / ranks + (b < count % ranks ? 1 : 0)) * bytes_of(type);
    request.outputs.push_back(values.subspan(at, bytes));
    request.inputs.push_back(request.outputs.back());
    at += bytes;
  }
  return request;
}

RingRequest reduce_scatter_request(ElementType type, ConstBytes values, Bytes block,
                                   std::size_t ranks) {
  RingRequest request{.collective = RingCollective::kReduceScatter, .type = type};
  request.inputs = equal_blocks(values, ranks);
  request.outputs = {block};
  return request;
}

RingRequest all_gather_request(ElementType type, ConstBytes block, Bytes values,
                               std::size_t ranks) {
  RingRequest request{.collective = RingCollective::kAllGather, .type = type};
  request.inputs = {block};
  request.outputs = equal_blocks(values, ranks);
  return request;
}

Status check(const RingRequest& request, std::size_t rank, std::size_t ranks) {
  const bool scatters = request.collective == RingCollective::kReduceScatter;
  const bool gathers = request.collective == RingCollective::kAllGather;
  const std::size_t inputs = gathers ? 1 : ranks;
  const std::size_t outputs = scatters ? 1 : ranks;
  if (request.inputs.size() != inputs || request.outputs.size() != outputs) {
    return Error{"expected " + std::to_string(inputs) + " input and " + std::to_string(outputs) +
                 " output blocks, found " + std::to_string(request.inputs.size()) + " and " +
                 std::to_string(request.outputs.size())};
  }
  const ConstBytes own_input = request.inputs[gathers ? 0 : rank];
  const Bytes own_output = request.outputs[scatters ? 0 : rank];
  if (own_input.size() != own_output.size()) {
    return Error{"the block of rank " + std::to_string(rank) + " has " +
                 with_commas(own_input.size()) + " bytes in the input and " +
                 with_commas(own_output.size()) + " in the output"};
  }
  if (!are_whole(request.inputs, request.type) || !are_whole(request.outputs, request.type)) {
    return Error{"a block is not a whole number of elements"};
  }
  if (!gathers && request.type == ElementType::kByte) {
    return Error{"a ring cannot add untyped bytes"};
  }
  if (!gathers && !scatters && !are_same(request)) {
    return Error{"an all_reduce works in place: input and output must be the same memory"};
  }
  return follows_number_rule(request) ? check_numbers(request, ranks) : ok_status();
}

std::vector<std::size_t> block_bytes(const RingRequest& request) {
  std::vector<std::size_t> bytes;
  if (request.collective == RingCollective::kAllGather) {
    for (const Bytes& block : request.outputs) bytes.push_back(block.size());
  } else {
    for (const ConstBytes& block : request.inputs) bytes.push_back(block.size());
  }
  return bytes;
}

}  // namespace atp
