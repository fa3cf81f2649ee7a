#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/counters.h"
#include "atp/base/failure_kind.h"
#include "atp/base/rank_set.h"
#include "atp/collective/base/collective_request.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/base/uplink.h"
#include "atp/collective/shm/outgoing_sums.h"
#include "atp/collective/shm/rendezvous.h"
#include "atp/collective/shm/row_reduction.h"
#include "atp/collective/waits/earliest_end.h"
#include "atp/collective/waits/late_ranks.h"
#include "atp/collective/waits/read_clock.h"

// All-reduces, and other collectives, of the ranks of one host, in their shared segment. One thread
// at a time drives it: work() does everything that can be done at once, and wait() sleeps until
// there is more.
//
// A rank writes a piece's values into its row, except its own share. Then it sums its share over
// all rows, reading its own values from its tensor, and puts the result in that place of its row.
// Then it copies the result from all rows to its tensor. If a piece is so small that waiting costs
// more than adding, every rank sums it whole, and the second step is left out.
//
// The other collectives (engine_request.cc) use the same pieces. A reduce-scatter is an all-reduce
// of which each rank takes only its share, and a reduce one that only the root takes. In an
// all-gather or a broadcast the ranks that have data write it, and the others copy it from their
// rows. In a gather, a scatter or an all-to-all each block has a cell of its own in the slot.
//
// In a job with several hosts the rows are summed to words (outgoing_sums.h) that the leader sends
// to the other hosts, and each rank reads the result from the words that return
// (engine_outgoing.cc). All leaders send in the same order, which depends on the operations alone.
//
// A rank that finds a failure writes it into the segment, where all others see it. The first to do
// so decides which rank all of them name.

namespace atp {

enum class HostCounter : std::uint8_t {
  kBytesWritten,  // into the segment
  kPieces,
  kPiecesWhole,  // summed whole by each rank
  kYields,       // to other processes, before it sleeps
  kSleeps,
  kOperationsCompleted,
  kOperationsFailed,
  kCount,
};

constexpr std::string_view to_string(HostCounter counter) {
  switch (counter) {
    case HostCounter::kBytesWritten: return "memory_bytes_written";
    case HostCounter::kPieces: return "memory_pieces";
    case HostCounter::kPiecesWhole: return "memory_pieces_summed_whole";
    case HostCounter::kYields: return "memory_yields";
    case HostCounter::kSleeps: return "memory_sleeps";
    case HostCounter::kOperationsCompleted: return "operations_completed";
    case HostCounter::kOperationsFailed: return "operations_failed";
    case HostCounter::kCount: break;
  }
  return "unknown";
}

using HostCounters = Counters<HostCounter>;

// The request, its memory and the layout must live until the operation has ended.
struct HostOperation {
  std::uint64_t number = 0;  // for messages
  // In a job of several hosts only an all-reduce. The blocks of a reduce-scatter follow each other
  // in memory. Its time-out counts from submit(); 0: the engine's.
  const CollectiveRequest* request = nullptr;
  OperationKind kind;  // of a sum by the rule of numbers; not the fixed scale
  bool small = false;
  // Of the values that are added, or of the bytes of the longest block.
  const BlockLayout* layout = nullptr;
};

struct HostEngineOptions {
  std::size_t rank = 0;  // on this host
  // If the job has other hosts: the number of all its ranks, and which of them are on this host.
  std::size_t world_size = 0;
  std::vector<Rank> names;
  std::chrono::milliseconds operation_timeout = std::chrono::seconds(30);  // without progress
  // An operation as text: "all_reduce #3 (1,000 values)", with its type and reduction.
  std::function<std::string(const HostOperationHeader&)> describe;
};

class HostEngine {
 public:
  using Time = std::chrono::steady_clock::time_point;

  HostEngine(HostPlace place, HostEngineOptions options);

  // For the leader; the uplink must outlive the engine.
  void send_through(HostUplink& uplink) { uplink_ = &uplink; }
  // With several hosts: the leader publishes on its host what the leaders have agreed on.
  void say(HostBoard::Verdict verdict) { place_.segment.board().verdict.store(verdict); }
  HostBoard::Verdict verdict() const { return place_.segment.board().verdict.load(); }
  std::string leader_text() const { return name_of(kLeader); }
  // Fails the job and tells all ranks of the host.
  void give_up(const std::string& why) { fail(why); }
  // Before there are operations: checks whether another rank has failed, or the leader is gone.
  void look_for_failure();

