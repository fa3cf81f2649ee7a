// The steps of an all-reduce on one host, and the order in which a rank takes them.
#include "atp/collective/shm/engine.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "atp/collective/waits/spent_text.h"

namespace atp {
namespace {

// The maximum bytes of all ranks together in an operation that each rank sums whole.
constexpr std::size_t kMostSummedWhole = 64 * 1024;
// How many times this rank yields before it asks to be woken. With more ranks than cores the others
// need the processor to go on; otherwise a yield returns at once, and this is a short spin.
constexpr int kYields = 40;
// The maximum time to spend yielding: on a crowded machine each yield may take a while, and the
// driving thread must check its time-outs.
constexpr std::chrono::milliseconds kMostYielding{20};
// A yield of this length went to another program, for a time slice: no rank needs that long for its
// part of a piece. Each piece of a large tensor would cost such a slice. A rank that sleeps is
// woken ahead of other programs, so the next kWaitsWithoutYields waits sleep at once.
constexpr std::chrono::milliseconds kSlowYield{1};
constexpr int kWaitsWithoutYields = 256;
// The maximum sleep after that: its own process may have news for it.
constexpr std::int64_t kMostSleep = 20'000'000;  // ns
// A step handles a piece. Between rounds the driving thread takes commands and publishes its state.
constexpr int kStepsInARound = 32;

}  // namespace

HostEngine::HostEngine(HostPlace place, HostEngineOptions options)
    : place_(std::move(place)), options_(std::move(options)), rows_(ranks()), seen_(ranks()) {}

RowReduction HostEngine::reduction_of(const HostOperation& operation) {
  const CollectiveRequest& request = *operation.request;
  if (adds(request.call) && !has_rule(request.kind, request.reduction)) {
    return {request.kind, request.reduction, *operation.layout};
  }
  const OperationKind& kind = operation.kind;
  const bool is_for_all = request.call == Collective::kAllReduce;
  return {kind.type,       kind.reduction,    kind.format,
          operation.small, *operation.layout, is_for_all ? Recipients::kAll : Recipients::kOne};
}

HostOperationHeader HostEngine::header_of(const HostOperation& operation) {
  HostOperationHeader header{.number = operation.number,
                             .values = operation.layout->values(),
                             .type = static_cast<std::uint8_t>(operation.kind.type),
                             .reduction = static_cast<std::uint8_t>(operation.kind.reduction),
                             .format = static_cast<std::uint8_t>(operation.kind.format),
                             .small = operation.small,
                             .layout = operation.layout->fingerprint(),
                             .tag = operation.request->tag};
  describe_request(*operation.request, &header);
  return header;
}

void HostEngine::submit(const HostOperation& operation, Time now) {
  if (operations_.empty()) {
    progress_at_ = now;
    look_at_ = now + kBetweenLooks;
  }
  const CollectiveRequest& request = *operation.request;
  std::optional<Time> end;
  if (request.timeout_is_total) end = now + patience(request) - request.spent;
  ends_.add(end);
  operations_.emplace_back(operation, called_++, end, options_.world_size);
  own_board().called.store(called_, std::memory_order_relaxed);
  if (failure_) return fail_all(*failure_, failure_kind_);
  if (end && *end <= now) {
    fail_late(spent_text(name_of(static_cast<Rank>(options_.rank)), patience(request)));
  }
}

void HostEngine::work(const ReadClock& clock) {
  Time now = clock();
  if (failure_ || operations_.empty()) return;
  // Check first: a late rank must not complete an operation that failed at the others.
  if (has_failed_elsewhere()) return fail_as_told();
  if (uplink_ != nullptr) {
    if (const auto why = uplink_->failure()) {
      // Operations in different formats never meet, so a mismatch between hosts shows only when one
      // compares their messages.
      const HostOperationHeader& mine = operations_.front().header;
      return fail(*why + "; rank " + std::to_string(in_job(options_.rank)) + " waits for " +
                      options_.describe(mine),
                  uplink_->failure_kind());
    }
  }
  const bool moved = take_steps(clock, now);
  if (failure_) return;
  if (moved) progress_at_ = now;
  if (!operations_.empty()) {
    watch(now);
  } else if (!late_.ranks().empty()) {
    note_late(now, {}, std::nullopt);
  }
}

// False: there was nothing to do.
bool HostEngine::take_steps(const ReadClock& clock, Time& now) {
  for (int i = 0; i < kStepsInARound; ++i) {
    if (!step()) return i > 0;
    now = clock();
    if (failure_ || now >= ends_by()) break;
  }
  return true;
}

void HostEngine::wait() {
  Time now = std::chrono::steady_clock::now();
  const Time enough = now + kMostYielding;
  for (int i = 0; i < kYields && waits_without_yields_ == 0; ++i) {
    if (failure_ || can_step()) return;
    sched_yield();
    counters_.add(HostCounter::kYields);
    const Time before = std::exchange(now, std::chrono::steady_clock::now());
    if (now - before >= kSlowYield) waits_without_yields_ = kWaitsWithoutYields;
    if (now >= enough) break;
  }
  waits_without_yields_ = std::max(waits_without_yields_ - 1, 0);
  const std::uint32_t events = place_.segment.board().events.load();
  const bool is_cut_off = uplink_ != nullptr && uplink_->failure();
  if (can_step() || has_failed_elsewhere() || is_cut_off) return;
  counters_.add(HostCounter::kSleeps);
  place_.segment.sleep(events, kMostSleep);
}

// Works on the oldest piece first, whose values are still in a cache.
bool HostEngine::step() {
  if (can_take()) {
    take();
  } else if (can_send()) {
    send();
  } else if (can_sum()) {
    sum();
  } else if (can_scan()) {
    scan();
  } else if (can_write()) {
    write();
  } else {
    return false;
  }
  return true;
}

bool HostEngine::can_step() {
  return can_take() || can_send() || can_sum() || can_scan() || can_write();
}

bool HostEngine::can_take() {
  if (taken_ == written_) return false;
  if (is_of_several_hosts()) return is_through(Phase::kReduced, taken_);
  return is_through(piece(taken_).whole ? Phase::kWritten : Phase::kSummed, taken_);
}

bool HostEngine::can_sum() {
  if (is_of_several_hosts()) return can_sum_outgoing();
  while (summed_ < written_ && piece(summed_).whole) ++summed_;
  return summed_ < written_ && is_through(Phase::kWritten, summed_);
}

bool HostEngine::can_write() {
  const std::size_t slots = place_.segment.slots();
  if (written_ >= taken_ + slots || next_to_write() == nullptr) return false;
  return written_ < slots || is_through(Phase::kTaken, written_ - slots);
}

HostEngine::Entry* HostEngine::next_to_write() {
  for (Entry& entry : operations_) {
    if (entry.exchanges() && entry.written > 0 && !knows_longest(entry)) return nullptr;
    if (!entry.is_written) return &entry;
  }
  return nullptr;
}

// Takes as many whole blocks as a row has room for.
HostEngine::Piece HostEngine::next_piece(Entry& entry) const {
  const BlockLayout& layout = *entry.asked.layout;
  const std::size_t size = entry.value_bytes();
  const SegmentShape& shape = place_.segment.shape();
  const std::size_t room = shape.piece_values > 0 ? shape.piece_values : shape.row_bytes / size;
  Piece piece{.entry = &entry, .begin = entry.written, .is_first = entry.written == 0};
  if (entry.exchanges()) {
    piece.whole = true;
    piece.end = piece.begin + block_room(cell_bytes(entry.collective()));
    piece.is_last = entry.longest && piece.end >= *entry.longest;
    return piece;
  }
  const bool fits = layout.values() - piece.begin <= room;
  piece.end = fits ? layout.values() : layout.block_at(piece.begin + room).begin;
  piece.is_last = piece.end == layout.values();
  if (is_of_several_hosts()) {
    piece.in_blocks = entry.outgoing.is_in_blocks() && piece.begin < piece.end;
  } else {
    piece.whole = entry.moves() || layout.values() * size * ranks() <= kMostSummedWhole;
  }
  return piece;
}

const std::vector<std::size_t>& HostEngine::divide(const Piece& piece) {
  const std::size_t length = piece.end - piece.begin;
  if (length == 0) {
    shares_.assign(ranks() + 1, piece.begin);
    return shares_;
  }
  shares_.assign(1, piece.begin);
  for (std::size_t rank = 1; rank < ranks(); ++rank) {
    const std::size_t at = piece.begin + length * rank / ranks();
    shares_.push_back(std::max(piece.begin, piece.entry->asked.layout->block_at(at).begin));
  }
  shares_.push_back(piece.end);
  return shares_;
}

void HostEngine::write() {
  Entry& entry = *next_to_write();
  const Piece piece = next_piece(entry);
  const std::uint64_t number = written_;
  const std::size_t slot = slot_of(number);
  const std::size_t size = entry.value_bytes();
  std::byte* row = place_.segment.row(slot, options_.rank);
  const auto copy = [&](std::size_t begin, std::size_t end) {
    copy_bytes(row + (begin - piece.begin) * size, entry.from + begin * size, (end - begin) * size);
    counters_.add(HostCounter::kBytesWritten, (end - begin) * size);
  };
  if (piece.is_first) {
    own_board().headers[slot] = entry.header;
    entry.first_piece = number;
  }
  if (piece.whole) {
    if (entry.exchanges()) {
      write_blocks(piece);
    } else if (entry.moves()) {
      write_moved(piece, row);
    } else {
      copy(piece.begin, piece.end);
      counters_.add(HostCounter::kPiecesWhole);
    }
    count(Phase::kSummed, number, false);
  } else {
    const std::vector<std::size_t>& shares = divide(piece);
    copy(piece.begin, shares[options_.rank]);
    copy(shares[options_.rank + 1], piece.end);
  }
  if (is_of_several_hosts() && !piece.in_blocks) count(Phase::kScanned, number, false);
  counters_.add(HostCounter::kPieces);
  entry.written = piece.end;
  entry.is_written = piece.is_last;
  pieces_.push_back(piece);
  ++written_;
  count(Phase::kWritten, number);
}

std::span<const std::byte* const> HostEngine::rows_from(const Piece& piece, std::size_t slot,
                                                        std::size_t begin) {
  const std::size_t size = piece.entry->value_bytes();
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    rows_[rank] = place_.segment.row(slot, rank) + (begin - piece.begin) * size;
  }
  rows_[options_.rank] = piece.entry->from + begin * size;
  return rows_;
}

