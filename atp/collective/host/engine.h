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
#include "atp/base/rank_set.h"
#include "atp/collective/host/host_request.h"
#include "atp/collective/host/meeting.h"
#include "atp/collective/host/outgoing_sums.h"
#include "atp/collective/host/row_reduction.h"
#include "atp/collective/host/uplink.h"

// All-reduces of the ranks of one host, in their segment, and what else goes through their rows.
// One thread at a time drives it; all that it does at once is done by work(), and wait() sleeps
// until there is more.
//
// A rank writes a piece's values into its row for the others, except its own share of them; then it
// sums its share over all rows, reading its own values where they are, and leaves the result in
// that place of its row; then it copies the result from all rows to its tensor. A piece that is so
// small that waiting costs more than adding is summed whole by every rank: there the second step
// is left out.
//
// The other collectives (engine_request.cc) go through the same pieces. A reduce-scatter is an
// all-reduce of which each rank takes its share only. What an all-gather or a broadcast moves is
// written by those who have it, and taken out of their rows.
//
// Of a job with several hosts the rows are summed to words that leave the host (outgoing_sums.h),
// by way of its leader, and each rank reads the result out of what comes back (engine_outgoing.cc).
// The leaders send in one order, which depends on the operations alone.
//
// Who finds that something is wrong writes it into the segment, where all others see it: the first
// one to do so decides whom all name.

namespace atp {

enum class HostCounter : std::uint8_t {
  kBytesWritten,  // into the segment
  kPieces,
  kPiecesWhole,  // summed by each rank for itself
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

// The tensor, the layout and the request must live until the operation has ended.
struct HostOperation {
  std::uint64_t number = 0;  // in messages
  // Null: an all-reduce. Of what is moved as it is the layout counts bytes, of an all-gather those
  // of the longest block; only in a job of one host.
  const HostRequest* request = nullptr;
  std::byte* data = nullptr;
  DataType type = DataType::kFloat32;
  Reduction reduction = Reduction::kSum;
  NumberFormat format = NumberFormat::kBlocks;  // not the fixed scale
  bool small = false;
  const BlockLayout* layout = nullptr;
  std::uint32_t tag = 0;
  std::chrono::milliseconds timeout{0};  // without progress; 0: the engine's
};

struct HostEngineOptions {
  std::size_t rank = 0;  // on this host
  // Where the job has other hosts: all of its ranks, and which of them this host's are.
  std::size_t world_size = 0;
  std::vector<Rank> names;
  std::chrono::milliseconds operation_timeout = std::chrono::seconds(30);  // without progress
  // An operation in words: "all_reduce #3 (1,000 values)", and what it combines.
  std::function<std::string(const HostOperationHeader&)> describe;
};

class HostEngine {
 public:
  using Time = std::chrono::steady_clock::time_point;

  HostEngine(HostPlace place, HostEngineOptions options);

  // Of the leader, which must outlive it.
  void send_through(HostUplink& uplink) { uplink_ = &uplink; }
  // Of several hosts: the leader says what it has agreed on with the others, and its host sees it.
  void say(HostBoard::Verdict verdict) { place_.segment.board().verdict.store(verdict); }
  HostBoard::Verdict verdict() const { return place_.segment.board().verdict.load(); }
  std::string leader_text() const { return name_of(kLeader); }
  // Nothing can be summed; all ranks of the host are told so.
  void give_up(const std::string& why) { fail(why); }
  // Before there are operations: whether another rank has found a failure, or the leader is gone.
  void look_for_failure();

  // Takes its turn after all that were submitted before; after a failure it fails at once.
  void submit(const HostOperation& operation, Time now);
  // Does what can be done at once, and, where that is nothing, looks for what is wrong.
  void work(Time now);
  // Until there is more to do, but not much longer than a moment: the caller may have other news.
  void wait();
  // How many operations have their results since the last time; they end in their order.
  std::size_t take_completed() { return std::exchange(completed_, 0); }
  // Why none ends well any more.
  const std::optional<std::string>& failure() const { return failure_; }
  // Whom an operation has waited for a while, though nothing has failed, and that it goes on; each
  // such line once.
  std::optional<std::string> take_warning() { return std::exchange(warning_, std::nullopt); }
  struct Waiting {
    RankSet ranks;  // of the job
    Time since;
    bool is_told = false;             // there was a warning
    RankSet here;                     // by their numbers on this host
    std::vector<std::uint64_t> done;  // by each of these, when it was noted
  };
  const std::optional<Waiting>& waiting() const { return waiting_; }
  // Tells the others that this rank goes. What is pending fails.
  void leave(const std::string& why);

  const HostCounters& counters() const { return counters_; }

