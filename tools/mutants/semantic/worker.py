"""Rules about a worker (docs/protocol.md §2 and §5)."""

from tools.mutants.mutant import Rule

RECOVERY = "atp/core/worker/loss_recovery"
RECEIVE = "atp/core/worker/worker_receive.cc"
WINDOW = "atp/core/worker/send_window.h"
SEND = "atp/core/worker/worker_send.cc"
WORKER = "atp/core/worker/worker.cc"
WORKER_H = "atp/core/worker/worker.h"
CONGESTION = "atp/core/worker/congestion_window.cc"
ROOM = "atp/core/worker/aggregator_room.cc"
ATTACHMENT = "atp/core/worker/attachment.h"
MEMBERSHIP = "atp/core/worker/worker_membership.cc"
STATUS = "atp/core/worker/worker_membership_status.cc"
MEMBERSHIP_TREE = "atp/core/worker/worker_membership_tree.cc"
QUESTIONS = "atp/core/worker/route_questions.h"

SENDING = [
    Rule(
        "a worker describes its operation to a server that knows it",
        RECEIVE,
        "if (stream == nullptr || packet.has(ATP_FLAG_DIRECT) || !status.cause.empty()) return;",
        "if (stream == nullptr || packet.has(ATP_FLAG_DIRECT)) return;",
    ),
    Rule(
        "a worker repeats what a NACK may have crossed on its way",
        RECEIVE,
        "stream->recovery.may_be_under_way(turn.now, stream->window.at(sequence), clock_)",
        "false",
    ),
    Rule(
        "a worker repeats a fragment in its plain form for ever",
        RECOVERY + ".cc",
        "repeat.rung = std::max(least, climbs ? next_rung(fragment.rung) : fragment.rung);",
        "repeat.rung = std::max(least, Rung::kPlain);",
    ),
    Rule(
        "no repeat is DIRECT",
        WINDOW,
        "return rung == Rung::kDirect ? rung :",
        "return rung >= Rung::kResend ? rung :",
    ),
    Rule(
        "a repeat as floats may be merged",
        RECOVERY + ".cc",
        "repeat.rung == Rung::kDirect || fragment.float_mode || !attached;",
        "repeat.rung == Rung::kDirect || !attached;",
    ),
    Rule(
        "a worker sends s + Wmax before it has the PARAMETER of s",
        WINDOW,
        "next_ < end_ && next_ - base_ < ring_.size();",
        "next_ < end_ && next_ - base_ <= ring_.size();",
    ),
    Rule(
        "a special block is sent like any other",
        "atp/core/worker/fragment_values.cc",
        "if (codec_of(operation, world_size_, tensors).holds_special(begin, end)) {",
        "if (begin > end && codec_of(operation, world_size_, tensors).holds_special(begin, end)) {",
    ),
    Rule(
        "the first exponents release all values",
        SEND,
        "if (needed >= express().window.base()) return false;",
        "(void)needed;  if (operation.first_exponents >= express().window.base()) return false;",
    ),
    Rule(
        "fragments that the server requested wait in switches",
        RECEIVE,
        "  note_asked(packet);\n",
        "",
    ),
    Rule(
        "a detached worker's contributions may be merged",
        SEND,
        "  if (!attached()) flags = ATP_FLAG_DIRECT;\n",
        "",
    ),
    Rule(
        "values that may overflow go to the switches",
        SEND,
        "  if (keeps_from_switches(quantized)) h.flags |= ATP_FLAG_DIRECT;\n",
        "",
    ),
    Rule(
        "a worker does not report an overflow",
        SEND,
        "  if (quantized.overflow) h.flags |= ATP_FLAG_OVERFLOW;\n",
        "",
    ),
    Rule(
        "a worker does not switch to floats",
        RECEIVE,
        "    stream->window.at(sequence).float_mode = true;\n",
        "",
    ),
    Rule(
        "a worker stays at the index of a collision",
        RECEIVE,
        "  stream.indices.set_next(sequence, packet.header.next_index);\n",
        "",
    ),
]

