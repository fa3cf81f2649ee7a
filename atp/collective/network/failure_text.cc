// The sentence for each FailureCode, and for the news about silent ranks, stragglers and awaited
// ranks.
#include "atp/collective/network/failure_text.h"

#include <algorithm>

#include "atp/base/text.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/path_mtu.h"
#include "atp/wire/host_text.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

// ICMP reported an error, which does not distinguish these two.
constexpr const char* kUnreachable = " (connection refused or host unreachable)";

std::string server_text(const FailureContext& context) {
  return context.route.empty() ? "the server" : hop_text(context.route.back(), context.route);
}

std::size_t datagram_bytes(const Endpoint& hop, std::uint16_t value_count,
                           const FailureContext& context) {
  return ip_udp_header_bytes(hop) +
         atp_packet_bytes(bitmap_words_for(context.world_size), ATP_KIND_SUM_PLAIN, value_count) +
         context.tag_bytes;
}

// Small packets get through, but large ones seem not to: perhaps a router drops them without an
// ICMP error, or a firewall drops the error.
std::string silent_path_hint(const FailureContext& context) {
  if (context.value_count == 0 || context.route.empty()) return "";
  constexpr std::size_t kEthernetMtu = 1500;
  constexpr std::size_t kLeastMtu = 1280;  // of IPv6
  const std::size_t words = bitmap_words_for(context.world_size);
  const bool jumbo = context.value_count > values_for_mtu(kEthernetMtu, words, context.tag_bytes);
  const std::uint16_t safe =
      values_for_mtu(jumbo ? kEthernetMtu : kLeastMtu, words, context.tag_bytes);
  if (context.value_count <= safe) return "";
  return "; if packets of " +
         with_commas(datagram_bytes(context.route.back(), context.value_count, context)) +
         " bytes do not get through, set ATP_VALUES_PER_FRAGMENT=" + std::to_string(safe);
}

