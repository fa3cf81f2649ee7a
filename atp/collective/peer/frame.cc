#include "atp/collective/peer/frame.h"

#include "atp/base/text.h"

namespace atp {
namespace {

constexpr int kHashBits = 24;

std::string_view root_word(Collective call) {
  switch (call) {
    case Collective::kBroadcast:
    case Collective::kScatter: return " from ";
    case Collective::kReduce:
    case Collective::kGather: return " to ";
    default: return "";
  }
}

// The format of a sum by the rule of numbers and a hash of its segments: in both all ranks must
// agree. 0: by no rule.
std::uint32_t rule_of(const CollectiveRequest& request) {
  if (!request.format) return 0;
  std::uint32_t hash = 0x811c9dc5U;  // FNV-1a over words
  for (const std::size_t length : request.segments) {
    hash = (hash ^ static_cast<std::uint32_t>(length)) * 0x01000193U;
  }
  return (static_cast<std::uint32_t>(*request.format) + 1) << kHashBits | hash >> (32 - kHashBits);
}

std::string_view format_words(const Frame& frame) {
  if (frame.call != Collective::kAllReduce || frame.root == 0) return "";
  switch (static_cast<NumberFormat>((frame.root >> kHashBits) - 1)) {
    case NumberFormat::kBlocksInt16: return ", int16 on the wire";
    case NumberFormat::kExact: return ", exact";
    default: return "";
  }
}

std::uint32_t root_of(const CollectiveRequest& request) {
  if (is_transfer(request.call)) return request.tag;
  if (request.call == Collective::kAllReduce) return rule_of(request);
  return root_word(request.call).empty() ? 0 : static_cast<std::uint32_t>(request.root);
}

}  // namespace

Frame frame_of(const CollectiveRequest& request, std::uint64_t number) {
  return {.call = request.call,
          .type = request.type,
          .reduction = request.reduction,
          .root = root_of(request),
          .number = number,
          .total = total_bytes(request)};
}

std::string Wording::rank(std::size_t rank) const {
  return "rank " + std::to_string(rank < ranks.size() ? ranks[rank] : rank);
}

std::string Wording::rank_list(const std::vector<std::size_t>& list) const {
  std::string text = list.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) text += i + 1 == list.size() ? " and " : ", ";
    text += std::to_string(list[i] < ranks.size() ? ranks[list[i]] : list[i]);
  }
  return text;
}

std::string describe(const Frame& frame, const Wording& wording) {
  std::string text(to_string(frame.call));
  if (is_transfer(frame.call)) {
    return text + " (tag " + std::to_string(frame.root) + ", " + with_commas(frame.bytes) +
           " bytes)";
  }
  text += " #" + std::to_string(frame.number);
  const std::string_view word = root_word(frame.call);
  if (!word.empty()) text += std::string(word) + wording.rank(frame.root);
  if (frame.call == Collective::kBarrier || frame.call == Collective::kMonitoredBarrier)
    return text;
  text += " (";
  if (frame.reduction != ElementReduction::kNone) {
    text += std::string(to_string(frame.reduction)) + ", ";
  }
  text += with_commas(frame.total > 0 ? frame.total : frame.bytes) + " bytes";
  if (frame.total == 0) text += " for a rank";
  const std::string type =
      wording.type_name != nullptr ? wording.type_name(frame.type) : std::to_string(frame.type);
  return text.append(" of ").append(type).append(format_words(frame)) + ")";
}

bool match(const Frame& one, const Frame& other) {
  if (is_transfer(one.call) || is_transfer(other.call)) {
    return is_transfer(one.call) && is_transfer(other.call) && one.bytes == other.bytes;
  }
  return one.call == other.call && one.type == other.type && one.reduction == other.reduction &&
         one.root == other.root && one.total == other.total && one.bytes == other.bytes;
}

}  // namespace atp
