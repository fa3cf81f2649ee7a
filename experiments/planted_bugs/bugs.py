"""Bugs to plant in the core: each is a rule of docs/protocol.md left out in one place."""

import dataclasses

PACKET = "atp/wire/packet.h"
PIPELINE = "atp/core/dataplane/pipeline.h"
AGGREGATOR = "atp/core/dataplane/aggregator.h"
AGGREGATION = "atp/core/server/aggregation.cc"
JUDGE = "atp/core/server/contribution.cc"
RING = "atp/core/server/fragment_ring.h"
RECOVERY = "atp/core/worker/loss_recovery.cc"
RECEIVE = "atp/core/worker/worker_receive.cc"
WINDOW = "atp/core/worker/send_window.h"
SEND = "atp/core/worker/worker_send.cc"
VALUES = "atp/core/worker/fragment_values.cc"
LAYOUT = "atp/core/worker/block_layout.cc"
FORMAT = "atp/wire/number_format.h"
LANES = "atp/wire/lanes.cc"


@dataclasses.dataclass(frozen=True)
class Bug:
    """`found` stands once in `file`; `planted` takes its place.

    `harmless` says why no seed can find it: another rule does the same work.
    """

    name: str
    file: str
    found: str
    planted: str
    harmless: str = ""


BUGS = [
    Bug(
        "a switch adds without an overlap test",
        PIPELINE,
        "if (atp_bitmap_disjoint(a->bitmap, p->bitmap, a->bitmap_words)) {",
        "if (1) {",
    ),
    Bug(
        "a switch takes fragments of one stream for the same",
        AGGREGATOR,
        "atp_same_stream(i, h) && i->sequence == h->sequence && i->operation == h->operation;",
        "atp_same_stream(i, h);",
    ),
    Bug(
        "a switch loses OVERFLOW when it adds",
        AGGREGATOR,
        "a->flags = (atp_u8)(a->flags | (p->header.flags & ATP_FLAGS_STICKY));",
        "a->flags = (atp_u8)(a->flags | (p->header.flags & ATP_FLAG_COLLISION));",
    ),
    Bug(
        "magnitudes wrap instead of saturating",
        PACKET,
        "return sum < a ? 0xffffffffU : sum;",
        "return sum & 0x7fffffffU;",
    ),
    Bug(
        "the server adds without an overlap test",
        JUDGE,
        "if (!fragment.bitmap.intersects(packet.ranks)) return Contribution::kAdd;",
        "if (!fragment.bitmap.contains(packet.ranks)) return Contribution::kAdd;",
    ),
    Bug(
        "the server adds a larger sum to the one it holds",
        JUDGE,
        "if (packet.ranks.contains(fragment.bitmap)) return Contribution::kReplace;",
        "if (packet.ranks.contains(fragment.bitmap)) return Contribution::kAdd;",
    ),
    Bug(
        "the server loses OVERFLOW",
        AGGREGATION,
        "    fragment.flags |= overflow;\n",
        "",
    ),
    Bug(
        "the ranks of the integers count in float mode",
        AGGREGATION,
        "  fragment.bitmap.clear();\n",
        "",
    ),
    Bug(
        "integers count in float mode",
        JUDGE,
        "if (!packet.is_float) return Contribution::kIntegerTooLate;",
        "",
    ),
    Bug(
        "integers go unanswered in float mode",
        AGGREGATION,
        "ask_again(down, stream, fragment, ATP_FLAG_FLOAT, in.packet.ranks - fragment.bitmap,\n"
        "                straight);",
        "",
        harmless="the server asks for floats by its own timer as well",
    ),
    Bug(
        "repeats of a complete fragment go unanswered",
        AGGREGATION,
        "repeat_parameter(down, stream, fragment, in.packet.ranks, source);",
        "",
    ),
    Bug(
        "the next index is not frozen at completion",
        AGGREGATION,
        "  turn.count(ServerCounter::kParametersRepeated);\n",
        "  fragment.next_index = atp_fmix32(fragment.next_index + 1);\n",
        harmless="workers that disagree meet at the server, later",
    ),
    Bug(
        "the server's ring is half as long",
        RING,
        "return completed_end_ < wmax_ ? 0 : completed_end_ - wmax_;",
        "return completed_end_ < wmax_ / 2 ? 0 : completed_end_ - wmax_ / 2;",
    ),
    Bug(
        "a worker repeats plainly for ever",
        RECOVERY,
        "repeat.rung = std::max(least, climbs ? next_rung(fragment.rung) : fragment.rung);",
        "repeat.rung = std::max(least, Rung::kPlain);",
    ),
    Bug(
        "a worker sends s + Wmax before it has the PARAMETER of s",
        WINDOW,
        "next_ < end_ && next_ - base_ < ring_.size();",
        "next_ < end_ && next_ - base_ <= ring_.size();",
    ),
    Bug(
        "a worker takes any PARAMETER of a sequence that it awaits",
        RECEIVE,
        "    counters_.add(WorkerCounter::kDropWrongOperation);\n    return nullptr;\n",
        "    counters_.add(WorkerCounter::kDropWrongOperation);\n",
        harmless="the server sends none but of its operation",
    ),
    Bug(
        "the sum of a block has one bit too few",
        FORMAT,
        "return static_cast<int>(std::bit_width(world_size - 1));",
        "return static_cast<int>(std::bit_width(world_size - 1)) - 1;",
    ),
    Bug(
        "a block is shifted by one value",
        LAYOUT,
        "const std::size_t number = (value - begin) / kBlockValues;",
        "const std::size_t number = (value - begin + 1) / kBlockValues;",
    ),
    Bug(
        "a maximum is taken as a minimum",
        LANES,
        "return static_cast<Signed>(a) > static_cast<Signed>(b) ? a : b;",
        "return static_cast<Signed>(a) < static_cast<Signed>(b) ? a : b;",
    ),
    Bug(
        "a special block is sent like any other",
        VALUES,
        "if (codec_of(operation, world_size_, tensors).holds_special(begin, end)) {",
        "if (begin > end && codec_of(operation, world_size_, tensors).holds_special(begin, end)) {",
    ),
    Bug(
        "the first exponents release all values",
        SEND,
        "if (needed >= express().window.base()) return false;",
        "(void)needed;  if (operation.first_exponents >= express().window.base()) return false;",
    ),
]
