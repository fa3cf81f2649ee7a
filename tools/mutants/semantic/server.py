"""Rules about the server (docs/inside/protocol §2 and §6)."""

from tools.mutants.mutant import Rule

AGGREGATION = "atp/core/server/aggregation.cc"
STALL = "atp/core/server/aggregation_stall.cc"
JUDGE = "atp/core/server/contribution.cc"
RING = "atp/core/server/fragment_ring.h"
MEMBERS = "atp/core/server/members.cc"
JOINING = "atp/core/server/job_joining.cc"
LEAVING = "atp/core/server/job_leaving.cc"
SERVER = "atp/core/server/server.cc"

SUMS = [
    Rule(
        "the server adds without an overlap test",
        JUDGE,
        "if (!fragment.bitmap.intersects(packet.ranks)) return Contribution::kAdd;",
        "if (!fragment.bitmap.contains(packet.ranks)) return Contribution::kAdd;",
    ),
    Rule(
        "the server adds a larger sum to the one it holds",
        JUDGE,
        "if (packet.ranks.contains(fragment.bitmap)) return Contribution::kReplace;",
        "if (packet.ranks.contains(fragment.bitmap)) return Contribution::kAdd;",
    ),
    Rule(
        "the server adds packets of another operation",
        JUDGE,
        "if (fragment.named && fragment.operation != packet.operation) {",
        "if (false) {",
    ),
    Rule("the server loses OVERFLOW", AGGREGATION, "    fragment.flags |= overflow;\n", ""),
    Rule(
        "ranks that sent integers count in float mode",
        AGGREGATION,
        "  fragment.bitmap.clear();\n",
        "",
    ),
    Rule(
        "exact values of several ranks are one rank's while no slot is free",
        JUDGE,
        "packet.ranks.size() == 1 ? Contribution::kFloatWaits : Contribution::kFloatsOfMany;",
        "Contribution::kFloatWaits;",
    ),
    Rule(
        "integers count in float mode",
        JUDGE,
        "if (!packet.is_float) return Contribution::kIntegerTooLate;",
        "",
    ),
    Rule(
        "integers go unanswered in float mode",
        AGGREGATION,
        "ask_again(down, stream, fragment, ATP_FLAG_FLOAT, in.packet.ranks - fragment.bitmap,\n"
        "                straight);",
        "",
    ),
    Rule(
        "repeats of a complete fragment go unanswered",
        AGGREGATION,
        "repeat_parameter(down, stream, fragment, in.packet.ranks, source);",
        "",
    ),
    Rule(
        "the next index is not frozen at completion",
        AGGREGATION,
        "  turn.count(ServerCounter::kParametersRepeated);\n",
        "  fragment.next_index = atp_fmix32(fragment.next_index + 1);\n",
    ),
    Rule(
        "a collision does not move a fragment",
        AGGREGATION,
        "const bool moves = turn.config.rehash && (fragment.flags & ATP_FLAG_COLLISION) != 0;",
        "const bool moves = false;",
    ),
    Rule(
        "the server keeps bits of the next index that no PARAMETER has",
        AGGREGATION,
        "atp_fmix32(fragment.aggregator_index + 1) : fragment.aggregator_index) &\n"
        "      ATP_INDEX_BITS;",
        "atp_fmix32(fragment.aggregator_index + 1) : fragment.aggregator_index);",
    ),
    Rule(
        "the server forgets where a fragment has moved",
        RING,
        "  indices_.set_next(fragment.sequence, next_index);\n",
        "",
    ),
    Rule(
        "the server's ring is half as long",
        RING,
        "return completed_end_ - first_ < wmax_ ? first_ : completed_end_ - wmax_;",
        "return completed_end_ - first_ < wmax_ / 2 ? first_ : completed_end_ - wmax_ / 2;",
    ),
    Rule(
        "the server's ring ends after 32 bits",
        RING,
        "completed_end_ = fragment.sequence + 1;",
        "completed_end_ = static_cast<std::uint32_t>(fragment.sequence + 1);",
    ),
    Rule("a float slot is not returned", AGGREGATION, "  floats_.give_back(slot);\n", ""),
    Rule(
        "no fragment is requested when a float slot becomes free",
        AGGREGATION,
        "while (const auto next = floats_.next()) {",
        "while (const auto next = std::optional<FloatRequest>()) {",
    ),
    Rule(
        "no stream releases a float slot for another one",
        AGGREGATION,
        "if (!waits_for_a_slot_alone) return std::nullopt;",
        "return std::nullopt;",
    ),
    Rule(
        "a stream releases a float slot before all ranks have sent",
        AGGREGATION,
        "const bool waits_for_a_slot_alone = fragment.ready == all_ &&",
        "const bool waits_for_a_slot_alone = !fragment.ready.empty() &&",
    ),
    Rule(
        "two streams take a float slot from each other for ever",
        AGGREGATION,
        " || found->ready == all_) continue;",
        ") continue;",
    ),
    Rule(
        "a mismatch names no rank whose floats waited",
        AGGREGATION,
        "mismatch_ = {name, (fragment.bitmap | fragment.ready) - others, others};",
        "mismatch_ = {name, fragment.bitmap - others, others};",
    ),
    Rule(
        "a fragment that loses its slot forgets who sent it",
        AGGREGATION,
        "  fragment.ready |= fragment.bitmap;\n",
        "",
    ),
    Rule(
        "a float slot starts with its previous sum",
        "atp/core/server/float_pool.cc",
        "  std::fill_n(sums_.data() + begin_of(slot), values, ExactSum{});\n",
        "",
    ),
    Rule(
        "every duplicate is answered",
        AGGREGATION,
        "const RankSet due = ranks - answered.ranks;",
        "const RankSet due = ranks;",
    ),
]

