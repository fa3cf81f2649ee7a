#include "atp/collective/failure_text.h"

#include "atp/collective/refusal_text.h"
#include "atp/collective/text.h"

namespace atp {
namespace {

// An ICMP error said so; it does not tell these two apart.
constexpr const char* kUnreachable = " (connection refused or host unreachable)";

std::string server_text(const FailureContext& context) {
  return context.route.empty() ? "the server" : hop_text(context.route.back(), context.route);
}

std::string no_progress(const Failure& failure, const FailureContext& context) {
  std::string text = "no progress for " + seconds_text(context.operation_timeout);
  if (failure.ranks.empty()) return text + ", and no word from " + server_text(context);
  return text + ": " + ranks_text(failure.ranks) + (failure.ranks.size() == 1 ? " has" : " have") +
         " not contributed";
}

std::string operation_mismatch(const Failure& failure) {
  return ranks_text(failure.ranks) + " submitted another operation than " +
         ranks_text(failure.other) +
         ": all ranks must call the same collectives with the same sizes in the same order";
}

std::string rank_lost(const Failure& failure, const FailureContext& context) {
  return ranks_text(failure.ranks) + " lost: no word from " +
         (failure.ranks.size() == 1 ? "it for " : "them for ") + seconds_text(context.lease) +
         (failure.ranks.size() == 1 ? " (its lease ended)" : " (their leases ended)");
}

std::string server_lost(const Failure& failure, const FailureContext& context) {
  const std::string who =
      failure.endpoint.unset() ? server_text(context) : hop_text(failure.endpoint, context.route);
  return who + " does not answer" +
         (failure.unreachable ? kUnreachable
                              : " (silent for " + seconds_text(context.lease) + ")") +
         ": is `atp server` running there?";
}

std::string rank_taken(const Failure& failure, const FailureContext& context) {
  std::string text = "rank " + std::to_string(context.rank) + " is taken";
  if (!failure.endpoint.unset()) text += " by " + to_string(failure.endpoint);
  return text + ": start each rank exactly once";
}

std::string route_text(const FailureContext& context) {
  std::string text = server_text(context);
  for (std::size_t i = 0; i + 1 < context.route.size(); ++i) {
    text += (i == 0 ? " through " : ", ") + hop_text(context.route[i], context.route);
  }
  return text;
}

std::string join_timeout(const Failure& failure, const FailureContext& context) {
  if (!failure.ranks.empty()) {
    return ranks_text(failure.ranks) + (failure.ranks.size() == 1 ? " has" : " have") +
           " not joined within " + seconds_text(context.join_timeout) + " (of " +
           std::to_string(context.world_size) + " ranks)";
  }
  return "no answer within " + seconds_text(context.join_timeout) + " from " + route_text(context) +
         (failure.unreachable ? kUnreachable : "") + ": is `atp server` running there?";
}

}  // namespace

std::string failure_text(const Failure& failure, const FailureContext& context) {
  switch (failure.code) {
    case FailureCode::kNoProgress: return no_progress(failure, context);
    case FailureCode::kOperationMismatch: return operation_mismatch(failure);
    case FailureCode::kRankLost: return rank_lost(failure, context);
    case FailureCode::kRankLeft:
      return ranks_text(failure.ranks) + " left the job before the operation ended";
    case FailureCode::kServerRestarted:
      return server_text(context) + " restarted and forgot the job: start the job again";
    case FailureCode::kServerLost: return server_lost(failure, context);
    case FailureCode::kRankTaken: return rank_taken(failure, context);
    case FailureCode::kRefused: return refusal_text(failure, context);
    case FailureCode::kJoinTimeout: return join_timeout(failure, context);
    case FailureCode::kLeft: return "this rank has left the job";
  }
  return "unknown failure";
}

std::string operation_text(std::uint64_t number, std::uint64_t value_count) {
  return "all_reduce #" + std::to_string(number) + " (" + with_commas(value_count) +
         (value_count == 1 ? " value)" : " values)");
}

std::string hop_text(const Endpoint& hop, const std::vector<Endpoint>& route) {
  const bool is_server = !route.empty() && hop == route.back();
  for (const Endpoint& known : route) {
    if (known == hop) return (is_server ? "server " : "switch ") + to_string(hop);
  }
  return to_string(hop);
}

}  // namespace atp
