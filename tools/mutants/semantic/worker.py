"""Rules about a worker (docs/inside/protocol §2 and §5)."""

from tools.mutants.mutant import Rule

RECOVERY = "atp/core/worker/loss_recovery"
RECEIVE = "atp/core/worker/worker_receive.cc"
WINDOW = "atp/core/worker/send_window.h"
SEND = "atp/core/worker/worker_send.cc"
WORKER = "atp/core/worker/worker.cc"
WORKER_H = "atp/core/worker/worker.h"
CONGESTION = "atp/core/worker/congestion_window.cc"
ROOM = "atp/core/worker/aggregator_room.cc"

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
        "policy_ == CongestionPolicy::kPaper ? bytes_ / 2 : bytes_ * 4 / 5",
        "bytes_ * 4 / 5",
    ),
    Rule(
        "by the paper's rules a loss leaves what the path holds",
        "atp/core/worker/congestion_window.h",
        "    if (policy_ == CongestionPolicy::kPaper) return cut(bytes_ / 2);\n",
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

RULES = SENDING + LOSSES + PAPER + SCARCITY + RECEIVING