// "rank 2 (10.0.0.3)", "ranks 2 (10.0.0.3) and 3": with their hosts, if known.
std::string ranks_at_text(const RankSet& ranks, const FailureDetail& detail) {
  constexpr std::size_t kMost = StatusMessage::kMaxEndpoints;
  if (detail.home_count == 0 || ranks.size() > kMost) return ranks_text(ranks);
  std::vector<std::string> names;
  ranks.for_each([&](Rank rank) {
    const std::size_t i = names.size();
    names.push_back(std::to_string(rank) +
                    (i < detail.home_count ? " (" + host_text(detail.homes[i]) + ")" : ""));
  });
  std::string text = names.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

// Whose contributions are missing. If each rank sends for all ranks of its host, any of these may
// be the late one.
std::string contributors_text(const RankSet& ranks, const FailureContext& context) {
  const std::string of = ranks.size() == 1 ? "the host of " : "the hosts of ";
  return (context.names.empty() ? "" : of) + ranks_at_text(ranks, context.detail);
}

std::string operation_of(const FailureContext& context) {
  return context.operation.empty() ? "the oldest operation" : context.operation;
}

constexpr std::string_view kWaitsFor = " waits for ";

// Operations in different formats never meet in a fragment, so a mismatch between ranks shows only
// when one compares their messages.
std::string own_wait(const FailureContext& context) {
  if (context.operation_kind.empty()) return "";
  return "; rank " + std::to_string(context.rank) + std::string(kWaitsFor) + context.operation_kind;
}

// The rank that the operation has waited for too long, as far as the server has said.
std::string missing_text(const Failure& failure, const FailureContext& context) {
  std::string text = ": " + contributors_text(failure.ranks, context) +
                     (failure.ranks.size() == 1 ? " has" : " have") + " not contributed";
  // If this rank is named, its own packets did not arrive.
  return failure.ranks.contains(context.rank) ? text + silent_path_hint(context)
                                              : text + own_wait(context);
}

bool has_switch(const FailureContext& context) { return context.route.size() > 1; }

// Whether a node has said, without a tag, that it lacks the key.
bool is_refused_without_tag(const Failure& failure) {
  return failure.reason == RefusalReason::kKey;
}

// Whether nothing comes from the server and the first switch, which needs no server to answer.
bool is_cut_off(const Failure& failure, const FailureContext& context) {
  return has_switch(context) && !failure.unreachable && failure.heard == 0 &&
         !is_refused_without_tag(failure);
}

// The switch beyond which nothing answers, if any node below the server does.
std::optional<Endpoint> last_heard(const Failure& failure, const FailureContext& context) {
  if (!has_switch(context) || failure.heard == 0) return std::nullopt;
  return context.route[std::min<std::size_t>(failure.heard, context.route.size() - 1) - 1];
}

// The first switch that is as silent as the server.
std::optional<Endpoint> silent_switch(const Failure& failure, const FailureContext& context) {
  if (failure.unreachable || !last_heard(failure, context)) return std::nullopt;
  if (failure.heard + 1U >= context.route.size()) return std::nullopt;
  return context.route[failure.heard];
}

std::string server_of(const Failure& failure, const FailureContext& context) {
  return failure.endpoint.unset() ? server_text(context)
                                  : hop_text(failure.endpoint, context.route);
}

// "server 10.0.0.9:5500 does not answer", or that this rank receives nothing.
std::string silent_text(const Failure& silence, const FailureContext& context) {
  if (is_cut_off(silence, context)) {
    return "rank " + std::to_string(context.rank) +
           " receives nothing (is the network link of its host up?)";
  }
  if (const auto silent = silent_switch(silence, context)) {
    return hop_text(*silent, context.route) + " does not answer, and neither does " +
           server_of(silence, context);
  }
  return server_of(silence, context) + " does not answer" +
         (silence.unreachable ? kUnreachable : "");
}

std::string no_progress(const Failure& failure, const FailureContext& context) {
  const std::string text = "no progress for " + seconds_text(context.operation_timeout);
  if (failure.ranks.empty() && context.silence) {
    return text + ": " + silent_text(*context.silence, context);
  }
  return failure.ranks.empty() ? text + ", and no word from " + server_text(context) + " about it" +
                                     silent_path_hint(context)
                               : text + missing_text(failure, context);
}

std::string overdue(const Failure& failure, const FailureContext& context) {
  const std::string text = overdue_text(failure.time_out);
  if (failure.ranks.empty() && context.silence) {
    return text + ": " + silent_text(*context.silence, context);
  }
  return failure.ranks.empty()
             ? text + ", although no rank is known to be missing: it may need more time" +
                   silent_path_hint(context)
             : text + missing_text(failure, context);
}

// Each rank knows only its own operation; comparing the messages of several ranks shows the
// mismatch.
std::string operation_mismatch(const Failure& failure, const FailureContext& context) {
  std::string text = ranks_text(failure.ranks) + " submitted a different operation from " +
                     ranks_text(failure.other) +
                     ": all ranks must call the same collectives in the same order, with the same "
                     "sizes, types, reductions and wire formats";
  const bool is_ours = (failure.ranks | failure.other).contains(context.rank);
  if (context.operation_kind.empty() || !is_ours) return text;
  return text + "; rank " + std::to_string(context.rank) + "'s was " + context.operation_kind;
}

std::string rank_lost(const Failure& failure, const FailureContext& context) {
  return ranks_at_text(failure.ranks, context.detail) + " lost: no word from " +
         (failure.ranks.size() == 1 ? "it for " : "them for ") + seconds_text(context.lease) +
         (failure.ranks.size() == 1 ? " (its lease ended)" : " (their leases ended)");
}

std::string rank_left(const Failure& failure, const FailureContext& context) {
  const std::string_view cause = context.detail.cause.view();
  return ranks_at_text(failure.ranks, context.detail) + " left the job before the operation ended" +
         (cause.empty() ? "" : ": " + std::string(cause)) +
         (cause.find(kWaitsFor) == std::string_view::npos ? "" : own_wait(context));
}

std::string server_question(const FailureContext& context) {
  if (!context.server_rank) return ": is `atp server` running there?";
  const std::string rank = "rank " + std::to_string(*context.server_rank);
  return ": it is the colocated server of " + rank + "; has " + rank + " ended?";
}

// What a packet without a tag said to a rank with a key.
std::string hint_text(const Failure& failure) {
  if (failure.reason == RefusalReason::kVersion) {
    return "; packets of protocol version " + std::to_string(failure.expected) +
           ", which have no tag, came from a node of its route: run the same version of atp "
           "everywhere, unless somebody has forged them";
  }
  if (!is_refused_without_tag(failure)) return "";
  return "; a refusal without a tag says that " +
         std::string(to_string(static_cast<KeyProblem>(failure.expected))) +
         ": see the log of the node, unless somebody has forged it";
}

std::string server_lost(const Failure& failure, const FailureContext& context) {
  const std::string silent = "silent for " + seconds_text(context.lease);
  if (is_cut_off(failure, context)) {
    const std::string rank = "rank " + std::to_string(context.rank);
    return rank + " has received nothing for " + seconds_text(context.lease) + ", neither from " +
           server_of(failure, context) + " nor from " +
           hop_text(context.route.front(), context.route) + ": is the network link of " + rank +
           "'s host up?" + hint_text(failure);
  }
  if (is_refused_without_tag(failure)) {
    return server_of(failure, context) + " does not answer with a valid tag (" + silent + ")" +
           hint_text(failure);
  }
  const auto heard = last_heard(failure, context);
  const std::string although =
      heard ? ", although " + hop_text(*heard, context.route) + " answers" : "";
  if (const auto other = silent_switch(failure, context)) {
    return hop_text(*other, context.route) + " does not answer, and neither does " +
           server_of(failure, context) + " (" + silent + although +
           "): is the network link between the two switches up?" + hint_text(failure);
  }
  if (failure.unreachable) {
    return server_of(failure, context) + " does not answer" + kUnreachable +
           server_question(context) + hint_text(failure);
  }
  return server_of(failure, context) + " does not answer (" + silent + although + ")" +
         server_question(context) + (heard ? " Is the network link between the two up?" : "") +
         hint_text(failure);
}

std::string rank_taken(const Failure& failure, const FailureContext& context) {
  std::string text = "rank " + std::to_string(context.rank) + " is taken";
  if (!failure.endpoint.unset()) text += " by " + to_string(failure.endpoint);
  return text +
         ": start each rank exactly once; if another job has the same number, choose another "
         "with `atp run --job N` or ATP_JOB";
}

std::string route_text(const FailureContext& context) {
  std::string text = server_text(context);
  for (std::size_t i = 0; i + 1 < context.route.size(); ++i) {
    text += (i == 0 ? " through " : ", ") + hop_text(context.route[i], context.route);
  }
  return text;
}

// For a rank whose packets are lost.
std::string firewall_question(const FailureContext& context) {
  std::string route;
  for (const Endpoint& hop : context.route) route += (route.empty() ? "" : ",") + to_string(hop);
  return " Do firewalls let this rank's UDP packets out and the answers in? On its host, `atp "
         "doctor " +
         route + "` tells.";
}

std::string not_joined_text(const RankSet& ranks, const std::string& within,
                            const FailureContext& context) {
  return ranks_text(ranks) + (ranks.size() == 1 ? " has" : " have") + " not joined" + within +
         "; the job has " + std::to_string(context.world_size) +
         (context.names.empty() ? " ranks" : " hosts");
}

std::string join_timeout(const Failure& failure, const FailureContext& context) {
  if (!failure.ranks.empty()) {
    const std::string within = " within " + seconds_text(context.join_timeout);
    return not_joined_text(failure.ranks, within, context) +
           (context.peer_refused ? "; " + peer_refused_text(*context.peer_refused) : "") +
           hint_text(failure);
  }
  if (failure.moves) {
    return "not joined within " + seconds_text(context.join_timeout) + ": " + route_text(context) +
           " answers, but to it each packet of this rank comes from another address or port. "
           "Something between them translates addresses (NAT): give the rank's host an address "
           "that nothing translates; a container needs the host's network";
  }
  const std::string no_answer =
      "no answer within " + seconds_text(context.join_timeout) + " from " + route_text(context);
  const bool is_known = failure.unreachable || failure.reason != RefusalReason::kNone;
  if (context.join_timeout < kToBeTold && !is_known) {
    return no_answer + ", which may only wait for other ranks: it says so after " +
           seconds_text(kToBeTold) +
           " at the latest, so give at least that time to join (ATP_JOIN_TIMEOUT)";
  }
  return no_answer + (failure.unreachable ? kUnreachable : "") + server_question(context) +
         (failure.unreachable ? "" : firewall_question(context)) + hint_text(failure);
}

}  // namespace

