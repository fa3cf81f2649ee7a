"""Rules about how a worker joins, detaches and leaves (docs/inside/protocol §2 and §5)."""

from tools.mutants.mutant import Rule

RECEIVE = "atp/core/worker/worker_receive.cc"
WORKER = "atp/core/worker/worker.cc"
ATTACHMENT = "atp/core/worker/attachment.h"
MEMBERSHIP = "atp/core/worker/worker_membership.cc"
STATUS = "atp/core/worker/worker_membership_status.cc"
MEMBERSHIP_TREE = "atp/core/worker/worker_membership_tree.cc"
QUESTIONS = "atp/core/worker/route_questions.h"

RULES = [
    Rule(
        "a worker accepts the JOIN_ACK of another process",
        MEMBERSHIP,
        "if (ack->nonce != config.nonce) {",
        "if (false) {",
    ),
    Rule(
        "a worker does not notice a server restart",
        MEMBERSHIP,
        "if (joined() && ack->server_boot_id != agreed_.server_boot_id) {",
        "if (false) {",
    ),
    Rule(
        "an answer to an older JOIN attaches",
        MEMBERSHIP,
        "ack->detachments == attachment_.detachments() && ack->detached == !attached();",
        "ack->detached == !attached();",
    ),
    Rule(
        "a worker does not notice that the server is gone",
        MEMBERSHIP,
        "if (state_ == State::kJoined && turn.now >= server_heard_ + lease(config)) {",
        "if (false) {",
    ),
    Rule(
        "a long lease keeps the server's silence secret",
        MEMBERSHIP,
        "return server_heard_ + config.timing.join_refresh * 7 / 4;",
        "return server_heard_ + lease(config) / 2;",
    ),
    Rule(
        "a rank that contradicts others goes before the server can know",
        STATUS,
        "is_by_tree && is_joining && is_contradiction(failure)",
        "false",
    ),
    Rule(
        "a rank that has learned the server's proof does not use it before it goes",
        STATUS,
        "    send_join(turn, Path::kStraight);\n    return MembershipChange::failed(refusal);",
        "    return MembershipChange::failed(refusal);",
    ),
    Rule(
        "a rank that was refused waits for the server's proof without end",
        STATUS,
        "refused_ = {refusal, turn.now + turn.config.timing.join_refresh};",
        "refused_ = {refusal, kNever};",
    ),
    Rule(
        "a worker shows the proof of one path on the other",
        STATUS,
        "    proofs_[static_cast<std::size_t>(path)] = status.proof();\n",
        "    proofs_.fill(status.proof());\n",
    ),
    Rule(
        "without a switch each path has a proof of its own",
        STATUS,
        "    proofs_.fill(status.proof());\n",
        "    proofs_[static_cast<std::size_t>(path)] = status.proof();\n",
    ),
    Rule(
        "a worker that is asked for a proof waits for its next JOIN",
        STATUS,
        "  (path == Path::kTree ? tree_join_ : straight_join_).prompt(turn.now, "
        "turn.config.timing);\n",
        "",
    ),
    Rule(
        "a worker shows a proof that was meant for another socket",
        STATUS,
        "  if (!is_meant(turn, status)) return {};\n  turn.count(WorkerCounter::kProveReceived);\n",
        "  turn.count(WorkerCounter::kProveReceived);\n",
    ),
    Rule(
        "who asks for a proof gets a JOIN each time",
        ATTACHMENT,
        "next_ == kNever || prompted_ >= kMostPrompts",
        "next_ == kNever",
    ),
    Rule(
        "a worker whose JOIN was answered still obeys a question for a proof",
        ATTACHMENT,
        "    if (answered_ || next_ == kNever || prompted_",
        "    if (next_ == kNever || prompted_",
    ),
    Rule(
        "a copy of a question for a proof counts on the straight path",
        STATUS,
        "      if (path == Path::kStraight && has_switch(turn.config) && !is_answer) return "
        "ignored(turn);\n      return on_prove(",
        "      return on_prove(",
    ),
    Rule("leaving never gives up", MEMBERSHIP, "if (turn.now >= left_by_) {", "if (false) {"),
    Rule(
        "a LEAVE is sent only once",
        MEMBERSHIP,
        "  leave_.sent(turn.now, config.timing, config.seed);\n",
        "  leave_.stop();\n",
    ),
    Rule(
        "*unknown job* applies to every receiver",
        STATUS,
        "if (status.about.contains(turn.config.rank) && joined()) on_unknown_job(turn);",
        "if (joined()) on_unknown_job(turn);",
    ),
    Rule("nothing is repeated after *unknown job*", STATUS, "  repeat_after_join_ = true;\n", ""),
    Rule(
        "a JOIN that renews a lease is not repeated before the next is due",
        ATTACHMENT,
        "timing.join_refresh);\n    interval_ = timing.join_first;\n",
        "timing.join_refresh);\n",
    ),
    Rule(
        "ranks repeat their JOINs in step",
        ATTACHMENT,
        "if (interval_ == timing.join_last) next_ += jitter(seed);",
        "if (false) next_ += jitter(seed);",
    ),
    Rule(
        "a worker does not suspect its tree",
        "atp/core/worker/worker_send.cc",
        "    membership_.on_resend(turn);\n",
        "",
    ),
    Rule(
        "a worker whose values go as floats does not suspect its tree",
        "atp/core/worker/worker_send.cc",
        "was_repeated && !fragment.exact",
        "was_repeated && (how.flags & ATP_FLAG_RESEND) != 0 && !fragment.exact",
    ),
    Rule(
        "the tree has no longer than half of the time to answer",
        MEMBERSHIP_TREE,
        "convicted_ = turn.now + 4 * first;",
        "convicted_ = turn.now + 2 * first;",
    ),
    Rule(
        "a silent switch is named before this host may have found it again",
        MEMBERSHIP_TREE,
        "is_silent ? std::max(straight_returned_, tree_heard_) : straight_returned_",
        "straight_returned_",
    ),
    Rule(
        "an ICMP error adds nothing to a suspicion",
        MEMBERSHIP_TREE,
        "    if (parent_unreachable_ < suspected_) suspected_ = convicted_ = kNever;\n",
        "",
    ),
    Rule(
        "a worker returns to its tree at once each time",
        ATTACHMENT,
        "return_not_before_ = now + return_wait_;",
        "return_not_before_ = now;",
    ),
    Rule(
        "a node to which a JOIN was taken ends the joining",
        "atp/core/worker/worker_membership_status.cc",
        "if (said.arrived_at != said.meant_for && said.meant_for != by) return ignored(turn);",
        "",
    ),
    Rule(
        "a switch is named although this host's link has just returned",
        MEMBERSHIP_TREE,
        "questions_.begin(std::max(turn.now, tree_asked_from(turn.config.timing)),",
        "questions_.begin(turn.now,",
    ),
    Rule(
        "a worker's waits before it returns do not grow",
        ATTACHMENT,
        ": std::min(2 * return_wait_, timing.return_max);",
        ": timing.return_first;",
    ),
    Rule(
        "a worker never returns to its tree",
        ATTACHMENT,
        "return detached_ && now >= return_not_before_;",
        "return false;",
    ),
    Rule(
        "a worker believes what is said about another socket's streams",
        RECEIVE,
        "status->code != StatusCode::kVersions && number >= config_.stream_count",
        "status->code == StatusCode::kVersions && number >= config_.stream_count",
    ),
    Rule(
        "a mismatch that is still to come does not end the wait for ranks that are gone",
        "atp/core/worker/worker_receive.cc",
        "if (status.reason == StatusMessage::kSomeAreGone && has_pending()) {",
        "if (false) {",
    ),
    Rule(
        "a lost rank hides the mismatch that it failed with",
        WORKER,
        "failure.code == FailureCode::kRankLeft || failure.code == FailureCode::kRankLost ||",
        "failure.code == FailureCode::kRankLeft ||",
    ),
    Rule(
        "a worker does not suspect a tree whose JOINs are unanswered",
        ATTACHMENT,
        "kUnansweredJoinsToDetach = 3;",
        "kUnansweredJoinsToDetach = 1000;",
    ),
    Rule(
        "a worker asks only its parent",
        MEMBERSHIP,
        "hop < config.route.size(); ++hop) {",
        "hop < 1; ++hop) {",
    ),
    Rule(
        "a worker names its own switch, whoever answers",
        QUESTIONS,
        "if (hop < heard_.size()) heard_[hop] = now;",
        "",
    ),
    Rule(
        "a worker asks once",
        QUESTIONS,
        "kRounds = 4;",
        "kRounds = 1;",
    ),
    Rule(
        "a worker takes a draining server for a silent switch",
        MEMBERSHIP_TREE,
        "if (attached() || !in_job() || refused_) return;",
        "if (attached() || !in_job()) return;",
    ),
]
