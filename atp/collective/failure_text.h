#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/core/worker/worker.h"

// Turns the core's plain Failure into a sentence that says what went wrong, who is concerned and
// where, and what to do if there is something to do. The core names ranks and endpoints only; the
// times and the route come from here.

namespace atp {

// What a sentence may have to mention besides the failure itself.
struct FailureContext {
  Rank rank = 0;  // this worker
  std::size_t world_size = 1;
  std::vector<Endpoint> route;  // switches upward, the server last
  // Where the job's workers stand for all ranks of their hosts: the rank that each of them is. Of
  // such a worker `rank` is that, and failures have been renamed().
  std::vector<Rank> names = {};
  // In whose process the server runs, if it's known to be a rank's.
  std::optional<Rank> server_rank = std::nullopt;
  Duration lease = std::chrono::seconds(5);
  Duration join_timeout = std::chrono::seconds(30);
  Duration operation_timeout = std::chrono::seconds(30);  // of the operation that failed
  std::string operation;          // the oldest that is open; empty: not known
  std::string operation_kind;     // its values, type, reduction and format; empty: not known
  std::uint16_t value_count = 0;  // K; 0: not agreed
  FailureDetail detail = {};      // where the ranks are, and what one that left had to say
  std::optional<Failure> peer_refused = std::nullopt;  // of a rank that the joining waits for
};

// A way that carries packets of at most `mtu` bytes, while fragments have K values.
struct NarrowPath {
  Endpoint hop;
  std::size_t mtu = 0;
  std::uint16_t value_count = 0;
};
bool fragments_exceed(const NarrowPath& path, const FailureContext& context);

// The same failure, with workers under the names that their ranks have.
Failure renamed(Failure failure, const std::vector<Rank>& names);

// The cause alone: "rank 3 lost: no word from it for 5 s (its lease ended)".
std::string failure_text(const Failure& failure, const FailureContext& context);

// Of a server from which nothing comes, before it is given up: who is to blame, as far as this rank
// can tell, and how long it waits.
std::string silence_text(const Failure& failure, const FailureContext& context);

// Of ranks that the others have waited for a while, though nothing has failed; and once they go on.
std::string waiting_text(const Failure& failure, const FailureContext& context);
std::string waiting_over_text(const Failure& failure, Duration waited);
// Of a rank for which the others have waited so much of a time, though never for long.
std::string slow_rank_text(const Failure& failure, Duration waited, Duration window,
                           const FailureContext& context);

// Of another rank that was refused, or that waits elsewhere (refusal_text.cc).
std::string peer_refused_text(const Failure& failure);

// Of a refusal (refusal_text.cc): what this rank said, who says otherwise or which limit it meets,
// and what to do. "rank 3 was refused: it says the job has 8 ranks, rank 0 says 4; start all ranks
// with the same world size".
std::string refusal_text(const Failure& failure, const FailureContext& context);

// "the path from rank 2 to server 10.0.0.9:5500 carries …": what was found, what it would take.
std::string narrow_path_text(const NarrowPath& path, const FailureContext& context);

// The operation that a failure hit: "all_reduce #17 (1,000 values)".
std::string operation_text(const char* what, std::uint64_t number, std::uint64_t value_count);

// "server 10.0.0.9:5500", "switch 10.0.0.1:5501": a hop of the route by its role.
std::string hop_text(const Endpoint& hop, const std::vector<Endpoint>& route);

}  // namespace atp