Failure renamed(Failure failure, const std::vector<Rank>& names) {
  if (names.empty()) return failure;
  for (RankSet* ranks : {&failure.ranks, &failure.other}) {
    RankSet named;
    ranks->for_each([&](Rank rank) { named.insert(rank < names.size() ? names[rank] : rank); });
    *ranks = named;
  }
  return failure;
}

std::string waiting_text(const Failure& failure, const FailureContext& context) {
  return "waiting for " + contributors_text(failure.ranks, context) +
         (failure.ranks.size() == 1 ? ", which has" : ", which have") + " not contributed to " +
         operation_of(context) + " for " + seconds_text(WorkerConfig{}.tell_waiting);
}

std::string joining_text(const RankSet& missing, Duration waited, const FailureContext& context) {
  return "waiting for " + seconds_text(waited) + ": " +
         (missing.empty() ? "no answer from " + route_text(context)
                          : not_joined_text(missing, "", context));
}

std::string still_missing_text(const Failure& failure, const FailureContext& context) {
  return contributors_text(failure.ranks, context) +
         (failure.ranks.size() == 1 ? " has" : " have") + " not contributed to " +
         operation_of(context);
}

// Without addresses: the known ones may belong to other ranks.
std::string waiting_over_text(const Failure& failure, Duration waited) {
  return ranks_text(failure.ranks) + (failure.ranks.size() == 1 ? " has" : " have") +
         " resumed: the others waited for " +
         seconds_text(waited - waited % std::chrono::milliseconds(100));
}

