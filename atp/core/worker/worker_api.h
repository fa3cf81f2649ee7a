#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"
#include "atp/core/timing.h"
#include "atp/core/worker/block_layout.h"
#include "atp/wire/join.h"
#include "atp/wire/packet_view.h"
#include "atp/wire/status.h"

// A worker's inputs and outputs: configuration, operations, events. Plain data.

namespace atp {

// Operations of a worker are numbered from 0 in the order of their submission, which is the same
// at every worker of a job.
using OperationId = std::uint64_t;
inline constexpr OperationId kNoOperation = ~OperationId{0};

// What to do about sums of the fixed scale that may not fit an int32 (paper §3.8 and §B.2).
enum class OverflowPolicy : std::uint8_t {
  kReactive,   // add, and send floats if the sum did not fit
  kProactive,  // send values above 1/W of the range past the switches
};

// What a worker does about congestion (paper §3.7; §5.5 compares the first two).
enum class CongestionPolicy : std::uint8_t {
  kAimd,   // additive increase, multiplicative decrease by ECN and loss
  kNone,   // a fixed window
  kPaper,  // as kAimd, but any cut halves the window; for comparison
};

// How a worker accesses the tensors of its operations. The driver passes it in with every call that
// may read or write one; the worker itself keeps no pointer. Input and output may be the same
// memory: a part of the output is written only when its input is no longer needed.
class Tensors {
 public:
  virtual ~Tensors() = default;
  // Values of the operation's type, in host byte order.
  virtual std::span<const std::byte> input(OperationId id) = 0;
  virtual std::span<std::byte> output(OperationId id) = 0;
  // The blocks of the values, and room for one agreed exponent per block, which the worker fills
  // in. Called only if the operation travels in blocks.
  virtual const BlockLayout& layout(OperationId id) = 0;
  virtual std::span<std::int16_t> exponents(OperationId id) = 0;
};

struct WorkerConfig {
  JobKey job;
  Rank rank = 0;
  std::uint16_t world_size = 1;
  std::uint64_t nonce = 0;  // random: distinguishes this socket from another that claims its rank
  std::uint16_t first_stream = 0;
  // At least 2 unless the format is the fixed scale: the last one is then the express stream, for
  // exponents and small operations.
  std::uint16_t stream_count = 1;
  std::uint16_t max_value_count = 350;                // largest K that the path carries
  NumberFormat number_format = NumberFormat::kFixed;  // the same on all ranks
  OverflowPolicy overflow = OverflowPolicy::kReactive;
  CongestionPolicy congestion = CongestionPolicy::kAimd;
  // False for comparison with the paper:
  bool room = true;           // collisions bound what is in flight
  bool plain_repeats = true;  // switches may add a first repeat; else every repeat is a RESEND
  // What others overtook is lost once reordering cannot explain it, and there are probes; else the
  // oldest is lost at the third answer in a row to another fragment, and there are none.
  bool tolerance = true;
  std::uint16_t servers = 1;            // that this host sends to at once, with a worker for each
  Route route;                          // switches upward, the server last
  std::uint32_t max_operations = 4096;  // submitted, with their ends not yet polled
  Duration join_timeout = std::chrono::seconds(30);
  // Packets have tags, so one that has none, as of another version or the refusal of a key, proves
  // nothing: what it says is only named when the job fails for another reason.
  bool has_key = false;
  // After this time the application is told which ranks its operations wait for, and later when
  // that is over; it is not told about the same ranks again within the pause.
  Duration tell_waiting = std::chrono::seconds(1);
  Duration tell_waiting_pause = std::chrono::seconds(10);
  std::uint64_t seed = 1;
  // Where the job starts: 0, except in tests of a job that has run for very long. The same at all
  // ranks; the sequence also at their server.
  std::uint64_t first_sequence = 0;  // of each stream
  OperationId first_operation = 0;
  Timing timing;

