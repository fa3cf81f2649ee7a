#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "atp/core/lateness.h"
#include "atp/core/server/contribution.h"
#include "atp/core/server/downlink.h"
#include "atp/core/server/float_pool.h"
#include "atp/core/server/fragment_ring.h"

// The sums of one job: its streams' fragments and the float path (docs/inside/protocol §6). It is
// made when all ranks have joined and holds all of the job's large memory.
//
// A fragment becomes complete exactly once, when its bitmap holds every rank of the job. Its values
// and next index are then final, and repeats of its PARAMETER differ in ECN at most. A fragment of
// the fixed scale that overflowed int32 (the flag OVERFLOW, or a magnitude beyond 2^31 − 1) starts
// again with an empty bitmap and exact float sums; the other fragments with float sums have them
// from the start. The server sends FLUSH and NACK for stalled fragments, but only for the oldest
// few of each stream at a time, so the work of a time-out is bounded.

namespace atp {

// The ranks awaited by the oldest fragments to which others have contributed.
struct WaitedFor {
  RankSet ranks;
  Instant since{};
  std::uint16_t stream = 0;
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;  // the fingerprint
  bool operator==(const WaitedFor&) const = default;
};

// Ranks that have submitted different operations, which can never be complete.
struct Disagreement {
  FragmentName name;  // of the first fragment that showed it
  RankSet about;      // the ranks with the operation that it names
  RankSet other;      // the ranks with another one
  StatusMessage message(std::uint16_t reason = 0) const {
    return {
        .code = StatusCode::kOperationMismatch, .reason = reason, .about = about, .other = other};
  }
  bool operator==(const Disagreement&) const = default;
};

// How far a job has got, for displays.
struct AggregationProgress {
  std::uint64_t fragments = 0;  // complete
  std::uint64_t as_floats = 0;  // of these: sent directly to the server, which adds them exactly
  // The other fragments, if there are switches, that arrived in no more packets than the server has
  // neighbours, so the switches have added all they could.
  std::uint64_t in_least_packets = 0;
  bool operator==(const AggregationProgress&) const = default;
};

class Aggregation {
 public:
  Aggregation(const JobTerms& terms, const ServerConfig& config);
  static std::size_t bytes_needed(const JobTerms& terms, const ServerConfig& config);

  // Handles a GRADIENT of this job that has the agreed sizes and an allowed source. Returns whether
  // its fragment is incomplete and lacks a rank that is gone.
  bool handle_gradient(Downlink& down, const Arrival& in, Source source);
  void handle_timeout(Downlink& down);
  Instant next_timeout() const { return next_timeout_; }

  // A rank says what it calls the operation that the header names. If that operation waits, all
  // switches are told, with the next *waiting for*, which is due at once.
  void describe(ServerTurn& turn, const atp_header& header, const CauseText& text);
  // Empty: unknown.
  CauseText description_of(std::uint32_t operation) const;

  // The first mismatch, for as long as its fragment is incomplete; null: none. Later fragments may
  // disagree because of it, and ranks leave or are lost because of it.
  const Disagreement* mismatch() const;

  // Whether a fragment is incomplete and lacks one of these ranks.
  bool lacks(const RankSet& ranks) const;

  const AggregationProgress& progress() const { return progress_; }
  const Lateness& lateness() const { return lateness_; }
  // The ranks awaited by fragments that have waited for at least this long. A rank that itself
  // waits for others may be behind in one stream; one that holds up the job is behind in all of
  // them.
  std::optional<WaitedFor> waited_for(Instant now, Duration at_least) const;

  bool operator==(const Aggregation&) const = default;

 private:
  // The oldest fragments of two streams wait for each other's ranks.
  struct Crossing {
    std::uint64_t sequence = 0;
    RankSet ranks;             // those that have contributed to this stream's
    RankSet others;            // those that have contributed to the other stream's
    Instant since = kLongAgo;  // unchanged since then
    bool operator==(const Crossing&) const = default;
  };

  // The last operation that waited and was described.
  struct Described {
    std::uint32_t operation = 0;
    CauseText text;
    bool operator==(const Described&) const = default;
  };

