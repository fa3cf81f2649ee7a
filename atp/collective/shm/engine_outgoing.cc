// The steps in a job with several hosts: from rows to the words that the leader sends, and back.
#include "atp/base/time.h"
#include "atp/collective/shm/engine.h"

namespace atp {
namespace {

// How many pieces ahead of the words the exponents are sent, so that the network always has values
// to send while it agrees on exponents. Less than the number of slots.
constexpr std::uint64_t kAhead = 3;
// How much longer the time-out in the network is than on a host. So the host of a missing rank
// finds it first, and the others learn from that host which rank it is.
constexpr std::chrono::milliseconds kForTheOthers{2000};

// Equal for equal operations.
std::uint32_t tag_of(const HostOperationHeader& header) {
  const std::uint32_t what = std::uint32_t{header.small} << 24 | std::uint32_t{header.type} << 16 |
                             std::uint32_t{header.reduction} << 8 | header.format;
  const std::uint32_t parts[] = {static_cast<std::uint32_t>(header.number),
                                 static_cast<std::uint32_t>(header.number >> 32),
                                 static_cast<std::uint32_t>(header.values),
                                 static_cast<std::uint32_t>(header.values >> 32),
                                 what,
                                 header.layout,
                                 header.tag};
  std::uint32_t hash = 0;
  for (const std::uint32_t part : parts) hash = atp_fmix32(hash ^ part) + 0x9e3779b9U;
  return hash;
}

// The index of a value's block within the piece that starts at `piece_begin`.
std::size_t block_in_piece(const BlockLayout& layout, std::size_t piece_begin, std::size_t value) {
  return layout.block_at(value).block - layout.block_at(piece_begin).block;
}

}  // namespace

// Null if values are not in blocks.
std::int32_t* HostEngine::exponents_of(const Piece& piece, std::uint64_t number) const {
  return piece.in_blocks ? place_.segment.exponents(slot_of(number)) : nullptr;
}

bool HostEngine::can_scan() {
  if (!is_of_several_hosts()) return false;
  while (scanned_ < written_ && !piece(scanned_).in_blocks) ++scanned_;
  return scanned_ < written_ && is_through(Phase::kWritten, scanned_);
}

void HostEngine::scan() {
  const Piece& own = piece(scanned_);
  if (!agrees(own, scanned_)) return;
  const std::vector<std::size_t>& shares = divide(own);
  const std::size_t begin = shares[options_.rank];
  const std::size_t end = shares[options_.rank + 1];
  if (begin < end) {
    const std::size_t first = block_in_piece(*own.entry->asked.layout, own.begin, begin);
    own.entry->outgoing.find_exponents(rows_from(own, slot_of(scanned_), begin), begin, end,
                                       exponents_of(own, scanned_) + first);
  }
  ++scanned_;
  count(Phase::kScanned, scanned_ - 1);
}

bool HostEngine::can_sum_outgoing() {
  if (summed_ == written_) return false;
  return is_through(piece(summed_).in_blocks ? Phase::kAgreed : Phase::kWritten, summed_);
}

void HostEngine::sum_outgoing(const Piece& piece) {
  const std::vector<std::size_t>& shares = divide(piece);
  const std::size_t begin = shares[options_.rank];
  const std::size_t end = shares[options_.rank + 1];
  if (begin == end) return;
  const OutgoingSums& outgoing = piece.entry->outgoing;
  const std::int32_t* exponents = exponents_of(piece, summed_);
  const std::size_t before = outgoing.words(piece.begin, begin, exponents);
  if (exponents != nullptr) {
    exponents += block_in_piece(*piece.entry->asked.layout, piece.begin, begin);
  }
  outgoing.sum(rows_from(piece, slot_of(summed_), begin), begin, end, exponents,
               place_.segment.words(slot_of(summed_)) + before);
}

void HostEngine::take_outgoing(const Piece& piece) {
  std::byte* to = piece.entry->to + piece.begin * bytes_of(piece.entry->asked.kind.type);
  piece.entry->outgoing.read(place_.segment.words(slot_of(taken_)), piece.begin, piece.end,
                             exponents_of(piece, taken_), to);
}

// All leaders send in this order, whatever is ready first: the exponents of an operation's first
// pieces, then alternately the words of a piece and the exponents of another; and everything of one
// operation before anything of the next.
bool HostEngine::sends_exponents() {
  if (exponents_sent_ == words_sent_) return true;
  if (!piece(words_sent_).in_blocks || piece(exponents_sent_ - 1).is_last) return false;
  return exponents_sent_ <= words_sent_ + kAhead;
}

bool HostEngine::can_send() {
  if (uplink_ == nullptr || words_sent_ == written_) return false;
  if (!sends_exponents()) return is_through(Phase::kSummed, words_sent_);
  if (exponents_sent_ == written_) return false;
  return !piece(exponents_sent_).in_blocks || is_through(Phase::kScanned, exponents_sent_);
}

void HostEngine::send() {
  if (!sends_exponents()) {
    const Piece& next = piece(words_sent_);
    const OutgoingSums& outgoing = next.entry->outgoing;
    pass_on(next, words_sent_, Phase::kReduced,
            {.at = place_.segment.words(slot_of(words_sent_)),
             .count = outgoing.words(next.begin, next.end, exponents_of(next, words_sent_)),
             .reduction = outgoing.of_words()});
    ++words_sent_;
    return;
  }
  const Piece& next = piece(exponents_sent_);
  if (next.in_blocks) {
    const BlockLayout& layout = *next.entry->asked.layout;
    pass_on(next, exponents_sent_, Phase::kAgreed,
            {.at = exponents_of(next, exponents_sent_),
             .count = block_in_piece(layout, next.begin, next.end - 1) + 1,
             .reduction = Reduction::kMax});
  }
  ++exponents_sent_;
}

// The network's thread may call back while this engine does something else, but not after the
// engine is gone.
void HostEngine::pass_on(const Piece& piece, std::uint64_t number, Phase phase,
                         HostUplink::Words words) {
  const HostOperationHeader& header = piece.entry->header;
  words.tag = tag_of(header);
  words.of = UserOperation{piece.entry->asked.number, header.values, header.tag};
  const std::chrono::milliseconds own = piece.entry->request().timeout;
  words.timeout =
      bounded_timeout(own.count() > 0 ? own : options_.operation_timeout) + kForTheOthers;
  std::atomic<std::uint64_t>& count =
      count_in(place_.segment.board().slots[slot_of(number)], phase).value;
  uplink_->combine(words, [&count, &segment = place_.segment, number](bool is_done) {
    if (is_done) count.store(number + 1, std::memory_order_release);
    segment.signal();
  });
}

}  // namespace atp