void HostEngine::sum() {
  const Piece& own = piece(summed_);
  if (is_of_several_hosts()) {
    if (!own.in_blocks && !agrees(own, summed_)) return;
    sum_outgoing(own);
  } else {
    if (!agrees(own, summed_)) return;
    const std::size_t slot = slot_of(summed_);
    const std::vector<std::size_t>& shares = divide(own);
    const std::size_t begin = shares[options_.rank];
    const std::size_t end = shares[options_.rank + 1];
    const std::size_t offset = (begin - own.begin) * own.entry->value_bytes();
    own.entry->reduction.reduce(rows_from(own, slot, begin), begin, end,
                                place_.segment.row(slot, options_.rank) + offset);
  }
  ++summed_;
  count(Phase::kSummed, summed_ - 1);
}

void HostEngine::take() {
  Piece own = piece(taken_);
  if (own.whole && !agrees(own, taken_)) return;
  if (own.entry->exchanges() && knows_longest(*own.entry)) {
    own.is_last = own.end >= *own.entry->longest;
  }
  const std::size_t slot = slot_of(taken_);
  const std::size_t size = own.entry->value_bytes();
  if (is_of_several_hosts()) {
    take_outgoing(own);
  } else if (own.entry->exchanges()) {
    if (!take_blocks(own)) return;
  } else if (own.entry->moves()) {
    take_moved(own);
  } else if (own.entry->collective() == Collective::kReduceScatter) {
    take_share(own);
  } else if (own.entry->collective() == Collective::kReduce &&
             own.entry->request().root != options_.rank) {
    // Only the root takes the result.
  } else if (own.whole) {
    own.entry->reduction.reduce(rows_from(own, slot, own.begin), own.begin, own.end,
                                own.entry->to + own.begin * size);
  } else {
    const std::vector<std::size_t>& shares = divide(own);
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const std::size_t offset = (shares[rank] - own.begin) * size;
      copy_bytes(own.entry->to + shares[rank] * size, place_.segment.row(slot, rank) + offset,
                 (shares[rank + 1] - shares[rank]) * size);
    }
  }
  pieces_.pop_front();
  ++taken_;
  scanned_ = std::max(scanned_, taken_);
  summed_ = std::max(summed_, taken_);
  count(Phase::kTaken, taken_ - 1);
  if (own.is_last) end_first();
}

