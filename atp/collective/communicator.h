#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/failure_kind.h"
#include "atp/base/interrupt.h"
#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/collective/host/host_request.h"
#include "atp/collective/host/uplink.h"
#include "atp/collective/recorder/flight_recorder.h"
#include "atp/collective/result_digest.h"
#include "atp/collective/waits/late_ranks.h"
#include "atp/collective/way_choice.h"
#include "atp/core/worker/worker.h"
#include "atp/driver/keys/rank_key.h"
#include "atp/driver/udp/port_range.h"
#include "atp/wire/endpoint.h"

// A Communicator is one rank's membership in one job: a UDP socket, a thread that drives the worker
// of the core over it, and a queue of operations. All ranks must issue the same operations in the
// same order; several may be in flight. Its methods may be called from any thread.
//
// The tensor of an operation in flight belongs to the communicator's own thread until the operation
// has ended. An operation ends exactly once, with a sum or with an error. The first error breaks
// the sequence of operations for good: all pending and later ones fail with the same cause, and the
// program needs a new Communicator.
//
// After fork() the child has neither the thread nor the membership: every method returns an error
// there, and the destructor does nothing. The thread blocks all signals.

namespace atp {

struct CommunicatorOptions {
  JobKey job;
  Rank rank = 0;
  std::size_t world_size = 1;
  // Switches upward, then the server, which is required unless host_memory is set.
  std::vector<Endpoint> route;
  // Routes to further servers of the job, its shards: tensors are spread over all of them. The same
  // on every rank except for the switches.
  std::vector<std::vector<Endpoint>> more_routes;
  // The address at which this process itself serves a shard of the job, as in the routes of all
  // ranks: a thread with a socket of its own runs the server from connect() to the communicator's
  // end, and shutdown() waits for the other ranks to leave it. Absent: no such server.
  std::optional<Endpoint> colocated_server;
  PortRange ports;  // for its UDP sockets, one per lane
  // The key of its packets, for switches and servers that serve only jobs with keys; absent:
  // packets have no tags. With colocated_server it must be the tenant's.
  std::optional<RankKey> key;
  std::size_t values_per_fragment = 0;  // K; 0: as many as the path's MTU carries
  // How floating-point sums travel unless an operation asks for another format
  // (docs/inside/protocol §5, *Numbers*); the same on every rank. The fixed scale applies to the
  // whole job.
  NumberFormat number_format = NumberFormat::kBlocks;
  OverflowPolicy overflow = OverflowPolicy::kReactive;
  CongestionPolicy congestion = CongestionPolicy::kAimd;
  std::chrono::milliseconds join_timeout = std::chrono::seconds(30);
  // Time without progress after which an operation fails; an operation may have its own.
  std::chrono::milliseconds operation_timeout = std::chrono::seconds(30);
  bool digest = false;  // keep a digest of all results, for Communicator::digest()
  // Compares the digests of all ranks after this many operations, before the last of them ends. If
  // a rank differs, the job fails and names it. Later operations wait for the comparison, so each
  // one costs a pause. The same on every rank. 0: never.
  std::uint64_t digest_every = 0;
  // Receives warnings for the user while the job continues, such as a switch that was lost or has
  // returned. Called on any of the communicator's threads, or in connect(). Empty: warnings go to
  // stderr, one per line, prefixed "atp: ".
  std::function<void(const std::string&)> on_warning;

  // All ranks are on this host and sum in shared memory, without a switch or a server, with the
  // same bits. The same on every rank. If they cannot have such memory, or with the fixed scale,
  // they use their routes; without a route that is an error.
  bool host_memory = false;

  // The host of each rank, numbered from 0, the same on every rank. If there are several hosts, and
  // several ranks on one, the ranks of a host first sum in its memory, and its lowest rank sends
  // the sum for all, with the same bits. Not with the fixed scale, nor if all sums are exact.
  // Empty: every rank sends for itself.
  std::vector<std::size_t> host_of;
  // The ranks' numbers in messages, if each rank represents all ranks of its host. Empty: their
  // own.
  std::vector<Rank> names;

  // Where the flight recorder keeps what happens to this communicator, if its owner records the
  // operations. Null: connect() opens a group in the recorder and has the operations recorded.
  std::shared_ptr<RecordedGroup> recorded;
  bool records_operations = false;