std::string slow_rank_text(const Failure& failure, Duration waited, Duration window,
                           const FailureContext& context) {
  const Duration tenth = std::chrono::milliseconds(100);
  return "the other ranks spent " + seconds_text(waited - waited % tenth) + " of the last " +
         seconds_text(window - window % tenth) + " waiting for " +
         ranks_at_text(failure.ranks, context.detail) +
         ", less than a second each time: it is a straggler (`atp status` of the server shows how "
         "late its packets arrive)";
}

std::string silence_text(const Failure& failure, const FailureContext& context) {
  return silent_text(failure, context) + ": giving up after " + seconds_text(context.lease) +
         " of silence";
}

std::string detached_text(const Detached& detached, const FailureContext& context) {
  const Failure& failure = detached.failure;
  const std::vector<Endpoint>& route = context.route;
  const std::string and_so = ": going straight to " + hop_text(route.back(), route) + " until ";
  if (failure.code == FailureCode::kRefused) {
    return refusal_text(failure, context) + and_so + "it is accepted";
  }
  if (failure.code == FailureCode::kRankTaken) {
    return hop_text(failure.endpoint, route) + " says that rank " + std::to_string(context.rank) +
           " is taken" + and_so + "it is accepted";
  }
  const std::string silent = hop_text(failure.endpoint, route);
  if (failure.heard >= route.size()) {
    return "nothing comes back through " + silent + ", although it and all nodes above it answer" +
           and_so + "something does";
  }
  const std::string what = detached.answered_before ? " no longer answers" : " did not answer";
  if (failure.heard == 0) return silent + what + and_so + "it does";
  const std::string below = hop_text(route[failure.heard - 1U], route);
  if (failure.heard + 1U == route.size()) {
    return silent + what + " through " + below + ", although both answer" + and_so + "it does";
  }
  return silent + what + ", although " + below + " below it does" + and_so + "it does";
}

std::string returned_text(const Detached& detached, const FailureContext& context) {
  const Failure& failure = detached.failure;
  const std::string who = hop_text(failure.endpoint, context.route);
  const std::string and_so = ": sums go through it from now on";
  if (failure.code != FailureCode::kServerLost) {
    return who + " accepts rank " + std::to_string(context.rank) + " now" + and_so;
  }
  if (failure.heard + 1U >= context.route.size()) {
    return "the switches of the route work again: sums go through them from now on";
  }
  return who + (detached.answered_before ? " answers again" : " answers now") + and_so;
}

std::string failure_text(const Failure& failure, const FailureContext& context) {
  switch (failure.code) {
    case FailureCode::kNoProgress: return no_progress(failure, context);
    case FailureCode::kOverdue: return overdue(failure, context);
    case FailureCode::kOperationMismatch: return operation_mismatch(failure, context);
    case FailureCode::kRankLost: return rank_lost(failure, context);
    case FailureCode::kRankLeft: return rank_left(failure, context);
    case FailureCode::kServerRestarted:
      return server_text(context) + " restarted and forgot the job: start the job again";
    case FailureCode::kServerLost: return server_lost(failure, context);
    case FailureCode::kRankTaken: return rank_taken(failure, context);
    case FailureCode::kRefused: return refusal_text(failure, context);
    case FailureCode::kJoinTimeout: return join_timeout(failure, context);
    case FailureCode::kLeft: return "this rank has left the job";
    case FailureCode::kLeftBefore:
      return "it has already left the job, and a rank cannot return to the same incarnation: start "
             "the job again, as another incarnation";
  }
  return "unknown failure";
}

bool fragments_exceed(const NarrowPath& path, const FailureContext& context) {
  return datagram_bytes(path.hop, path.value_count, context) > path.mtu;
}

std::string narrow_path_text(const NarrowPath& path, const FailureContext& context) {
  const std::uint16_t values =
      values_for_mtu(path.mtu, bitmap_words_for(context.world_size), context.tag_bytes);
  const std::string way_out =
      values > 0 ? "set ATP_VALUES_PER_FRAGMENT=" + std::to_string(values) + " or less" : "";
  return "the path from rank " + std::to_string(context.rank) + " to " +
         hop_text(path.hop, context.route) + " carries packets of at most " +
         with_commas(path.mtu) + " bytes (MTU), and a fragment of " +
         with_commas(path.value_count) + " values makes one of " +
         with_commas(datagram_bytes(path.hop, path.value_count, context)) + ": " + way_out +
         (way_out.empty() ? "" : ", or ") + "raise the path's MTU";
}

std::string hop_text(const Endpoint& hop, const std::vector<Endpoint>& route) {
  const bool is_server = !route.empty() && hop == route.back();
  for (const Endpoint& known : route) {
    if (known == hop) return (is_server ? "server " : "switch ") + to_string(hop);
  }
  return to_string(hop);
}

}  // namespace atp