void HostEngine::end_first() {
  operations_.pop_front();
  ends_.remove_oldest();
  ++completed_;
  counters_.add(HostCounter::kOperationsCompleted);
}

// Checks that all ranks have called the same operation, before any of their values is read.
bool HostEngine::agrees(const Piece& piece, std::uint64_t number) {
  if (!piece.is_first) return true;
  const auto header_of = [&](std::size_t rank) -> const HostOperationHeader& {
    return rank == options_.rank ? piece.entry->header
                                 : place_.segment.board_of(rank).headers[slot_of(number)];
  };
  const auto match = [&](std::size_t rank, std::size_t other) {
    HostOperationHeader compared = header_of(rank);
    // Their blocks may differ in length.
    if (piece.entry->exchanges()) compared.values = header_of(other).values;
    return compared == header_of(other);
  };
  bool all = true;
  for (std::size_t rank = 0; rank < ranks(); ++rank) all = all && match(rank, options_.rank);
  if (all) return true;
  // The rank to name first is the one with which the fewest agree.
  std::vector<std::size_t> agreeing(ranks());
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    for (std::size_t other = 0; other < ranks(); ++other) agreeing[rank] += match(rank, other);
  }
  const auto [fewest, most] = std::minmax_element(agreeing.begin(), agreeing.end());
  const auto odd = static_cast<std::size_t>(fewest - agreeing.begin());
  const auto usual = static_cast<std::size_t>(most - agreeing.begin());
  fail("rank " + std::to_string(in_job(odd)) + " has called a different operation, " +
       options_.describe(header_of(odd)) + "; rank " + std::to_string(in_job(usual)) +
       " has called " + options_.describe(header_of(usual)) +
       ": all ranks must call the same operations in the same order");
  return false;
}