LOSSES = [
    Rule(
        "later answers show no loss",
        WINDOW,
        "if (answered_beyond_ < kLaterAnswers) return std::nullopt;",
        "return std::nullopt;",
    ),
    Rule(
        "a window of 32 bits",
        WINDOW,
        "return next_++;",
        "const std::uint64_t sent = next_;\n"
        "    next_ = static_cast<std::uint32_t>(next_ + 1);\n"
        "    return sent;",
    ),
    Rule(
        "waiting for a peer's repeat counts fully towards the time-out",
        "atp/core/worker/retransmission_timeout.cc",
        "  rtt = std::min(rtt, 2 * smoothed_ + timing.reorder_min);\n",
        "",
    ),
    Rule("one later answer shows a loss", WINDOW, "kLaterAnswers = 3;", "kLaterAnswers = 1;"),
    Rule("the time-out does not back off", RECOVERY + ".cc", "  ++firings_;\n", ""),
    Rule(
        "an early time-out repeats the whole window",
        RECOVERY + ".h",
        "if (!was_repeated && extent_ == Extent::kUntilUnrepeatedAnswer) {",
        "if (false) {",
    ),
    Rule(
        "a repeated fragment gives a round-trip time",
        RECEIVE,
        "if (fragment.rung == Rung::kNone && operation.first_answer <= fragment.first_sent) {",
        "if (operation.first_answer <= fragment.first_sent) {",
    ),
    Rule(
        "nothing is repeated on a new path",
        WORKER,
        "    for (Stream& stream : streams_) stream.recovery.repeat_all(stream.window);\n",
        "",
    ),
    Rule(
        "an operation has no deadline",
        WORKER,
        "} else if (now < stream.deadline()) {",
        "} else {",
    ),
    Rule(
        "an operation that makes progress may take any time",
        WORKER,
        "if (now >= stream.ends_by) {",
        "if (false) {",
    ),
    Rule(
        "the congestion window is ignored",
        SEND,
        "return stream.window.idle() ||",
        "return true ||",
    ),
    Rule(
        "the congestion window is never cut",
        CONGESTION,
        "  bytes_ = std::max(bytes, 2 * packet_bytes_);\n",
        "",
    ),
    Rule(
        "a window is cut once per loss",
        CONGESTION,
        "next_cut_ = answered_ + bytes_;",
        "next_cut_ = answered_;",
    ),
    Rule(
        "a loss leaves the window as it is",
        "atp/core/worker/congestion_window.h",
        "return cut(std::max(bytes_ / 2, std::min(bytes_, capacity)));",
        "return cut(bytes_);",
    ),
    Rule(
        "every loss halves the window",
        "atp/core/worker/congestion_window.h",
        "return cut(std::max(bytes_ / 2, std::min(bytes_, capacity)));",
        "return cut(bytes_ / 2);",
    ),
    Rule("slow start never ends", CONGESTION, "  threshold_ = bytes_;\n", ""),
    Rule("ECN is ignored", CONGESTION, "if (ecn) return cut(", "if (ecn && false) return cut("),
]

# The paper's own rules, for comparison.
PAPER = [
    Rule(
        "by the paper's rules switches may add a first repeat",
        SEND,
        "  if (!config_.plain_repeats) least = std::max(least, Rung::kResend);\n",
        "",
    ),
    Rule(
        "by the paper's rules repeats climb past all switches",
        SEND,
        "climbs = config_.plain_repeats && cause != Cause::kProbe;",
        "climbs = cause != Cause::kProbe;",
    ),
    Rule(
        "by the paper's rules the first time-out blames the tree",
        SEND,
        "was_repeated && !fragment.exact",
        "(was_repeated || how.rung >= Rung::kResend) && !fragment.exact",
    ),
    Rule(
        "by the paper's rules a fragment that others overtook may merely be late",
        RECEIVE,
        "  if (!config_.tolerance) {\n",
        "  if (false) {\n",
    ),
    Rule(
        "by the paper's rules the oldest may have been answered meanwhile",
        RECOVERY + ".h",
        "others_ = window.base() == oldest_ ? others_ + 1 : 0;",
        "others_ = others_ + 1;",
    ),
    Rule(
        "by the paper's rules there are probes",
        SEND,
        "if (config_.tolerance) clock_.saw_loss(now);",
        "clock_.saw_loss(now);",
    ),
    Rule(
        "by the paper's rules a mark takes a fifth",
        CONGESTION,
        "policy_ == CongestionPolicy::kHalve ? bytes_ / 2 : bytes_ * 4 / 5",
        "bytes_ * 4 / 5",
    ),
    Rule(
        "by the paper's rules a loss leaves what the path holds",
        "atp/core/worker/congestion_window.h",
        "    if (policy_ == CongestionPolicy::kHalve) return cut(bytes_ / 2);\n",
        "",
    ),
]