  // Ends connect() with this error. Null: nothing does.
  MaybeInterruption interruption;
  // When join_timeout is over, for all stages of connect(), which sets it.
  std::optional<std::chrono::steady_clock::time_point> join_until;

  // Calls on_warning, or writes to stderr.
  void warn(const std::string& text) const;
  // What the key adds to each packet.
  std::size_t tag_bytes() const { return key ? ATP_TAG_BYTES : 0; }

  // Reads ATP_JOB, ATP_INCARNATION, ATP_ROUTE (as set_routes() does), ATP_HOST_MEMORY (0 or 1;
  // absent: 1 if LOCAL_WORLD_SIZE equals WORLD_SIZE), ATP_HIERARCHY (0 or 1; with it
  // ATP_HOST_RANKS, "4,1,3": how many ranks each host has, in order), RANK, WORLD_SIZE,
  // ATP_COLOCATED_SERVER, ATP_KEY_FILE, ATP_PORT_RANGE, ATP_VALUES_PER_FRAGMENT, ATP_SCALE
  // ("blocks" or "fixed"), ATP_WIRE ("int32" or "int16"), ATP_EXACT (0 or 1), ATP_OVERFLOW
  // ("reactive" or "proactive"), ATP_CONGESTION ("aimd", "none" or "paper"), ATP_JOIN_TIMEOUT,
  // ATP_TIMEOUT (seconds), ATP_DIGEST (0 or 1), ATP_DIGEST_EVERY. `atp run` sets those that a job
  // needs.
  static Result<CommunicatorOptions> from_environment();

  // Sets route and more_routes from text: "host:port,host:port", switches upward, then the server;
  // ";" before the route to the next shard; port ranges for several routes at once
  // (resolve_routes()). Resolves names.
  Status set_routes(std::string_view text);
  // Sets ports from ATP_PORT_RANGE, "FIRST-LAST", if it is set.
  Status read_ports();
  // Sets key to the tenant's, from the file that ATP_KEY_FILE names, if it is set.
  Status read_key();
  // Sets colocated_server from ATP_COLOCATED_SERVER, "host:port", if it is set.
  Status read_colocated_server();
};

// The counters (name, value) of one worker, and of its colocated server.
using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;

class PendingOperation;
class Way;

// A tensor, reduced in place: `count` values of the type, in host byte order, aligned for it.
struct Values {
  std::byte* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
};

// A submitted operation. Copies refer to the same operation.
class Handle {
 public:
  // Blocks until the operation has ended; its error names the rank, switch or path.
  Status wait();
  // The same, but an interruption is an error too. The operation goes on, and may use its memory.
  Status wait_or_interrupted(const MaybeInterruption& interruption);
  bool done() const;

 private:
  friend class Communicator;
  // One per shard that has a part, and whatever else must end before the operation ends.
  std::vector<std::shared_ptr<PendingOperation>> parts_;
};

struct AllReduceOptions {
  Reduction reduction = Reduction::kSum;
  // For a floating-point sum; absent: the communicator's.
  std::optional<NumberFormat> format;
  // The lengths of the tensors, or parameters, that the values consist of, so that no block mixes
  // two of them, where the smaller one's values would be lost. Empty: there is one.
  std::vector<std::size_t> segments;
  std::uint32_t tag = 0;  // identifies the call site: ranks at different ones get an error
  // The user's operation that this one is a part of, for messages.
  std::optional<UserOperation> part_of;
  std::chrono::milliseconds timeout{0};  // without progress; 0: the communicator's
  // The time-out counts from this call, and ends an operation even if it makes progress.
  bool timeout_is_total = false;
  // How much of a total time-out the caller has used to prepare the values.
  std::chrono::milliseconds spent{0};
  // The caller will wait for it at once: if that saves time, all_reduce() itself carries it out,
  // with everything started before.
  bool here = false;
  // An internal measurement that all ranks make before the first operation: it has no number, is in
  // no digest, does not wait for its turn, and takes the network.
  bool is_probe = false;
  // Called once when the operation has ended, before wait() returns: on one of the communicator's
  // threads (there is one per lane), or in all_reduce(), if this operation is refused at once or a
  // later one is carried out `here`. Must not block, nor take a lock that others hold around calls.
  // It may call everything except shutdown().
  std::function<void(const Status&)> on_done;
};

class Communicator {
 public:
  // Joins the job; blocks until every rank has joined or the join time-out has passed.
  static Result<std::unique_ptr<Communicator>> connect(const CommunicatorOptions& options);
  ~Communicator();  // leaves; operations still pending fail here and on the other ranks

