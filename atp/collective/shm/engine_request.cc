// The steps of collectives other than an all-reduce.
#include <algorithm>
#include <cstring>

#include "atp/collective/shm/engine.h"

namespace atp {
namespace {

// Equal for blocks of equal lengths.
template <class Block>
std::uint32_t fingerprint_of(const std::vector<Block>& blocks) {
  std::uint32_t hash = 0;
  for (const Block& block : blocks) {
    const std::uint64_t length = block.size();
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

void HostEngine::describe_request(const CollectiveRequest& request, HostOperationHeader* header) {
  header->collective = static_cast<std::uint8_t>(request.call);
  if (request.call == Collective::kAllGather) header->layout ^= fingerprint_of(request.outputs);
  if (request.call == Collective::kReduceScatter) header->layout ^= fingerprint_of(request.inputs);
  if (has_root(request.call)) header->root = static_cast<std::uint32_t>(request.root);
  if (adds(request.call)) {
    if (has_rule(request.kind, request.reduction)) return;
    header->reduction = static_cast<std::uint8_t>(request.reduction);
    header->element = static_cast<std::uint8_t>(request.kind);
    return;
  }
  header->small = 0;  // ranks with blocks of different lengths would disagree
  if (exchanges(request.call)) header->layout = 0;
  header->element = static_cast<std::uint8_t>(request.kind);
  header->element_type = request.type;
}

// The end of the rank's data in the piece; the start of the piece if it has none.
std::size_t HostEngine::moved_until(const Piece& piece, std::size_t rank) const {
  const CollectiveRequest& request = piece.entry->request();
  if (request.call == Collective::kBroadcast) {
    return rank == request.root ? piece.end : piece.begin;
  }
  return std::clamp(request.outputs[rank].size(), piece.begin, piece.end);
}

void HostEngine::write_moved(const Piece& piece, std::byte* row) {
  const std::size_t bytes = moved_until(piece, options_.rank) - piece.begin;
  if (bytes == 0) return;
  copy_bytes(row, piece.entry->from + piece.begin, bytes);
  counters_.add(HostCounter::kBytesWritten, bytes);
}

void HostEngine::take_moved(const Piece& piece) {
  const std::vector<Bytes>& outputs = piece.entry->request().outputs;
  const std::byte* from = piece.entry->from + piece.begin;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const std::size_t bytes = moved_until(piece, rank) - piece.begin;
    if (bytes == 0) continue;
    std::byte* to = block_of(outputs, rank, ranks()).data() + piece.begin;
    if (rank != options_.rank) {
      copy_bytes(to, place_.segment.row(slot_of(taken_), rank), bytes);
    } else if (to != from) {
      copy_bytes(to, from, bytes);
    }
  }
}

// Takes this rank's share of the piece's sums, which may begin and end within a block.
void HostEngine::take_share(const Piece& piece) {
  const CollectiveRequest& request = piece.entry->request();
  const std::size_t size = piece.entry->value_bytes();
  const std::size_t slot = slot_of(taken_);
  std::size_t share = 0;
  for (std::size_t rank = 0; rank < options_.rank; ++rank) {
    share += request.inputs[rank].size() / size;
  }
  const std::size_t begin = std::max(piece.begin, share);
  const std::size_t end = std::min(piece.end, share + request.inputs[options_.rank].size() / size);
  if (begin >= end) return;
  std::byte* to = piece.entry->to + (begin - share) * size;
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
bool HostEngine::passes_block(const CollectiveRequest& request, std::size_t from,
                              std::size_t to) const {
  if (from == to) return false;
  switch (request.call) {
    case Collective::kGather: return to == request.root;
    case Collective::kScatter: return from == request.root;
    default: return true;
  }
}

// The sender's row has room for one block or for those to all other ranks. A scatter uses the rows
// of its receivers, as they have nothing to write.
std::size_t HostEngine::cell_bytes(Collective collective) const {
  const std::size_t row = place_.segment.row_bytes();
  if (collective != Collective::kAllToAll) return row;
  const std::size_t others = std::max<std::size_t>(ranks() - 1, 1);
  return row / others / sizeof(BlockLength) * sizeof(BlockLength);
}

std::size_t HostEngine::block_room(std::size_t cell_bytes) {
  return cell_bytes - sizeof(BlockLength);
}

std::byte* HostEngine::cell(const Piece& piece, std::uint64_t number, std::size_t from,
                            std::size_t to) const {
  const Collective collective = piece.entry->collective();
  const std::size_t slot = slot_of(number);
  if (collective == Collective::kScatter) return place_.segment.row(slot, to);
  std::byte* row = place_.segment.row(slot, from);
  if (collective == Collective::kGather) return row;
  return row + ((to + ranks() - from) % ranks() - 1) * cell_bytes(collective);
}

void HostEngine::write_blocks(const Piece& piece) {
  const CollectiveRequest& request = piece.entry->request();
  for (std::size_t i = 1; i < ranks(); ++i) {
    const std::size_t to = (options_.rank + i) % ranks();
    if (!passes_block(request, options_.rank, to)) continue;
    std::byte* there = cell(piece, written_, options_.rank, to);
    const ConstBytes block = block_of(request.inputs, to, ranks());
    const BlockLength length = block.size();
    if (piece.is_first) std::memcpy(there, &length, sizeof length);
    const auto part = part_of(block, piece.begin, piece.end);
    if (!part.empty()) copy_bytes(there + sizeof length, part.data(), part.size());
    counters_.add(HostCounter::kBytesWritten, part.size());
  }
}

// False after a failure.
bool HostEngine::take_blocks(const Piece& piece) {
  const CollectiveRequest& request = piece.entry->request();
  for (std::size_t i = 1; i < ranks(); ++i) {
    const std::size_t from = (options_.rank + i) % ranks();
    if (!passes_block(request, from, options_.rank)) continue;
    const std::byte* there = cell(piece, taken_, from, options_.rank);
    const Bytes block = block_of(request.outputs, from, ranks());
    BlockLength length = block.size();
    if (piece.is_first) std::memcpy(&length, there, sizeof length);
    if (length != block.size()) {
      fail("rank " + std::to_string(in_job(from)) + " sends " + std::to_string(length) +
           " bytes to rank " + std::to_string(in_job(options_.rank)) + ", which expects " +
           std::to_string(block.size()) + ", in " + options_.describe(piece.entry->header) +
           ": the two sizes must be equal");
      return false;
    }
    const auto part = part_of(block, piece.begin, piece.end);
    if (!part.empty()) copy_bytes(part.data(), there + sizeof length, part.size());
  }
  const ConstBytes own =
      part_of(block_of(request.inputs, options_.rank, ranks()), piece.begin, piece.end);
  const Bytes place =
      part_of(block_of(request.outputs, options_.rank, ranks()), piece.begin, piece.end);
  if (own.data() != place.data() && !own.empty() && !place.empty()) {
    copy_bytes(place.data(), own.data(), own.size());
  }
  return true;
}

}  // namespace atp
