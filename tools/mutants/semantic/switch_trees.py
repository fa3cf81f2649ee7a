"""Rules about the trees of a switch: who is behind it (docs/inside/protocol §2 and §4)."""

from tools.mutants.mutant import Rule

UPWARD = "atp/core/dataplane/upward.cc"
DOWNWARD = "atp/core/dataplane/downward.cc"
ANSWERS = "atp/core/dataplane/answers.cc"
RELAY = "atp/core/dataplane/join_relay.cc"
TREE = "atp/core/dataplane/tree_table.cc"
STATE = "atp/core/dataplane/switch_state.h"

RULES = [
    Rule(
        "a JOIN makes its rank a member at once",
        TREE,
        "    return apply({rank, statement, join.recorded.size() == 1});  // this switch\n",
        "    left_.erase(rank);\n",
    ),
    Rule(
        "a JOIN_ACK makes any applicant for its rank a member",
        TREE,
        "return ranks.contains(a.rank) && a.statement.nonce == ack.nonce;",
        "return ranks.contains(a.rank);",
    ),
    Rule(
        "an applicant hears what goes to all, even after the job has begun",
        DOWNWARD,
        "return nonce == 0 ? tree.joining() : applicant.statement.nonce == nonce;",
        "return nonce == 0 || applicant.statement.nonce == nonce;",
    ),
    Rule(
        "an applicant stays although its JOIN was turned down",
        TREE,
        "return a.rank == rank && a.statement.nonce == nonce;",
        "return a.rank == rank && a.statement.nonce == nonce && nonce == 0;",
    ),
    Rule(
        "an applicant keeps its rank from others",
        TREE,
        "return a.rank == applicant.rank && a.statement.nonce == applicant.statement.nonce;",
        "return a.rank == applicant.rank;",
    ),
    Rule(
        "what turns down the JOIN of a known child is paced",
        "atp/core/answer_pacer.cc",
        "if (receiver == To::kChild) return true;",
        "",
    ),
    Rule(
        "an applicant's lease does not end",
        TREE,
        "return a.statement.lease_end <= now;",
        "return a.statement.lease_end <= now - std::chrono::hours(1);",
    ),
    Rule(
        "detached ranks are in the member mask",
        TREE,
        "const RankSet members = membership_.attached() - left_;",
        "const RankSet members = membership_.known() - left_;",
    ),
    Rule(
        "ranks that have left are in the member mask",
        TREE,
        "const RankSet members = membership_.attached() - left_;",
        "const RankSet members = membership_.attached();",
    ),
    Rule(
        "a switch believes anybody's PARAMETER",
        DOWNWARD,
        "  if (in.from != tree->parent()) return turn.count(SwitchCounter::kDropNotFromParent);\n",
        "",
    ),
    Rule(
        "downward packets go to every child",
        DOWNWARD,
        "if (child.ranks.intersects(in_.packet.ranks)) send(child.endpoint);",
        "send(child.endpoint);",
    ),
    Rule(
        "a quota leaks",
        STATE,
        "    if (was_held && !is_held) trees.shares().note_release(holder);\n",
        "",
    ),
    Rule(
        "a region is given to two jobs",
        "atp/core/dataplane/shares.cc",
        "    if (is_taken(region * size)) continue;\n",
        "",
    ),
    Rule(
        "the virtual queue never drains",
        STATE,
        "empty_at_ = std::min(std::max(empty_at_, now), now + kThresholds * threshold_) + sending;",
        "empty_at_ = now + kThresholds * threshold_ + sending;",
    ),
    Rule(
        "the virtual queue has no limit",
        STATE,
        "empty_at_ = std::min(std::max(empty_at_, now), now + kThresholds * threshold_) + sending;",
        "empty_at_ = std::max(empty_at_, now) + sending;",
    ),
    Rule(
        "a sum loses a contribution when the outbox is full",
        UPWARD,
        "if (operation != ATP_DATA_LOAD) {",
        "if (operation == ATP_DATA_STORE) {",
    ),
    Rule(
        "a second process takes a rank at a switch",
        RELAY,
        "if (tree != nullptr && tree->taken(rank, join->nonce, turn.now)) {",
        "if (false) {",
    ),
    Rule(
        "a socket joins as several ranks at a switch",
        RELAY,
        "  if (others.empty()) return {};\n  return {.reason = RefusalReason::kSocket, ",
        "  return {};\n  return {.reason = RefusalReason::kSocket, ",
    ),
    Rule(
        "a JOIN_ACK makes a socket a member as several ranks",
        TREE,
        "if (accepted != applicants_.end() && !shares_socket) {",
        "if (accepted != applicants_.end()) {",
    ),
    Rule(
        "a JOIN needs no proof at a switch",
        RELAY,
        "if (join->proof != proof_of(turn.config.secret, in.packet.job(), in.from)) {",
        "if (false) {",
    ),
    Rule(
        "a JOIN without any proof counts at a switch",
        RELAY,
        "if (join->proof != proof_of(",
        "if (join->proof != 0 && join->proof != proof_of(",
    ),
    Rule(
        "a switch passes on the proof that a child has shown",
        RELAY,
        "  join->proof = tree->proof();\n",
        "",
    ),
    Rule(
        "a switch passes down the proof that its parent asks for",
        DOWNWARD,
        "  ask_for_proof(turn, in.packet, in.packet.header.stream, *child, status.nonce);\n",
        "  send_answer_down(turn, in, tree, status.nonce, &status);\n",
    ),
    Rule(
        "a switch forgets the proof that its parent asks for",
        DOWNWARD,
        "  tree.note_proof(status.proof());\n",
        "",
    ),
    Rule(
        "a switch keeps a proof although it has passed on no such JOIN",
        DOWNWARD,
        "  if (child == nullptr) return turn.count(SwitchCounter::kDropNoChildAddressed);\n",
        "  if (child == nullptr) {\n    tree.note_proof(status.proof());\n"
        "    return turn.count(SwitchCounter::kDropNoChildAddressed);\n  }\n",
    ),
    Rule(
        "a parent cannot ask about the JOINs of members",
        TREE,
        "    if (member.nonce == nonce) child = &member.child;\n",
        "",
    ),
    Rule(
        "a parent is shown the proof of the one before",
        TREE,
        "    proof_ = 0;\n",
        "",
    ),
    Rule(
        "a repeated JOIN stays at a switch",
        RELAY,
        "  tree->note_join(turn.now, rank, in.from, next, *join);\n",
        "  const bool renewed = tree->membership().knows(rank);\n"
        "  tree->note_join(turn.now, rank, in.from, next, *join);\n"
        "  if (renewed) return;\n",
    ),
    Rule(
        "a switch takes jobs for which the system has no memory",
        RELAY,
        "  return system_gives(needed) ? Refusal{} : memory_refusal(0, needed);\n",
        "  return {};\n",
    ),
    Rule(
        "a repeated LEAVE stays at a switch",
        RELAY,
        "  tree->leave(rank);\n",
        "  if (tree->left().contains(rank)) return;\n  tree->leave(rank);\n",
    ),
    Rule(
        "a JOIN keeps a K that a switch has no room for",
        RELAY,
        "  join->max_value_count = std::min(join->max_value_count, turn.config.max_value_count);\n",
        "",
    ),
    Rule(
        "a JOIN does not record the switches on its path",
        RELAY,
        "names(join.recorded, join.remaining.front()) && join.recorded.push_back(own);",
        "names(join.recorded, join.remaining.front());",
    ),
    Rule(
        "a route may come back to a switch",
        RELAY,
        "  if (names(join.remaining, own) || names(join.recorded, own)) return false;\n",
        "",
    ),
    Rule(
        "a switch believes a LEAVE with another nonce",
        RELAY,
        "if (tree->membership().member(rank).nonce != leave->nonce) {",
        "if (false) {",
    ),
    Rule(
        "a switch is an open relay",
        RELAY,
        "  if (!turn.config.upstream.allows(next)) return {RefusalReason::kUpstream};\n",
        "",
    ),
    Rule(
        "a switch that drains takes new jobs",
        RELAY,
        "if (turn.state.draining && !turn.state.trees.knows(in.packet.job())) {",
        "if (false) {",
    ),
    Rule(
        "a switch that drains refuses the jobs that it knows",
        RELAY,
        "if (turn.state.draining && !turn.state.trees.knows(in.packet.job())) {",
        "if (turn.state.draining) {",
    ),
    Rule(
        "a switch has no memory limit for trees",
        RELAY,
        "  if (needed > left) return memory_refusal(left, needed);\n",
        "",
    ),
    Rule(
        "a switch answers a question that is for a node above",
        ANSWERS,
        "  } else if (StatusMessage::is_for_a_node_above(in.packet)) {",
        "  } else if (false) {",
    ),
    Rule(
        "a switch passes on a stranger's question",
        ANSWERS,
        "return is_theirs ? tree : nullptr;",
        "return tree;",
    ),
    Rule(
        "a switch paces its answers to members",
        ANSWERS,
        "    send_now(turn, in.from, head, in.packet.ranks, *here);\n  }\n  return true;",
        "    send(turn, in.from, in.packet.bytes.size(), head, in.packet.ranks, *here);\n"
        "  }\n  return true;",
    ),
    Rule(
        "a switch forgets that its parent has answered",
        DOWNWARD,
        "  tree->note_parent();\n",
        "",
    ),
]