  // Queues an operation behind those submitted before; after a failure it fails at once.
  void submit(const HostOperation& operation, Time now);
  // Does what can be done at once, but only for a moment, and checks for failures and time-outs.
  void work(const ReadClock& clock);
  void work(Time now) {
    work([now] { return now; });
  }
  // Waits until there is more to do, but only briefly: the caller may have other news.
  void wait();
  // How many operations have completed since the last call; they end in order.
  std::size_t take_completed() { return std::exchange(completed_, 0); }
  // Why the job has failed, if it has.
  const std::optional<std::string>& failure() const { return failure_; }
  FailureKind failure_kind() const { return failure_kind_; }
  // The ranks of this host that the oldest operation waits for, by their numbers in the job.
  const LateRanks& late() const { return late_; }
  std::optional<LateRanks::Line> take_line() { return late_.take_line(); }
  // Tells the others that this rank leaves. Pending operations fail.
  void leave(const std::string& why);

  const HostCounters& counters() const { return counters_; }

 private:
  struct Entry {
    Entry(const HostOperation& operation, std::uint64_t its_turn, std::optional<Time> its_end,
          std::size_t world_size)
        : asked(operation),
          turn(its_turn),
          ends_by(its_end),
          header(header_of(operation)),
          reduction(reduction_of(operation)),
          outgoing(operation.kind.type, operation.kind.reduction, operation.kind.format,
                   operation.small, *operation.layout, world_size) {
      if (!request().outputs.empty()) to = request().outputs.front().data();
      from = to;
      for (const ConstBytes block : request().inputs) {
        from = block.data();
        if (!block.empty()) break;
      }
    }
    const CollectiveRequest& request() const { return *asked.request; }
    Collective collective() const { return request().call; }
    // The rows carry data to copy, not values to add.
    bool moves() const { return !adds(collective()); }
    bool exchanges() const { return atp::exchanges(collective()); }
    std::size_t value_bytes() const { return moves() ? 1 : reduction.value_bytes(); }
    HostOperation asked;
    // This rank's tensor, and where the result goes, unless there is a block for each rank.
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::uint64_t turn;           // its place among all submitted
    std::optional<Time> ends_by;  // then it fails even if it makes progress
    HostOperationHeader header;
    RowReduction reduction;
    OutgoingSums outgoing;
    std::size_t written = 0;  // values
    bool is_written = false;
    // If it exchanges blocks: its first piece, which carries the length of each rank's longest
    // block; and the longest of all, once all ranks have written that piece. Until then nobody
    // knows where the operation ends.
    std::uint64_t first_piece = 0;
    std::optional<std::size_t> longest;
  };
  // Consecutive values of one operation that use one slot.
  struct Piece {
    Entry* entry = nullptr;
    std::size_t begin = 0;
    std::size_t end = 0;
    bool whole = false;      // every rank copies it, or sums it whole, once it is written
    bool in_blocks = false;  // hosts agree on its exponents
    bool is_first = false;
    bool is_last = false;
  };
  // The phases of a piece: counted by all ranks, or reached by the network (kAgreed, kReduced).
  enum class Phase : std::uint8_t { kWritten, kScanned, kSummed, kTaken, kAgreed, kReduced };
  struct Awaited {
    Phase phase = Phase::kWritten;
    std::uint64_t pieces = 0;  // how many a rank must have done
  };

  // engine.cc
  static RowReduction reduction_of(const HostOperation& operation);
  static HostOperationHeader header_of(const HostOperation& operation);
  bool take_steps(const ReadClock& clock, Time& now);
  bool step();
  bool can_step();
  bool can_take();
  bool can_sum();
  bool can_write();
  void take();
  void sum();
  void write();
  Entry* next_to_write();
  Piece next_piece(Entry& entry) const;
  Piece& piece(std::uint64_t number) { return pieces_[static_cast<std::size_t>(number - taken_)]; }
  // The beginning of each rank's share of the piece, and the end of the last.
  const std::vector<std::size_t>& divide(const Piece& piece);
  bool agrees(const Piece& piece, std::uint64_t number);
  static SharedCount& count_in(HostBoard::Slot& slot, Phase phase);
  static std::atomic<std::uint64_t>& count_in(HostBoard::RankBoard& board, Phase phase);
  bool is_through(Phase phase, std::uint64_t number) const;
  void count(Phase phase, std::uint64_t number, bool is_news = true);
  void end_first();
  // The rows of all ranks from this value on; this rank's own values are read from its tensor.
  std::span<const std::byte* const> rows_from(const Piece& piece, std::size_t slot,
                                              std::size_t begin);
  std::size_t ranks() const { return place_.segment.ranks(); }
  std::size_t slot_of(std::uint64_t number) const { return number % place_.segment.slots(); }
  HostBoard::RankBoard& own_board() const { return place_.segment.board_of(options_.rank); }

