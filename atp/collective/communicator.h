#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/collective/host/host_request.h"
#include "atp/collective/result_digest.h"
#include "atp/collective/way_choice.h"
#include "atp/core/worker/worker.h"
#include "atp/driver/udp/port_range.h"
#include "atp/wire/endpoint.h"

// A Communicator is one rank's membership in one job: a UDP socket, a thread that drives the
// worker of the core over it, and a queue of operations. All ranks must issue the same operations
// in the same order; several may be in flight. Its methods may be called from any thread.
//
// The tensor of an operation in flight is read and written by the communicator's own thread only,
// and belongs to it until the operation has ended. Operations end exactly once, with a sum or with
// an error. After the first error the sequence of operations is broken for good, so that all
// pending and all later ones fail with the same cause; a new Communicator is the way on.
//
// After fork() the child has neither the thread nor the membership: there every method returns an
// error, and the destructor does nothing. The thread blocks all signals.

namespace atp {

struct CommunicatorOptions {
  JobKey job;
  Rank rank = 0;
  std::size_t world_size = 1;
  // Switches upward, the server last (at least the server). With host_memory it may be empty.
  std::vector<Endpoint> route;
  // To further servers of the job, its shards: tensors are spread over all of them. The same on
  // every rank but for the switches on the way.
  std::vector<std::vector<Endpoint>> more_routes;
  // Where this process itself serves a part of the job, a shard whose address is among the ways of
  // all ranks: a thread with a socket of its own, from connect() to the communicator's end.
  // shutdown() waits for the other ranks to leave it. Absent: it serves none.
  std::optional<Endpoint> own_server;
  PortRange ports;  // that its UDP sockets may take, one for each lane of each shard
  std::size_t values_per_fragment = 0;  // K; 0: as much as the path's MTU carries
  // What sums of floats travel as, where an operation does not say otherwise (docs/protocol.md §5,
  // *Numbers*); the same on every rank. A fixed scale is for the whole job.
  NumberFormat number_format = NumberFormat::kBlocks;
  OverflowPolicy overflow = OverflowPolicy::kReactive;
  CongestionPolicy congestion = CongestionPolicy::kAimd;
  std::chrono::milliseconds join_timeout = std::chrono::seconds(30);
  // Without progress; the default of operations that do not say otherwise.
  std::chrono::milliseconds operation_timeout = std::chrono::seconds(30);
  bool digest = false;  // of all results, for Communicator::digest()
  // Compares the digests of all ranks after every so many operations, whose last one does not end
  // before; a rank that differs fails the job, by name. Later operations wait for the results of
  // these, so it costs a pause each time. The same on every rank. 0: never.
  std::uint64_t digest_every = 0;
  // Told what a user should know although the job goes on: a switch that was lost or has come
  // back. Called on any of the communicator's threads, or in connect(). Empty: one line on stderr,
  // prefixed "atp: ".
  std::function<void(const std::string&)> on_warning;

  // All ranks are on this host, and sum in memory that they share, without a switch or a server:
  // the same bits. The same on every rank. Where they cannot have such memory, or with a fixed
  // scale, sums go the routes; without a route that is an error.
  bool host_memory = false;

  // The host of each rank, numbered from 0, the same on every rank: where there are several, and
  // several ranks on one of them, the ranks of a host sum in its memory first, and one of them, the
  // lowest, sends that for all: the same bits. Not with the fixed scale, nor where all sums are
  // exact. Empty: every rank sends for itself.
  std::vector<std::size_t> host_of;
  // What messages call the ranks, where each stands for all of its host. Empty: by their numbers.
  std::vector<Rank> names;

  // Tells on_warning, or stderr.
  void warn(const std::string& text) const;

  // From ATP_JOB, ATP_INCARNATION, ATP_ROUTE (as set_routes() reads it), ATP_HOST_MEMORY (0 or 1;
  // absent: 1 where LOCAL_WORLD_SIZE is WORLD_SIZE), ATP_HIERARCHY (0 or 1; with it ATP_HOST_RANKS,
  // "4,1,3", how many ranks each host has, in their order), RANK, WORLD_SIZE, ATP_OWN_SERVER,
  // ATP_PORT_RANGE, ATP_VALUES_PER_FRAGMENT, ATP_SCALE ("blocks" or "fixed"), ATP_WIRE ("int32" or
  // "int16"), ATP_EXACT (0 or 1), ATP_OVERFLOW ("reactive" or "proactive"), ATP_CONGESTION ("aimd"
  // or "none"), ATP_JOIN_TIMEOUT, ATP_TIMEOUT (seconds), ATP_DIGEST (0 or 1), ATP_DIGEST_EVERY, as
  // `atp run` sets them.
  static Result<CommunicatorOptions> from_environment();

