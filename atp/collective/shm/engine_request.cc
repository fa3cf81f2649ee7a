// The steps of collectives other than an all-reduce.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "atp/base/check.h"
#include "atp/collective/shm/engine.h"

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

// Before a block's first bytes in its cell: its length, which the receiver compares with its own.
using BlockLength = std::uint64_t;

// The bytes of a block that lie in the piece from `begin` to `end`.
template <class Block>
Block part_of(Block block, std::size_t begin, std::size_t end) {
  const std::size_t from = std::min(begin, block.size());
  return block.subspan(from, std::min(end, block.size()) - from);
}

}  // namespace

std::size_t longest_block(const HostRequest& request) {
  std::size_t longest = 0;
  for (const auto& block : request.blocks_to) longest = std::max(longest, block.size());
  for (const auto& block : request.blocks_from) longest = std::max(longest, block.size());
  return longest;
}

void HostEngine::describe_request(const HostRequest& request, HostOperationHeader* header) {
  header->collective = static_cast<std::uint8_t>(request.collective);
  header->layout ^= fingerprint_of(request.lengths);
  if (has_root(request.collective)) header->root = request.root;
  const auto name = [header](std::string_view element) {
    // A name that were cut might equal another type's.
    ATP_CHECK(element.size() < header->element.size());
    std::memcpy(header->element.data(), element.data(), element.size());
  };
  if (adds(request.collective)) {
    if (request.reduction == ElementReduction::kNone) return;
    header->reduction = static_cast<std::uint8_t>(request.reduction);
    return name(to_string(request.kind));
  }
  header->small = 0;  // ranks with blocks of different lengths would disagree
  if (exchanges(request.collective)) header->layout = 0;
  header->element_bytes = static_cast<std::uint8_t>(request.element_bytes);
  name(request.element);
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

// Whether all ranks have written their first pieces, which show the longest block of all.
bool HostEngine::knows_longest(Entry& entry) {
  if (entry.longest) return true;
  if (!is_through(Phase::kWritten, entry.first_piece)) return false;
  std::size_t longest = 0;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const auto& headers = place_.segment.board_of(rank).headers;
    longest = std::max<std::size_t>(longest, headers[slot_of(entry.first_piece)].values);
  }
  entry.longest = longest;
  entry.is_written = entry.written >= longest;
  return true;
}

// A rank's block for itself does not pass through the segment.
bool HostEngine::passes_block(const HostRequest& request, std::size_t from, std::size_t to) const {
  if (from == to) return false;
  switch (request.collective) {
    case HostCollective::kGather: return to == request.root;
    case HostCollective::kScatter: return from == request.root;
    default: return true;
  }
}

// The sender's row has room for one block or for those to all other ranks. A scatter uses the rows
// of its receivers, as they have nothing to write.
std::size_t HostEngine::cell_bytes(HostCollective collective) const {
  const std::size_t row = place_.segment.row_bytes();
  if (collective != HostCollective::kAllToAll) return row;
  const std::size_t others = std::max<std::size_t>(ranks() - 1, 1);
  return row / others / sizeof(BlockLength) * sizeof(BlockLength);
}

std::size_t HostEngine::block_room(std::size_t cell_bytes) {
  return cell_bytes - sizeof(BlockLength);
}

std::byte* HostEngine::cell(const Piece& piece, std::uint64_t number, std::size_t from,
                            std::size_t to) const {
  const HostCollective collective = piece.entry->collective();
  const std::size_t slot = slot_of(number);
  if (collective == HostCollective::kScatter) return place_.segment.row(slot, to);
  std::byte* row = place_.segment.row(slot, from);
  if (collective == HostCollective::kGather) return row;
  return row + ((to + ranks() - from) % ranks() - 1) * cell_bytes(collective);
}

void HostEngine::write_blocks(const Piece& piece) {
  const HostRequest& request = *piece.entry->asked.request;
  for (std::size_t i = 1; i < ranks(); ++i) {
    const std::size_t to = (options_.rank + i) % ranks();
    if (!passes_block(request, options_.rank, to)) continue;
    std::byte* there = cell(piece, written_, options_.rank, to);
    const BlockLength length = request.blocks_to[to].size();
    if (piece.is_first) std::memcpy(there, &length, sizeof length);
    const auto part = part_of(request.blocks_to[to], piece.begin, piece.end);
    if (!part.empty()) copy_bytes(there + sizeof length, part.data(), part.size());
    counters_.add(HostCounter::kBytesWritten, part.size());
  }
}

// False after a failure.
bool HostEngine::take_blocks(const Piece& piece) {
  const HostRequest& request = *piece.entry->asked.request;
  for (std::size_t i = 1; i < ranks(); ++i) {
    const std::size_t from = (options_.rank + i) % ranks();
    if (!passes_block(request, from, options_.rank)) continue;
    const std::byte* there = cell(piece, taken_, from, options_.rank);
    BlockLength length = request.blocks_from[from].size();
    if (piece.is_first) std::memcpy(&length, there, sizeof length);
    if (length != request.blocks_from[from].size()) {
      fail("rank " + std::to_string(in_job(from)) + " sends " + std::to_string(length) +
           " bytes to rank " + std::to_string(in_job(options_.rank)) + ", which expects " +
           std::to_string(request.blocks_from[from].size()) + ", in " +
           options_.describe(piece.entry->header) + ": the two sizes must be equal");
      return false;
    }
    const auto part = part_of(request.blocks_from[from], piece.begin, piece.end);
    if (!part.empty()) copy_bytes(part.data(), there + sizeof length, part.size());
  }
  if (request.blocks_to[options_.rank].data() != request.blocks_from[options_.rank].data()) {
    const auto own = part_of(request.blocks_to[options_.rank], piece.begin, piece.end);
    const auto place = part_of(request.blocks_from[options_.rank], piece.begin, piece.end);
    if (!own.empty() && !place.empty()) copy_bytes(place.data(), own.data(), own.size());
  }
  return true;
}

}  // namespace atp
