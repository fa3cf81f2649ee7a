#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/core/worker/worker.h"

// Turns the core's Failure into a sentence that says what went wrong, which ranks or nodes are
// concerned, and what to do, if anything. The core names ranks and endpoints only; this adds times
// and the route.

namespace atp {

// How long a rank that joins may have to wait until it hears for whom the server waits.
inline constexpr std::chrono::milliseconds kToBeTold{2000};

// The facts besides the failure itself that a message may mention.
struct FailureContext {
  Rank rank = 0;  // this worker
  std::size_t world_size = 1;
  std::vector<Endpoint> route;  // switches upward, the server last
  // If each worker stands for all ranks of its host: the rank that leads it, by worker. Then `rank`
  // is such a rank too, and failures have been renamed().
  std::vector<Rank> names = {};
  // The rank in whose process the server runs, if it runs in one.
  std::optional<Rank> server_rank = std::nullopt;
  std::size_t tag_bytes = 0;  // what the job's key adds to each packet
  Duration lease = std::chrono::seconds(5);
  Duration join_timeout = std::chrono::seconds(30);
  Duration operation_timeout = std::chrono::seconds(30);  // of the operation that failed
  std::string operation;          // the oldest that is open; empty: not known
  std::string operation_kind;     // its values, type, reduction and format; empty: not known
  std::uint16_t value_count = 0;  // K; 0: not agreed
  FailureDetail detail = {};      // the ranks' endpoints, and the cause of one that left
  std::optional<Failure> peer_refused = std::nullopt;  // of a rank that the others wait for
  std::optional<Failure> silence = std::nullopt;       // of the server, at present
};

// A path that carries packets of at most `mtu` bytes, too few for the job's fragments.
struct NarrowPath {
  Endpoint hop;
  std::size_t mtu = 0;
  std::uint16_t value_count = 0;
};
bool fragments_exceed(const NarrowPath& path, const FailureContext& context);

// The same failure with the ranks' names instead of the workers' numbers.
Failure renamed(Failure failure, const std::vector<Rank>& names);

// The cause alone: "rank 3 lost: no word from it for 5 s (its lease ended)".
std::string failure_text(const Failure& failure, const FailureContext& context);

// Warns of a silent server before the job fails: the likely culprit, and how long this rank waits.
std::string silence_text(const Failure& failure, const FailureContext& context);

// Says why a rank leaves its tree and sends straight: the node that does not answer, or refuses it.
// It is the first one beyond those that answer. `answered_before`: whether the tree ever worked.
struct Detached {
  Failure failure;
  bool answered_before = false;
};
std::string detached_text(const Detached& detached, const FailureContext& context);
// Says that it is back.
std::string returned_text(const Detached& detached, const FailureContext& context);

// Says for whom a rank waits that joins; `missing`: what the server has said.
std::string joining_text(const RankSet& missing, Duration waited, const FailureContext& context);

// Warns of ranks for which the others have waited for a while; and reports when they have resumed.
std::string waiting_text(const Failure& failure, const FailureContext& context);
std::string still_missing_text(const Failure& failure, const FailureContext& context);
std::string waiting_over_text(const Failure& failure, Duration waited);
// Warns of a rank for which the others have waited this much of the window, though never for long.
std::string slow_rank_text(const Failure& failure, Duration waited, Duration window,
                           const FailureContext& context);

// Reports that another rank was refused or waits in another incarnation (refusal_text.cc).
std::string peer_refused_text(const Failure& failure);

// Explains a refusal (refusal_text.cc): what this rank asked for, which ranks differ or which limit
// it exceeds, and what to do. "rank 3 was refused: it says the job has 8 ranks, rank 0 says 4;
// start all ranks with the same world size".
std::string refusal_text(const Failure& failure, const FailureContext& context);

// "the path from rank 2 to server 10.0.0.9:5500 carries …": the size found and the size needed.
std::string narrow_path_text(const NarrowPath& path, const FailureContext& context);

// "server 10.0.0.9:5500", "switch 10.0.0.1:5501": a hop of the route by its role.
std::string hop_text(const Endpoint& hop, const std::vector<Endpoint>& route);

}  // namespace atp