  // Sets route and more_routes from what people write: "host:port,host:port", switches upward, the
  // server last; ";" before the way to the next shard, ranges of ports for several at once
  // (resolve_routes()). Names are resolved.
  Status set_routes(std::string_view text);
  // Sets ports from ATP_PORT_RANGE, "FIRST-LAST", where that is set.
  Status read_ports();
  // Sets own_server from ATP_OWN_SERVER, "host:port", where that is set.
  Status read_own_server();
};

// What one worker has counted (name, value), and the server in its process.
using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;

class PendingOperation;
class Way;

// Ranks without which an operation does not go on, though others have contributed to it.
struct WaitedForRanks {
  std::vector<Rank> ranks;
  Duration waited{};
  std::string operation;  // "all_reduce #17 (1,000 values)"; empty: none of this program's
};

// A tensor, in place: `count` values of the type, in host byte order, aligned as such.
struct Values {
  std::byte* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
};

// An operation on its way. Copies refer to the same operation.
class Handle {
 public:
  // Blocks until the operation has ended; its error names the rank, switch or path.
  Status wait();
  bool done() const;

 private:
  friend class Communicator;
  // One for each shard that has a part, and what else must end before the operation has.
  std::vector<std::shared_ptr<PendingOperation>> parts_;
};

struct AllReduceOptions {
  Reduction reduction = Reduction::kSum;
  // Of a sum of floats; absent: the communicator's.
  std::optional<NumberFormat> format;
  // The lengths of the tensors, or parameters, of which the values are made up, so that no block
  // holds values of two, of which the smaller one's would be lost. Empty: there is one.
  std::vector<std::size_t> segments;
  std::uint32_t tag = 0;  // the call site's name: ranks that are at different ones are told so
  std::chrono::milliseconds timeout{0};  // without progress; 0: the communicator's
  // The caller will wait for it at once and has nothing else to do: where that saves time, it is
  // carried out in all_reduce() itself, and with it what was started before.
  bool here = false;
  // Of no program: it has no number, is in no digest and does not wait for its turn, and it takes
  // the network. For measurements before the first operation, at all ranks alike.
  bool is_probe = false;
  // Called once when the operation has ended, before wait() returns, on one of the communicator's
  // threads (each way to a server has one), or in an all_reduce(), where this one is refused at
  // once or a later one is carried out `here`. Must not block, nor hold a lock that others hold
  // around calls. It may call everything but shutdown().
  std::function<void(const Status&)> on_done;
};

class Communicator {
 public:
  // Joins the job; blocks until every rank has joined or the join time-out has passed.
  static Result<std::unique_ptr<Communicator>> connect(const CommunicatorOptions& options);
  ~Communicator();  // leaves; operations still pending fail here and at the other ranks

  Rank rank() const;
  std::size_t world_size() const;
  std::size_t values_per_fragment() const;  // the agreed K; 0 in the host's memory

  // Combines the values (any number, 0 too) over all ranks, in place. They must live until the end.
  // With one rank that is a copy, so nothing is sent.
  Handle all_reduce(const Values& values, const AllReduceOptions& options = {});
  Handle all_reduce(std::span<float> data, const AllReduceOptions& options = {});

  // Whether all ranks share this host's memory. They can do more there than sum for all:
  bool in_host_memory() const;
  // Leaves each rank with its share of the sum, which has the bits that the all-reduce has there.
  // `values` are only read, unless the share is to take its place in them. They and what the
  // request names must live until the end, as with all_reduce().
  Handle reduce_scatter(const Values& values, HostRequest request,
                        const AllReduceOptions& options = {});
  // Gives every rank the blocks of all, of which `block` is this one's; and all what the root has.
  // Of the options they know the time-out, `here` and on_done.
  Handle all_gather(std::span<const std::byte> block, HostRequest request,
                    const AllReduceOptions& options = {});
  Handle broadcast(std::span<std::byte> bytes, HostRequest request,
                   const AllReduceOptions& options = {});

  // Before the first operation, at all ranks alike: gives it a second way, for sums of float32,
  // which takes them to the same bits. Which of the two an operation takes follows from the figures
  // and from what the ranks measure then (way_choice.h), on which they agree after every
  // `judged_every` operations (0: never); no result depends on it. Either way's failure is that of
  // both. Not for a communicator in the host's memory, of one rank, or with a fixed scale.
  Status add_ring(std::shared_ptr<Way> ring, const FiguresOfWays& figures,
                  std::uint64_t judged_every);
  // What has been chosen so far; nothing without a second way.
  std::optional<WayCounts> way_counts() const;

  // Waits for the operations in flight, leaves the job in peace, and waits for the others to leave
  // the server in this process, if there is one. Idempotent.
  Status shutdown(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // Fails everything in flight and leaves at once. Idempotent. In a callback it does not wait for
  // that: operations in flight end after the callback.
  void abort(const std::string& why);

  // As abort(), but from any thread and without waiting: abort() or the destructor is still due.
  // For those who have several, which then end together.
  void give_up(const std::string& why);

  CounterList counters() const;
  // Whom this rank's oldest operation waits for, if it has waited for a second; of several ways
  // what has waited for longest.
  std::optional<WaitedForRanks> waited_for() const;
  // Why nothing more can be summed.
  std::optional<std::string> failure() const;

  // Of the results at this rank, from the first operation to the last before which all have ended;
  // equal at all ranks. Nothing if the options did not ask for it.
  std::optional<DigestReading> digest() const;
  // The same, and begins anew: the next operation is the first of another digest. So may a run that
  // was resumed be compared with the last part of one that was not.
  std::optional<DigestReading> restart_digest();

 private:
  class Impl;
  Handle in_memory(const Values& values, HostRequest request, const AllReduceOptions& options);
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace atp