  struct Stream {
    FragmentRing ring;
    Instant check_at = kNever;             // when to check for stalled fragments
    Instant waiting_announced = kLongAgo;  // last *waiting for* to all, about the oldest fragment
    std::optional<Crossing> crossing;      // as announced then
    Described described;
    bool operator==(const Stream&) const = default;
  };

  std::uint16_t wire_stream(std::size_t stream) const {
    return static_cast<std::uint16_t>(terms_.first_stream + stream);
  }
  FragmentName name_of(std::size_t stream, const Fragment& fragment) const;
  RankSet missing(const Fragment& fragment) const { return all_ - fragment.bitmap; }
  bool needs(const Fragment& fragment, const RankSet& ranks) const;
  void watch(Stream& stream, Instant now, const Timing& timing);

  void apply(Downlink& down, const Arrival& in, std::size_t stream, Fragment& fragment,
             Source source);

  void take_integers(Downlink& down, std::size_t stream, Fragment& fragment,
                     const PacketView& packet, Contribution how);
  void take_floats(Downlink& down, std::size_t stream, Fragment& fragment,
                   const PacketView& packet);
  void finish(Downlink& down, std::size_t stream, Fragment& fragment);
  void start_floats(Downlink& down, std::size_t stream, Fragment& fragment,
                    const PacketView& packet);
  void take_waiting_floats(Downlink& down, std::size_t stream, Fragment& fragment,
                           const PacketView& packet);
  std::optional<std::uint32_t> take_from_a_later_one(Downlink& down, std::size_t stream,
                                                     const Fragment& fragment);
  std::optional<std::uint32_t> take_from_another_stream(Downlink& down, std::size_t stream,
                                                        const Fragment& fragment);
  void give_up_slot(Downlink& down, std::size_t stream, Fragment& fragment);
  void enter_float_mode(Downlink& down, std::size_t stream, Fragment& fragment);
  void await_slot(Downlink& down, std::size_t stream, Fragment& fragment);
  void ask_for_floats(Downlink& down, std::size_t stream, Fragment& fragment, std::uint32_t slot);
  void finish_float(Downlink& down, std::size_t stream, Fragment& fragment);
  void pass_on_slot(Downlink& down, std::uint32_t slot);
  void forget(Downlink& down, std::size_t stream, const Fragment& fragment);

  void answer_duplicate(Downlink& down, const Arrival& in, std::size_t stream,
                        const Fragment& fragment, Source source);
  void repeat_parameter(Downlink& down, std::size_t stream, Fragment& fragment,
                        const RankSet& ranks, Source source);
  void ask_again(Downlink& down, std::size_t stream, Fragment& fragment, std::uint8_t flags,
                 const RankSet& ranks, const RankSet& straight_too);
  void note_mismatch(std::size_t stream, const Fragment& fragment, const RankSet& others);

  void check_stream(Downlink& down, std::size_t stream);
  // Sends the FLUSH or NACK that is due for a stalled fragment. Returns when the next is due.
  Instant pull_along(Downlink& down, std::size_t stream, Fragment& fragment);
  // Announces whom the oldest fragment of a stream waits for, if due. Returns when it is due next.
  Instant announce_waiting_for(Downlink& down, std::size_t stream, Fragment& fragment);
  void note_operation(Downlink& down, std::size_t stream, const PacketView& packet);
  RankSet named_of(Instant now, const Fragment& fragment) const;
  // If this operation and one of another stream each wait only for ranks that have contributed to
  // the other: the ranks that have contributed to that one.
  RankSet crossed_with(const Downlink& down, std::size_t stream, const Fragment& fragment) const;
  bool is_crossed_for_good(Downlink& down, std::size_t stream, const Fragment& fragment);

  JobTerms terms_;
  AggregationProgress progress_;
  RankSet all_;
  std::vector<Stream> streams_;
  FloatPool floats_;
  Lateness lateness_;
  Instant next_timeout_ = kNever;
  std::optional<Disagreement> mismatch_;
  Instant mismatch_announced_ = kLongAgo;
};

}  // namespace atp
