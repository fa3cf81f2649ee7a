#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/interrupt.h"
#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/base/variables.h"
#include "atp/collective/recorder/flight_recorder.h"
#include "atp/core/worker/worker.h"
#include "atp/driver/keys/rank_key.h"
#include "atp/driver/udp/port_range.h"
#include "atp/wire/endpoint.h"

// What a rank says of itself, its job and its paths, before it joins.

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
  PortRange ports;  // for its UDP sockets, one per server
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
  // From connect() until the server has answered and all ranks have joined.
  std::chrono::milliseconds join_timeout = kDefaultJoinTimeout;
  // From an operation's call to its end; an operation may have its own.
  std::chrono::milliseconds operation_timeout = kDefaultTimeout;
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

  // The name of a request's element type (CollectiveRequest::type) in messages; null: its kind's.
  std::string (*type_name)(std::uint8_t) = nullptr;

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

  // Reads RANK, WORLD_SIZE, and the variables that are for C++ in the table of all
  // (atp/base/variables.h). `atp run` sets those that a job needs.
  static Result<CommunicatorOptions> from_environment();
  // For a launcher, before it starts ranks: what each of them would refuse of the environment, in
  // which the launcher replaces these variables. (It has the ranks' key, and looks at that itself.)
  using Variables = std::vector<std::pair<std::string, std::string>>;
  static Status check_environment(const Variables& replaced);

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

// What a choice of ATP_OVERFLOW, of ATP_CONGESTION means.
OverflowPolicy overflow_of(std::string_view choice);
CongestionPolicy congestion_of(std::string_view choice);

}  // namespace atp