  Rank rank() const;
  std::size_t world_size() const;
  std::size_t values_per_fragment() const;  // the agreed K; 0 in the host's memory

  // Combines the values (any number, even 0) over all ranks, in place. They must live until the
  // operation has ended. With one rank nothing is sent.
  Handle all_reduce(const Values& values, const AllReduceOptions& options = {});
  Handle all_reduce(std::span<float> data, const AllReduceOptions& options = {});

  // Whether all ranks share this host's memory. If so, these collectives are available as well:
  bool in_host_memory() const;
  // Gives each rank its share of the sum. Floats are added in the order of ranks as float32
  // (host/row_reduction.h), unless the format is kExact. `values` are only read, unless the share
  // is written to its place in them. They and the memory that the request names must live until the
  // operation has ended.
  Handle reduce_scatter(const Values& values, HostRequest request,
                        const AllReduceOptions& options = {});
  // all_gather() gives every rank the blocks of all; `block` is this rank's. broadcast() gives all
  // ranks the root's values. Of the options both use only the time-out, `here` and on_done.
  Handle all_gather(std::span<const std::byte> block, HostRequest request,
                    const AllReduceOptions& options = {});
  Handle broadcast(std::span<std::byte> bytes, HostRequest request,
                   const AllReduceOptions& options = {});
  // Gives the root the sum, added in the same way; at other ranks the values stay as they are.
  Handle reduce(const Values& values, Rank root, const AllReduceOptions& options = {});
  // A gather, a scatter or an all-to-all, as the request says.
  Handle exchange(HostRequest request, const AllReduceOptions& options = {});

  // Adds a ring as a second path for sums of float32, with the same bits. All ranks must call it,
  // before the first operation. The figures, and later the ranks' measurements (way_choice.h),
  // decide which path an operation takes; the ranks agree on the measurements after every
  // `judged_every` operations (0: never), and more often at first. No result depends on it. If one
  // path fails, both fail. Not for a communicator in the host's memory, with one rank, or with the
  // fixed scale.
  Status add_ring(std::shared_ptr<Way> ring, const FiguresOfWays& figures,
                  std::uint64_t judged_every);
  // The choices so far; nothing without a ring.
  std::optional<WayCounts> way_counts() const;

  // Waits for the operations in flight, leaves the job in good order, and waits for the others to
  // leave the server in this process, if there is one. Idempotent.
  Status shutdown(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // Fails everything in flight and leaves at once. Idempotent. In a callback it does not wait:
  // operations in flight end after the callback.
  void abort(const std::string& why);

  // Starts an abort() without waiting, from any thread; abort() or the destructor must still
  // follow. With several communicators, calling it on all first lets them end together.
  void give_up(const std::string& why);

  CounterList counters() const;
  // The ranks that this rank's oldest operation waits for, if it has waited for a second, or none
  // if it waits for a silent server; with several lanes, those of the longest wait.
  std::optional<WaitedForRanks> waited_for() const;
  // How long sums in the network have waited so far for a single other rank, by rank. These are the
  // waits that the server has reported; it reports none before a fragment has timed out.
  std::map<Rank, Duration> waits() const;
  // Why the job has failed, if it has.
  std::optional<std::string> failure() const;
  FailureKind failure_kind() const;  // also kNone after an abort() or a fork

  // The digest of this rank's results, from the first operation up to the first that has not ended;
  // equal on all ranks. Nothing if the options did not ask for it.
  std::optional<DigestReading> digest() const;
  // The same, and starts a new digest with the next operation, so that a resumed run can be
  // compared with the last part of an uninterrupted one.
  std::optional<DigestReading> restart_digest();

 private:
  class Impl;
  Handle in_memory(const Values& values, HostRequest request, const AllReduceOptions& options);
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace atp
