#include "atp/collective/ring/operation_header.h"

#include "atp/base/text.h"

namespace atp {
namespace {

constexpr std::uint32_t kMagic = 0x61747072;  // "atpr"

// FNV-1a over words.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) { return (hash ^ word) * 0x100000001b3U; }

}  // namespace

OperationHeader make_header(const RingRequest& request, std::uint64_t number) {
  OperationHeader header{.magic = kMagic,
                         .collective = request.collective,
                         .type = request.type,
                         .reduction = request.reduction,
                         .number = number,
                         .shape = 0xcbf29ce484222325U};
  for (const std::size_t bytes : block_bytes(request)) {
    header.bytes += bytes;
    header.shape = mix(header.shape, bytes);
  }
  if (follows_number_rule(request)) header.format = request.format;
  for (const std::size_t values : request.segments) header.shape = mix(header.shape, values);
  return header;
}

std::string describe(const OperationHeader& header) {
  if (header.magic != kMagic) return "something that is not an operation of a ring";
  std::string text =
      std::string(to_string(header.collective)) + " #" + std::to_string(header.number) + " (" +
      with_commas(header.bytes / bytes_of(header.type)) + " " + std::string(to_string(header.type));
  if (header.reduction == Reduction::kAverage) text += ", average";
  if (header.format == NumberFormat::kBlocksInt16) text += ", int16 on the wire";
  if (header.format == NumberFormat::kExact) text += ", exact";
  return text + ")";
}

}  // namespace atp
