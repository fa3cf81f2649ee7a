// The text of each reason for which a server or a switch refuses a rank.
#include "atp/base/text.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/network/failure_text.h"
#include "atp/wire/join.h"
#include "atp/wire/status.h"

namespace atp {
namespace {

std::string counted(std::uint32_t number, const char* one) {
  return with_commas(number) + " " + one + (number == 1 ? "" : "s");
}

std::string range(std::uint32_t first, std::uint32_t last, const char* one) {
  const std::string from = std::string(one) + (first == last ? " " : "s ") + std::to_string(first);
  return first == last ? from : from + " to " + std::to_string(last);
}

std::string streams(std::uint32_t number) {
  const std::uint32_t first = number >> 16;
  return range(first, first + (number & 0xffff) - 1, "stream");
}

std::string versions(std::uint32_t number) { return range(number >> 8, number & 0xff, "version"); }

// "ranks 0 and 1 say", or "the others say" if the answer names no ranks.
std::string holders(const Failure& failure, const char* verb_of_one, const char* verb_of_many) {
  if (failure.other.empty()) return std::string("the others ") + verb_of_many;
  return ranks_text(failure.other) + " " + (failure.other.size() == 1 ? verb_of_one : verb_of_many);
}

std::string streams_text(const Failure& failure) {
  if (failure.other.empty()) {
    return "the rank asks for " + counted(failure.found, "stream") +
           ", and no job may have more than " + with_commas(failure.expected);
  }
  return "it uses " + streams(failure.found) + ", " + holders(failure, "uses ", "use ") +
         streams(failure.expected) + "; start all ranks with the same streams";
}

std::string route_text(const Failure& failure) {
  if (failure.arrived_at != failure.meant_for) {
    return "its JOIN reached the node at " + to_string(failure.arrived_at) +
           ", and its route says " +
           (failure.meant_for.unset() ? "nothing" : to_string(failure.meant_for)) +
           " there; routes must name the addresses at which switches and servers receive packets, "
           "and no address translation (NAT, a published container port) may be in between";
  }
  if (failure.other.empty()) return std::string(to_string(failure.reason));
  return "its route has a different next hop from that of " + ranks_text(failure.other) +
         "; all routes through a switch must have the same next hop";
}

std::string why(const Failure& failure) {
  const std::uint32_t expected = failure.expected;
  const std::uint32_t found = failure.found;
  if (failure.reason == RefusalReason::kKey) {
    return std::string(to_string(static_cast<KeyProblem>(expected)));
  }
  if (failure.reason == RefusalReason::kRoute) return route_text(failure);
  if (failure.reason == RefusalReason::kSocket) {
    return "it joins from the socket of " + ranks_text(failure.other) +
           "; each rank needs a socket of its own";
  }
  // Equal numbers (0 and 0 if the reason has none) are not worth showing.
  if (expected == found) return std::string(to_string(failure.reason));
  switch (failure.reason) {
    case RefusalReason::kWorldSize:
      return "it says the job has " + counted(found, "rank") + ", " +
             holders(failure, "says ", "say ") + with_commas(expected) +
             "; start all ranks with the same world size";
    case RefusalReason::kStreams: return streams_text(failure);
    case RefusalReason::kValueCount:
      return "the rank's path carries " + counted(found, "value") +
             " per fragment, and the job runs with " + with_commas(expected) +
             "; start all ranks with at most " + with_commas(found);
    case RefusalReason::kNumberFormat:
      return "it uses " + format_text(found) + ", " + holders(failure, "uses ", "use ") +
             format_text(expected) +
             "; start all ranks with the same ATP_SCALE, ATP_WIRE and ATP_EXACT, or options scale, "
             "wire and exact";
    case RefusalReason::kTooManyJobs:
      return "the node already serves " + counted(expected, "job") +
             ", its maximum; try again when one of them has ended";
    case RefusalReason::kRank:
      return "the rank says the job has " + counted(expected, "rank") +
             ", which are numbered from 0";
    case RefusalReason::kVersion:
      return "the rank supports protocol " + versions(found) + ", and the node " +
             versions(expected) + "; run the same version of atp everywhere";
    case RefusalReason::kMemory:
      return "the job needs " + with_commas(found) + " MiB there, and only " +
             with_commas(expected) + " MiB of the memory for all jobs is left";
    case RefusalReason::kTenantJobs:
      return "its tenant may have " + counted(expected, "job") +
             " at the node at a time; try again when one of them has ended";
    case RefusalReason::kTenantMemory:
      return "the job needs " + with_commas(found) + " MiB there, and its tenant has only " +
             with_commas(expected) + " MiB left";
    case RefusalReason::kTooManyRanks:
      return "values of 16 bits are possible with up to " + counted(expected, "rank") +
             ", and the job has " + with_commas(found) +
             "; use ATP_WIRE=int32, or option wire=int32";
    default: return std::string(to_string(failure.reason));
  }
}

// If ranks disagree, it does not matter which node refused; if a node's limit or rule applies, it
// does.
bool is_between_ranks(const Failure& failure) {
  return failure.reason == RefusalReason::kWorldSize ||
         failure.reason == RefusalReason::kNumberFormat || !failure.other.empty();
}

std::string subject(const Failure& failure, const FailureContext& context) {
  const std::string rank = "rank " + std::to_string(context.rank);
  if (failure.endpoint.unset() || is_between_ranks(failure)) return rank + " was refused";
  const std::string hop = hop_text(failure.endpoint, context.route);
  return hop + " refused " + rank;
}

}  // namespace

std::string peer_refused_text(const Failure& failure) {
  const bool one = failure.ranks.size() == 1;
  const std::string who = failure.ranks.empty() ? "a rank" : ranks_text(failure.ranks);
  if (failure.reason == RefusalReason::kIncarnation) {
    return who + (one ? " waits" : " wait") + " in incarnation " + std::to_string(failure.found) +
           " of the job, this rank in " + std::to_string(failure.expected) +
           ": start all ranks with the same ATP_INCARNATION (`atp run --incarnation N`)";
  }
  return who + (one || failure.ranks.empty() ? " was" : " were") + " refused: " + why(failure);
}

std::string refusal_text(const Failure& failure, const FailureContext& context) {
  return subject(failure, context) + ": " + why(failure);
}

}  // namespace atp