  // engine_request.cc
  static void describe_request(const CollectiveRequest& request, HostOperationHeader* header);
  std::size_t moved_until(const Piece& piece, std::size_t rank) const;
  void write_moved(const Piece& piece, std::byte* row);
  void take_moved(const Piece& piece);
  void take_share(const Piece& piece);
  bool knows_longest(Entry& entry);
  bool passes_block(const CollectiveRequest& request, std::size_t from, std::size_t to) const;
  std::size_t cell_bytes(Collective collective) const;
  static std::size_t block_room(std::size_t cell_bytes);
  std::byte* cell(const Piece& piece, std::uint64_t number, std::size_t from, std::size_t to) const;
  void write_blocks(const Piece& piece);
  bool take_blocks(const Piece& piece);

  // engine_outgoing.cc
  bool is_of_several_hosts() const { return place_.segment.is_of_several_hosts(); }
  bool can_scan();
  bool can_sum_outgoing();
  bool can_send();
  bool sends_exponents();
  void scan();
  void sum_outgoing(const Piece& piece);
  void take_outgoing(const Piece& piece);
  void send();
  void pass_on(const Piece& piece, std::uint64_t number, Phase phase, HostUplink::Words words);
  std::int32_t* exponents_of(const Piece& piece, std::uint64_t number) const;

  // engine_watch.cc
  bool has_failed_elsewhere() const;
  void watch(Time now);
  void note_late(Time now, const RankSet& ranks, const std::optional<Awaited>& awaited);
  void look_around(Time now);
  void tell_followers();
  std::optional<NetworkWait> network_wait(Time now, const Awaited& awaited);
  void note_network(Time now, const Awaited& awaited);
  void watch_leader(Time now, const Awaited& awaited);
  bool is_stopped_leader() const;
  bool others_moved(Time now);
  RankSet without_progress(const RankSet& ranks, Time now) const;
  bool has_called_oldest(Rank rank) const;
  const Entry& overdue() const;
  std::string progress_text(Time now) const;
  std::uint64_t done_by(std::size_t rank) const;
  std::optional<Awaited> awaited();
  std::optional<Phase> awaited_here(const Piece& piece, std::uint64_t number) const;
  std::optional<Awaited> awaited_of_several_hosts();
  bool is_missing(Rank rank, const Awaited& awaited) const;
  RankSet missing(const Awaited& awaited) const;
  std::optional<std::string> why_gone(Rank rank, const Awaited& awaited) const;
  std::string blame(const RankSet& ranks, const Awaited& awaited, Time now) const;
  std::string name_of(Rank rank) const;
  std::string lost_text(Rank rank) const;
  std::chrono::milliseconds patience(const CollectiveRequest& request) const;
  std::chrono::milliseconds patience() const { return patience(operations_.front().request()); }
  Time ends_by() const { return ends_.get().value_or(Time::max()); }
  Time deadline() const { return std::min(progress_at_ + patience(), ends_by()); }
  std::chrono::milliseconds grace() const;
  std::string too_late(Time now) const;
  std::size_t in_job(std::size_t rank) const;
  void fail(const std::string& why, FailureKind kind = FailureKind::kBroken);
  void fail_late(const std::string& why) { fail(why, FailureKind::kTimeout); }
  void fail_as_told();
  void take_what_the_teller_has();
  void fail_all(const std::string& why, FailureKind kind);

  // Between two checks of whether the others are alive.
  static constexpr std::chrono::milliseconds kBetweenLooks{100};
  // The leader's number on a host, if there are several hosts.
  static constexpr Rank kLeader = 0;

  HostPlace place_;
  const HostEngineOptions options_;
  std::deque<Entry> operations_;  // oldest first; entries have stable addresses
  std::deque<Piece> pieces_;      // from taken_ to written_
  std::uint64_t called_ = 0;
  std::uint64_t written_ = 0;  // pieces, by this rank
  std::uint64_t scanned_ = 0;
  std::uint64_t summed_ = 0;
  std::uint64_t taken_ = 0;
  HostUplink* uplink_ = nullptr;
  std::uint64_t exponents_sent_ = 0;  // pieces, by the leader
  std::uint64_t words_sent_ = 0;
  int waits_without_yields_ = 0;
  std::size_t completed_ = 0;
  std::optional<std::string> failure_;
  FailureKind failure_kind_ = FailureKind::kNone;
  HostCounters counters_;
  std::vector<std::size_t> shares_;
  std::vector<const std::byte*> rows_;
  std::vector<std::byte> sums_;  // of whole blocks, when a share has only a part of one

  Time progress_at_{};
  EarliestEnd<Time> ends_;  // of operations that fail even if they make progress
  Time look_at_{};
  // How far each rank had got at the last look, and when this was first seen.
  struct Seen {
    std::uint64_t done = 0;
    Time at{};
  };
  std::vector<Seen> seen_;
  RankSet late_here_;  // by their numbers on this host
  Seen leader_;        // its reports of the network's waits
  std::string told_;   // the last of them that names no rank
  LateRanks late_;
};

}  // namespace atp