SCARCITY = [
    Rule(
        "collisions leave the room as it is", ROOM, "if (most_ == 0) return false;", "return false;"
    ),
    Rule(
        "the room is a bound that nothing obeys",
        WORKER_H,
        "in_flight() < room_.fragments();",
        "true;",
    ),
    Rule(
        "the room may fill up with one stream",
        WORKER_H,
        "return !room_.bounded() || stream.window.idle() ||",
        "return !room_.bounded() ||",
    ),
    Rule(
        "answers to what was sent before a cut cut the room again",
        ROOM,
        "    ignored_ = in_flight;\n",
        "",
    ),
    Rule(
        "a train of answers narrows the room",
        ROOM,
        "std::max(in_flight + answered_since_send_, kLeast);",
        "std::max(in_flight + 1, kLeast);",
    ),
    Rule(
        "the room never grows",
        ROOM,
        "} else if (++clean_rounds_ >= (said_ == 0 ? kCleanRoundsWithoutPart : kCleanRounds)) {",
        "} else if (false) {",
    ),
    Rule(
        "the room grows although rounds between had collisions",
        ROOM,
        "    ignored_ = in_flight;\n    clean_rounds_ = 0;\n",
        "    ignored_ = in_flight;\n",
    ),
    Rule(
        "the room keeps its bound",
        ROOM,
        "  if (fragments_ >= most_) fragments_ = kNoBound;\n",
        "",
    ),
    Rule(
        "a room that is bounded again counts what it counted before",
        ROOM,
        "  ignored_ = answered_ = collided_ = clean_rounds_ = 0;\n",
        "",
    ),
    Rule(
        "the room grows as slowly where nobody says a part",
        ROOM,
        "(said_ == 0 ? kCleanRoundsWithoutPart : kCleanRounds)",
        "kCleanRounds",
    ),
    Rule(
        "the room may be much less than the part",
        ROOM,
        "set(std::max(after, floor));",
        "set(after);",
    ),
    Rule(
        "the room may be less than two",
        ROOM,
        "fragments_ = std::max(fragments, kLeast);",
        "fragments_ = fragments;",
    ),
    Rule(
        "a worker keeps room for the whole part at each of several servers",
        ROOM,
        " * 5 / (8 * servers_);",
        " * 5 / 8;",
    ),
    Rule(
        "a worker's room knows nothing of other servers",
        WORKER,
        "room_ = AggregatorRoom(std::uint64_t{agreed().wmax} * config_.stream_count, "
        "config_.servers);",
        "room_ = AggregatorRoom(std::uint64_t{agreed().wmax} * config_.stream_count);",
    ),
    Rule(
        "the room stays as it is when the part changes",
        ROOM,
        "  if (before != 0 && bounded()) set((fragments_ * part + before / 2) / before);\n",
        "",
    ),
    Rule(
        "a PARAMETER without a part says that the part is none",
        "atp/core/worker/aggregator_room.h",
        "if (said != said_ && said != 0)",
        "if (said != said_)",
    ),
    Rule(
        "a whole window goes out before the first answer",
        "atp/core/worker/aggregator_room.h",
        "if (most > kFirst) fragments_ = kFirst;",
        "",
    ),
    Rule(
        "a first answer without a part leaves the room as it was",
        "atp/core/worker/aggregator_room.h",
        "if (bounded() && is_first_) lift();",
        "",
    ),
    Rule(
        "the first part may make the room smaller",
        ROOM,
        "return set(std::max(fragments_, part / servers_));",
        "return set(part / servers_);",
    ),
    Rule(
        "each server has the whole first part",
        ROOM,
        "return set(std::max(fragments_, part / servers_));",
        "return set(std::max(fragments_, part));",
    ),
]

RECEIVING = [
    Rule(
        "a worker accepts a PARAMETER of another operation",
        RECEIVE,
        "    counters_.add(WorkerCounter::kDropWrongOperation);\n    return nullptr;\n",
        "    counters_.add(WorkerCounter::kDropWrongOperation);\n",
    ),
    Rule(
        "a worker accepts packets for others",
        RECEIVE,
        "  if (!packet.ranks.contains(config_.rank)) "
        "return turn.count(WorkerCounter::kDropNotAddressed);\n",
        "",
    ),
    Rule(
        "a worker believes anybody",
        RECEIVE,
        "  if (from != parent() && from != server()) "
        "return turn.count(WorkerCounter::kDropWrongSource);\n",
        "",
    ),
    Rule(
        "a worker accepts packets of another incarnation",
        RECEIVE,
        "  if (packet.job() != config_.job) return turn.count(WorkerCounter::kDropWrongJob);\n",
        "",
    ),
    Rule(
        "an average is not divided",
        "atp/core/worker/fragment_values.cc",
        "const float divisor = divisor_of(operation.spec);",
        "const float divisor = 1;",
    ),
]

JOINING = [
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
        "  if (!is_meant(turn, status)) return;\n  turn.count(WorkerCounter::kProveReceived);\n",
        "  turn.count(WorkerCounter::kProveReceived);\n",
    ),
    Rule(
        "who asks for a proof gets a JOIN each time",
        ATTACHMENT,
        "next_ == kNever || prompted_ > kMostPrompts",
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
        "ignored(turn);\n      on_prove(",
        "      on_prove(",
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
        "if (attached() || !in_job() || no_room_) return;",
        "if (attached() || !in_job()) return;",
    ),
]

RULES = SENDING + LOSSES + PAPER + SCARCITY + RECEIVING + JOINING
