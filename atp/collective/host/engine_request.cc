// The steps of collectives other than an all-reduce.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "atp/collective/host/engine.h"

namespace atp {
namespace {

// Equal for equal lengths.
std::uint32_t fingerprint_of(const std::vector<std::size_t>& lengths) {
  std::uint32_t hash = 0;
  for (const std::uint64_t length : lengths) {
    for (const std::uint64_t half : {length, length >> 32}) {
      hash = atp_fmix32(hash ^ static_cast<std::uint32_t>(half)) + 0x9e3779b9U;
    }
  }
  return hash;
}

}  // namespace

void HostEngine::describe_request(const HostRequest& request, HostOperationHeader* header) {
  header->collective = static_cast<std::uint8_t>(request.collective);
  header->layout ^= fingerprint_of(request.lengths);
  if (request.collective == HostCollective::kReduceScatter) return;
  header->small = 0;  // ranks with blocks of different lengths would disagree
  header->root = request.root;
  header->element_bytes = static_cast<std::uint8_t>(request.element_bytes);
  const std::size_t length = std::min(request.element.size(), header->element.size() - 1);
  std::memcpy(header->element.data(), request.element.data(), length);
}

// The end of the rank's data in the piece; the start of the piece if it has none.
std::size_t HostEngine::moved_until(const Piece& piece, std::size_t rank) const {
  const HostRequest& request = *piece.entry->asked.request;
  if (request.collective == HostCollective::kBroadcast) {
    return rank == request.root ? piece.end : piece.begin;
  }
  return std::clamp(request.lengths[rank], piece.begin, piece.end);
}

void HostEngine::write_moved(const Piece& piece, std::byte* row) {
  const std::size_t bytes = moved_until(piece, options_.rank) - piece.begin;
  if (bytes == 0) return;
  copy_bytes(row, piece.entry->asked.data + piece.begin, bytes);
  counters_.add(HostCounter::kBytesWritten, bytes);
}

void HostEngine::take_moved(const Piece& piece) {
  const HostOperation& asked = piece.entry->asked;
  const bool is_gather = asked.request->collective == HostCollective::kAllGather;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const std::size_t bytes = moved_until(piece, rank) - piece.begin;
    if (bytes == 0) continue;
    std::byte* to = (is_gather ? asked.request->outputs[rank] : asked.data) + piece.begin;
    if (rank != options_.rank) {
      copy_bytes(to, place_.segment.row(slot_of(taken_), rank), bytes);
    } else if (to != asked.data + piece.begin) {
      copy_bytes(to, asked.data + piece.begin, bytes);
    }
  }
}

// Takes this rank's share of the piece's sums, which may begin and end within a block.
void HostEngine::take_share(const Piece& piece) {
  const HostRequest& request = *piece.entry->asked.request;
  const std::size_t size = piece.entry->value_bytes();
  const std::size_t slot = slot_of(taken_);
  const auto own = request.lengths.begin() + static_cast<std::ptrdiff_t>(options_.rank);
  const std::size_t share = std::accumulate(request.lengths.begin(), own, std::size_t{0});
  const std::size_t begin = std::max(piece.begin, share);
  const std::size_t end = std::min(piece.end, share + *own);
  if (begin >= end) return;
  std::byte* to = request.outputs.front() + (begin - share) * size;
  if (piece.whole) {
    const BlockLayout& layout = *piece.entry->asked.layout;
    const std::size_t first = layout.block_at(begin).begin;
    const std::size_t last = layout.block_at(end - 1).end;
    sums_.resize((last - first) * size);
    piece.entry->reduction.reduce(rows_from(piece, slot, first), first, last, sums_.data());
    std::memcpy(to, sums_.data() + (begin - first) * size, (end - begin) * size);
    return;
  }
  const std::vector<std::size_t>& shares = divide(piece);
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const std::size_t from = std::max(begin, shares[rank]);
    const std::size_t until = std::min(end, shares[rank + 1]);
    if (from >= until) continue;
    copy_bytes(to + (from - begin) * size,
               place_.segment.row(slot, rank) + (from - piece.begin) * size, (until - from) * size);
  }
}

}  // namespace atp