SharedCount& HostEngine::count_in(HostBoard::Slot& slot, Phase phase) {
  switch (phase) {
    case Phase::kWritten: return slot.written;
    case Phase::kScanned: return slot.scanned;
    case Phase::kSummed: return slot.summed;
    case Phase::kTaken: return slot.taken;
    case Phase::kAgreed: return slot.agreed;
    case Phase::kReduced: break;
  }
  return slot.reduced;
}

std::atomic<std::uint64_t>& HostEngine::count_in(HostBoard::RankBoard& board, Phase phase) {
  switch (phase) {
    case Phase::kWritten: return board.written;
    case Phase::kScanned: return board.scanned;
    case Phase::kSummed: return board.summed;
    default: return board.taken;
  }
}

bool HostEngine::is_through(Phase phase, std::uint64_t number) const {
  HostBoard::Slot& slot = place_.segment.board().slots[slot_of(number)];
  const std::uint64_t counted = count_in(slot, phase).value.load(std::memory_order_acquire);
  if (phase == Phase::kAgreed || phase == Phase::kReduced) return counted > number;
  return counted >= (number / place_.segment.slots() + 1) * ranks();
}

// `is_news`: another rank may wait for this step. (Otherwise this rank's own count stays as it is,
// because others may still wait for an earlier piece.)
void HostEngine::count(Phase phase, std::uint64_t number, bool is_news) {
  SharedCount& all = count_in(place_.segment.board().slots[slot_of(number)], phase);
  const bool is_last = (all.value.fetch_add(1) + 1) % ranks() == 0;
  if (!is_news) return;
  // Only after the shared count: a rank that dies in between counts as missing, so it is always
  // found.
  count_in(own_board(), phase).store(number + 1, std::memory_order_release);
  if (is_last) place_.segment.signal();
}

}  // namespace atp