STALLS = [
    Rule(
        "a stalled fragment is not flushed",
        STALL,
        "case StallAction::kFlush: down.flush(name_of(stream, fragment), asked); break;",
        "case StallAction::kFlush: break;",
    ),
    Rule(
        "the missing ranks of a stalled fragment are not asked",
        STALL,
        "down.nack(name_of(stream, fragment), is_float ? ATP_FLAG_FLOAT : 0,\n"
        "                asked - down.members().gone(), {});",
        "",
    ),
    Rule(
        "a fragment of which nothing has arrived is never requested",
        STALL,
        "if (s >= ring.completed_end()) continue;",
        "continue;",
    ),
    Rule(
        "nobody is told which ranks the oldest fragment waits for",
        STALL,
        "    down.status(name_of(stream, fragment), message, down.present());\n",
        "",
    ),
    Rule(
        "a description is not repeated to the switches",
        STALL,
        "    message.cause = description_of(fragment.operation);\n",
        "",
    ),
    Rule(
        "the last description of an operation counts, and each is announced",
        STALL,
        "if (stream.described.operation == header.operation || text.empty()) return;",
        "if (text.empty()) return;",
    ),
    Rule(
        "an operation that does not wait is described",
        STALL,
        "if (!waits) return turn.count(ServerCounter::kDropNotAwaited);",
        "if (!waits && head == nullptr) return turn.count(ServerCounter::kDropNotAwaited);",
    ),
    Rule(
        "operations that wait for one another's ranks are not a mismatch",
        STALL,
        "if (others.empty()) {\n    crossing.reset();",
        "{\n    crossing.reset();",
    ),
    Rule(
        "a mismatch is repeated only while the oldest fragment shows it",
        STALL,
        "if (const Disagreement* first = mismatch()) {",
        "if (const Disagreement* first = mismatch();\n"
        "      first != nullptr && first->name == name_of(stream, fragment)) {",
    ),
    Rule(
        "ranks that leave hide the mismatch",
        LEAVING,
        "if (const Disagreement* first = aggregation_->mismatch()) {",
        "if (const Disagreement* first = aggregation_->mismatch(); first == nullptr && first) {",
    ),
    Rule(
        "nobody is told about a rank that has left",
        LEAVING,
        "  down.status(all.name, all.message, down.present());\n",
        "  if (all.message.code == StatusCode::kLeft) return;\n"
        "  down.status(all.name, all.message, down.present());\n",
    ),
    Rule(
        "an overlap makes the server ask all ranks again",
        AGGREGATION,
        "ask_again(down, stream, fragment, ATP_FLAG_DIRECT, missing(fragment),",
        "ask_again(down, stream, fragment, ATP_FLAG_DIRECT, all_,",
    ),
    Rule(
        "the first address of a rank stays its own",
        MEMBERS,
        "straight_.refresh(rank, {own, join.nonce,",
        "straight_.refresh(rank, {straight_.knows(rank) ? straight_.member(rank).child : own,"
        " join.nonce,",
    ),
    Rule(
        "the mismatch that others have failed with does not say that they are gone",
        LEAVING,
        "first->message(StatusMessage::kSomeAreGone)",
        "first->message()",
    ),
    Rule(
        "what followed from a departure is said in its place",
        LEAVING,
        "  if (culprit_) {\n",
        "  if (culprit_ && members_.lost().empty()) {\n",
    ),
    Rule(
        "a rank that leaves because others are lost is the cause",
        LEAVING,
        "  if (!members_.lost().empty()) return;  // the cause of the departures that follow\n",
        "",
    ),
    Rule(
        "a server takes a child for a worker only by its straight JOINs",
        MEMBERS,
        "return !records_[child.ranks.lowest()].recorded.empty();",
        "if (child.ranks.size() != 1) return true;\n"
        "  const Rank rank = child.ranks.lowest();\n"
        "  return !(straight_.knows(rank) && straight_.member(rank).child == child.endpoint);",
    ),
    Rule(
        "a later mismatch takes the place of the first",
        AGGREGATION,
        "  if (first != nullptr && first->name != name) return;\n",
        "  static_cast<void>(first);\n",
    ),
    Rule(
        "a job with values of 16 bits may have any number of ranks",
        SERVER,
        "join.world_size > kMaxRanksOfInt16) {",
        "join.world_size > kMaxRanks) {",
    ),
    Rule(
        "crossed operations are a mismatch immediately",
        STALL,
        "return now >= crossing->since + down.turn().config.timing.crossed;",
        "return true;",
    ),
    Rule(
        "a rank that is late in two operations crosses them",
        STALL,
        "if (!missing(fragment).intersects(missing(*head)) && heard.contains(lacking))",
        "if (heard.contains(lacking))",
    ),
    Rule(
        "silent ranks cross operations",
        STALL,
        "if (!missing(fragment).intersects(missing(*head)) && heard.contains(lacking))",
        "if (!missing(fragment).intersects(missing(*head)))",
    ),
    Rule(
        "operations that make progress are watched as if stuck",
        STALL,
        "if (!crossing || crossing->sequence != fragment.sequence ||"
        " crossing->ranks != fragment.bitmap ||\n"
        "      crossing->others != others) {",
        "if (!crossing) {",
    ),
    Rule(
        "a rank that waits is itself reported as late",
        STALL,
        "if (oldest && !everywhere.empty()) oldest->ranks = everywhere;",
        "",
    ),
    Rule(
        "a FLUSH also goes to workers",
        "atp/core/server/downlink.cc",
        "if (members_.is_switch(child) && child.ranks.intersects(ranks)) {",
        "if (child.ranks.intersects(ranks)) {",
    ),
    Rule(
        "a straight repeat is not answered straight",
        AGGREGATION,
        "return source == Source::kStraight ? ranks : RankSet{};",
        "return RankSet{};",
    ),
    Rule(
        "a detached rank is answered only through its tree",
        "atp/core/server/members.h",
        "const RankSet straight = ((ranks - tree_.attached()) | straight_too) & straight_.known();",
        "const RankSet straight = straight_too & straight_.known();",
    ),
]