  bool operator==(const WorkerConfig&) const = default;
};

struct OperationSpec {
  std::uint64_t count = 0;  // values
  DataType type = DataType::kFloat32;
  Reduction reduction = Reduction::kSum;
  // The format of a floating-point sum that is not small; ignored in a job with the fixed scale.
  NumberFormat format = NumberFormat::kBlocks;
  // Goes on the express stream; a floating-point sum is then exact. By the protocol's rule, an
  // operation of at most small_operation_values(), counted before it is cut into shards.
  bool small = false;
  std::uint64_t blocks = 0;  // in the tensor's layout; 0: one segment
  std::uint32_t layout = 0;  // the layout's fingerprint
  std::uint32_t tag = 0;     // the caller's name of the call site, part of the fingerprint
  Duration timeout = std::chrono::seconds(30);  // without progress
  Instant ends_by = kNever;                     // then it fails even if it makes progress
  bool operator==(const OperationSpec&) const = default;
};

enum class FailureCode : std::uint8_t {
  kNoProgress,  // ranks: those missing, as far as the server has reported
  kOverdue,     // an operation has not ended by its `ends_by`; ranks: as above; time_out: its own
  kOperationMismatch,  // ranks: those with this worker's operation; other: the others. If this
                       // worker is in neither, it had not reached that operation yet
  kRankLost,           // ranks: those whose leases ended
  kRankLeft,           // ranks: those that left with the operation pending
  kServerRestarted,    // endpoint: the server
  kServerLost,         // endpoint: the server, silent for a lease; unreachable: ICMP reported it;
                       // heard: how many nodes of the route still answer
  kRankTaken,          // ranks: this one; endpoint: who holds it
  kRefused,            // reason, expected, found; other: the ranks with the expected value;
                       // endpoint: the node that refused
  kJoinTimeout,        // ranks: those that have not joined (empty: no answer at all)
  kLeft,               // the worker itself has left
  kLeftBefore,         // it cannot join: an earlier life of its rank has left the job
};

// Why an operation, or the whole membership, failed. Plain data; collective/ turns it into text.
struct Failure {
  FailureCode code = FailureCode::kNoProgress;
  Duration time_out{};  // kOverdue
  RefusalReason reason = RefusalReason::kNone;
  std::uint32_t expected = 0;
  std::uint32_t found = 0;
  RankSet ranks;
  RankSet other;
  Endpoint endpoint;
  Endpoint
      arrived_at;      // kRefused (kRoute): where the JOIN came to a node that it was not meant for
  Endpoint meant_for;  // and the node that it was meant for
  bool unreachable = false;
  bool moves = false;  // kJoinTimeout: to a node that answers, each JOIN is from another address
  std::uint8_t heard = 0;  // nodes of the route, from the first, that answer through the tree
  bool operator==(const Failure&) const = default;
};

// Details of the failure that ended the job, or of the last news: the endpoints of its ranks, and
// the cause that a rank gave when it left.
struct FailureDetail {
  std::array<Endpoint, StatusMessage::kMaxEndpoints> homes{};  // of its first ranks, in rank order
  std::size_t home_count = 0;
  CauseText cause;
  bool operator==(const FailureDetail&) const = default;
};

enum class EventKind : std::uint8_t {
  kJoined,       // all ranks have joined: operations may be submitted
  kCompleted,    // operation
  kFailed,       // failure, and the operation (kNoOperation: none was pending); after any failure
                 // the job is over for this worker
  kDetached,     // traffic goes straight to the server; failure: kServerLost, with `heard`, and
                 // `endpoint` is the first node that does not answer through the tree, or the
                 // parent if all do; or kRefused or kRankTaken, and `endpoint` is the node that
                 // says so
  kAttached,     // back through the tree
  kSilent,       // the server is silent on both paths; failure: the one that will follow
  kHeard,        // endpoint: the server, which was silent
  kWaiting,      // failure: kNoProgress, with the ranks that have been awaited for a while
  kWaitingOver,  // failure: kNoProgress, with all ranks named since; waited: for how long
  kPeerRefused,  // failure: kRefused, of another rank that this one waits for
  kNoRoom,       // failure: kRefused, of this rank, which asks again for a while and then fails
  kLeft,         // LEAVE acknowledged
};

struct Event {
  EventKind kind = EventKind::kJoined;
  OperationId operation = 0;
  Failure failure;
  Endpoint endpoint;
  bool answered_before = false;  // kDetached: whether the tree has ever answered
  Duration waited{};             // kWaitingOver
  bool operator==(const Event&) const = default;
};

}  // namespace atp