 private:
  struct Entry {
    Entry(const HostOperation& operation, std::uint64_t its_turn, std::size_t world_size)
        : asked(operation),
          turn(its_turn),
          header(header_of(operation)),
          reduction(operation.type, operation.reduction, operation.format, operation.small,
                    *operation.layout),
          outgoing(operation.type, operation.reduction, operation.format, operation.small,
                   *operation.layout, world_size) {}
    HostCollective collective() const {
      return asked.request == nullptr ? HostCollective::kAllReduce : asked.request->collective;
    }
    // What goes through the rows is no summand.
    bool moves() const {
      return collective() == HostCollective::kAllGather ||
             collective() == HostCollective::kBroadcast;
    }
    std::size_t value_bytes() const { return moves() ? 1 : bytes_of(asked.type); }
    HostOperation asked;
    std::uint64_t turn;  // among all that were submitted
    HostOperationHeader header;
    RowReduction reduction;
    OutgoingSums outgoing;
    std::size_t written = 0;  // values
    bool is_written = false;
  };
  // Values of one operation that take a slot together.
  struct Piece {
    Entry* entry = nullptr;
    std::size_t begin = 0;
    std::size_t end = 0;
    bool whole = false;      // taken, or summed, by every rank as soon as it is written
    bool in_blocks = false;  // hosts agree on its exponents
    bool is_first = false;
    bool is_last = false;
  };
  // What all ranks count; and what comes back to them.
  enum class Phase : std::uint8_t { kWritten, kScanned, kSummed, kTaken, kAgreed, kReduced };
  struct Awaited {
    Phase phase = Phase::kWritten;
    std::uint64_t pieces = 0;  // that a rank must have so far
  };

  // engine.cc
  static HostOperationHeader header_of(const HostOperation& operation);
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
  // Where each rank's share of the piece begins; one more for the end of the last.
  const std::vector<std::size_t>& divide(const Piece& piece);
  bool agrees(const Piece& piece, std::uint64_t number);
  static SharedCount& count_in(HostBoard::Slot& slot, Phase phase);
  static std::atomic<std::uint64_t>& count_in(HostBoard::RankBoard& board, Phase phase);
  bool is_through(Phase phase, std::uint64_t number) const;
  void count(Phase phase, std::uint64_t number, bool is_news = true);
  void end_first();
  // From this value on, of all ranks; this one's where they are in its tensor.
  std::span<const std::byte* const> rows_from(const Piece& piece, std::size_t slot,
                                              std::size_t begin);
  std::size_t ranks() const { return place_.segment.ranks(); }
  std::size_t slot_of(std::uint64_t number) const { return number % place_.segment.slots(); }
  HostBoard::RankBoard& own_board() const { return place_.segment.board_of(options_.rank); }

  // engine_request.cc
  static void describe_request(const HostRequest& request, HostOperationHeader* header);
  std::size_t moved_until(const Piece& piece, std::size_t rank) const;
  void write_moved(const Piece& piece, std::byte* row);
  void take_moved(const Piece& piece);
  void take_share(const Piece& piece);

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
  void note_waiting(Time now, const RankSet& ranks, const Awaited& awaited);
  void note_who_goes_on(Time now);
  void look_around(Time now);
  void watch_leader(Time now, const Awaited& awaited);
  bool others_moved();
  std::uint64_t done_by(std::size_t rank) const;
  std::optional<Awaited> awaited();
  std::optional<Phase> awaited_here(const Piece& piece, std::uint64_t number) const;
  std::optional<Awaited> awaited_of_several_hosts();
  bool is_missing(Rank rank, const Awaited& awaited) const;
  RankSet missing(const Awaited& awaited) const;
  std::optional<std::string> why_gone(Rank rank, const Awaited& awaited) const;
  std::string blame(const RankSet& ranks, const Awaited& awaited) const;
  std::string name_of(Rank rank) const;
  std::string lost_text(Rank rank) const;
  std::chrono::milliseconds patience() const;
  std::size_t in_job(std::size_t rank) const;
  void note_progress(Time now);
  void fail(const std::string& why);
  void fail_as_told();
  void take_what_the_teller_has();
  void fail_all(const std::string& why);

  // Of the ranks of a host of several.
  static constexpr Rank kLeader = 0;

  HostPlace place_;
  const HostEngineOptions options_;
  std::deque<Entry> operations_;  // oldest first; none moves while it is there
  std::deque<Piece> pieces_;      // from taken_ to written_
  std::uint64_t called_ = 0;
  std::uint64_t written_ = 0;  // pieces, by this rank
  std::uint64_t scanned_ = 0;
  std::uint64_t summed_ = 0;
  std::uint64_t taken_ = 0;
  HostUplink* uplink_ = nullptr;
  std::uint64_t exponents_sent_ = 0;  // pieces, by the leader
  std::uint64_t words_sent_ = 0;
  std::size_t completed_ = 0;
  std::optional<std::string> failure_;
  HostCounters counters_;
  std::vector<std::size_t> shares_;
  std::vector<const std::byte*> rows_;
  std::vector<std::byte> sums_;  // of whole blocks, of which a share has a part

  Time progress_at_{};
  Time look_at_{};
  Time warn_at_{};  // not before, of the same ranks
  RankSet warned_of_;
  std::optional<Waiting> waiting_;
  std::optional<std::string> warning_;
  std::uint64_t others_progress_ = 0;
};

}  // namespace atp