MEMBERSHIP = [
    Rule(
        "a socket joins as several ranks at a server",
        JOINING,
        "if (join.recorded.empty() && !others.empty()) {",
        "if (false) {",
    ),
    Rule(
        "a server refuses what a switch says for a second rank",
        JOINING,
        "if (join.recorded.empty() && !others.empty()) {",
        "if (!others.empty()) {",
    ),
    Rule(
        "a JOIN needs no proof at a server",
        "atp/core/server/server.cc",
        "if (join->proof != proof) {",
        "if (false) {",
    ),
    Rule(
        "a JOIN without any proof counts at a server",
        "atp/core/server/server.cc",
        "if (join->proof != proof) {",
        "if (join->proof != 0 && join->proof != proof) {",
    ),
    Rule(
        "a member's JOIN needs no proof",
        "atp/core/server/server.cc",
        "if (join->proof != proof) {",
        "if (join->server_boot_id == 0 && join->proof != proof) {",
    ),
    Rule(
        "questions for a proof are paced",
        "atp/core/server/server.cc",
        "    return answer(turn, in, in.packet.ranks,\n                  StatusMessage::prove(",
        "    return answer_paced(turn, in, in.packet.ranks,\n"
        "                  StatusMessage::prove(",
    ),
    Rule(
        "a rank that has left rejoins",
        JOINING,
        "if (members_.gone().contains(rank)) {",
        "if (members_.lost().contains(rank)) {",
    ),
    Rule(
        "a rank that is lost rejoins",
        JOINING,
        "if (members_.gone().contains(rank)) {",
        "if (members_.left().contains(rank)) {",
    ),
    Rule(
        "a job begins before all ranks have joined",
        JOINING,
        "if (!joining() || joined(turn) != members_.all()) return;",
        "if (!joining() || joined(turn).empty()) return;",
    ),
    Rule(
        "K is what the first rank can send",
        JOINING,
        "    terms_.value_count = std::min(terms_.value_count, join.max_value_count);\n",
        "",
    ),
    Rule(
        "ranks are not told of a refused JOIN whose streams begin elsewhere",
        SERVER,
        "if (!concerns || theirs == nullptr) return;",
        "if (!concerns || jobs_.count({packet.job(), join.first_stream}) == 0) return;",
    ),
    Rule(
        "a restarted server takes members for new ranks",
        SERVER,
        "const bool other_life = join.server_boot_id != config_.boot_id;",
        "const bool other_life = false;",
    ),
    Rule(
        "a member of an ended job creates it again",
        SERVER,
        "if (!other_life && job != jobs_.end() && !job->second.job.joining()) return std::nullopt;",
        "if (!other_life) return std::nullopt;",
    ),
    Rule(
        "a second process takes a rank at the server",
        MEMBERS,
        "if (records_[rank].nonce == nonce) return std::nullopt;",
        "return std::nullopt;",
    ),
    Rule(
        "the server believes a LEAVE with another nonce",
        LEAVING,
        "return members_.record(rank).nonce == leave.nonce ?",
        "return true ?",
    ),
    Rule(
        "a GRADIENT may come from anywhere",
        "atp/core/server/job.cc",
        "  if (source == Source::kForeign) return ServerCounter::kDropWrongSource;\n",
        "",
    ),
    Rule(
        "leases at the server never end",
        "atp/core/server/job.cc",
        "  if (leases_at_ <= turn.now) end_leases(turn);\n",
        "",
    ),
    Rule(
        "a server that was stopped ends all leases at once",
        SERVER,
        "      entry.job.postpone_ends_of_leases(now + 2 * config_.timing.join_refresh);\n",
        "",
    ),
    Rule(
        "nobody is told about a lost rank",
        LEAVING,
        "    announce_gone(turn);\n    gone_at_",
        "    gone_at_",
    ),
    Rule(
        "switches are told late about a detached rank",
        JOINING,
        "  if (detached_news) announce_detached(turn);\n",
        "",
    ),
    Rule(
        "an old JOIN attaches a detached rank",
        MEMBERS,
        "    tree_.detach(rank, record.detachments);\n",
        "",
    ),
    Rule(
        "a server that drains takes new jobs",
        SERVER,
        "if (draining_ && !knows(packet.job())) return {RefusalReason::kDraining};",
        "",
    ),
    Rule(
        "a server that drains refuses the jobs that it knows",
        SERVER,
        "if (draining_ && !knows(packet.job())) return {RefusalReason::kDraining};",
        "if (draining_) return {RefusalReason::kDraining};",
    ),
    Rule(
        "a job may need more memory than there is",
        SERVER,
        "  if (needed > left) return memory_refusal(left, needed);\n",
        "",
    ),
    Rule(
        "a server takes jobs for which the system has no memory",
        SERVER,
        "  return system_gives(needed) ? Refusal{} : memory_refusal(0, needed);\n",
        "  return {};\n",
    ),
    Rule(
        "a job for which the system has no memory goes on joining",
        JOINING,
        "    finished_ = true;\n    return;\n",
        "    return;\n",
    ),
    Rule(
        "a server paces its answers to members",
        SERVER,
        "if (asker != jobs_.end() && asker->second.job.members().is_from(in)) {",
        "if (false) {",
    ),
    Rule(
        "ranks that fell silent together are not lost together",
        LEAVING,
        "if (!ended.empty() && !joining()) {",
        "if (false) {",
    ),
]

RULES = SUMS + STALLS + MEMBERSHIP
