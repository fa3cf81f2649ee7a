"""Rules about a switch (docs/inside/protocol §2 and §4)."""

from tools.mutants.mutant import Rule

PIPELINE = "atp/core/dataplane/pipeline.h"
AGGREGATOR = "atp/core/dataplane/aggregator.h"
UPWARD = "atp/core/dataplane/upward.cc"
DOWNWARD = "atp/core/dataplane/downward.cc"
STATE = "atp/core/dataplane/switch_state.h"
SWEEP = "atp/core/dataplane/sweep.cc"

AGGREGATION = [
    Rule(
        "a switch adds without an overlap test",
        PIPELINE,
        "if (atp_bitmap_disjoint(a->bitmap, p->bitmap, a->bitmap_words)) {",
        "if (1) {",
    ),
    Rule(
        "a switch confuses fragments of one stream",
        AGGREGATOR,
        "atp_same_stream(i, h) && i->sequence == h->sequence && i->operation == h->operation;",
        "atp_same_stream(i, h);",
    ),
    Rule(
        "a switch loses OVERFLOW when it adds",
        AGGREGATOR,
        "a->flags = (atp_u8)(a->flags | (p->header.flags & ATP_FLAGS_STICKY));",
        "a->flags = (atp_u8)(a->flags | (p->header.flags & ATP_FLAG_COLLISION));",
    ),
    Rule(
        "a switch adds fragments of another shape",
        PIPELINE,
        "if (a->bitmap_words != p->header.bitmap_words || a->value_count != p->header.value_count "
        "||\n      a->kind != p->header.kind) {",
        "if (0) {",
    ),
    Rule(
        "a fragment earlier than what has returned claims",
        AGGREGATOR,
        "(noted->sequence > h->sequence ||\n",
        "(\n",
    ),
    Rule(
        "a late fragment claims again",
        AGGREGATOR,
        "(noted->sequence == h->sequence && noted->operation == h->operation));",
        "0);",
    ),
    Rule(
        "RESEND claims an aggregator that is EMPTY",
        PIPELINE,
        "  if ((p->header.flags & ATP_FLAG_RESEND) != 0) return atp_pass(ATP_PASS_RESEND);\n",
        "",
    ),
    Rule(
        "a contribution claims although others of its fragment have passed",
        PIPELINE,
        "if (home->any_passed && atp_same_identity(&home->passed, &p->header))",
        "if (0)",
    ),
    Rule(
        "a collision is not noted",
        PIPELINE,
        "  atp_note_passed(home, &p->header);\n",
        "  if (reason != ATP_PASS_COLLISION) atp_note_passed(home, &p->header);\n",
    ),
    Rule("a quota is ignored", PIPELINE, "if (s->held >= s->quota) return", "if (0) return"),
    Rule(
        "a pass over the quota is not noted",
        PIPELINE,
        "  atp_note_passed(home, &p->header);\n",
        "  if (reason != ATP_PASS_OVER_QUOTA) atp_note_passed(home, &p->header);\n",
    ),
    Rule(
        "a pass over the quota leaves without COLLISION",
        PIPELINE,
        "if (s->held >= s->quota) return atp_pass_noted(home, p, ATP_PASS_OVER_QUOTA);",
        "if (s->held >= s->quota) {\n"
        "    atp_note_passed(home, &p->header);\n"
        "    return atp_pass(ATP_PASS_OVER_QUOTA);\n"
        "  }",
    ),
    Rule(
        "the sum of a tree's only rank stays at the switch",
        PIPELINE,
        "return atp_verdict_of(ATP_DATA_STORE, ATP_FORWARD_PARENT, ATP_COMPLETED);",
        "return atp_verdict_of(ATP_DATA_STORE, ATP_FORWARD_NOWHERE, ATP_CLAIMED);",
    ),
    Rule(
        "a RESEND of a duplicate is consumed",
        PIPELINE,
        "if (resend) return atp_emit_and_release(a, home, p, ATP_DATA_LOAD, ATP_SENT_PARTIAL);",
        "if (resend) return atp_drop(ATP_DUPLICATE);",
    ),
    Rule(
        "RESEND releases without emitting",
        PIPELINE,
        "if (resend) return atp_emit_and_release(a, home, p, ATP_DATA_COMBINE_LOAD, "
        "ATP_SENT_PARTIAL);",
        "if (resend) { atp_release(a, home); return atp_drop(ATP_ADDED); }",
    ),
    Rule(
        "a partial sum leaves without RESEND",
        PIPELINE,
        "atp_write_sum(a, p, ATP_FLAG_RESEND);",
        "atp_write_sum(a, p, 0);",
    ),
    Rule(
        "a sum's index is only as fine as the table that held it",
        "atp/core/dataplane/aggregator.h",
        "  h->aggregator_index = a->aggregator_index;\n",
        "  h->aggregator_index = a->aggregator_index & 0xff000000U;\n",
    ),
    Rule(
        "a sum may not be merged further up",
        PIPELINE,
        "    atp_write_sum(a, p, 0);\n    return atp_verdict_of(ATP_DATA_COMBINE_LOAD,",
        "    atp_write_sum(a, p, ATP_FLAG_DIRECT);\n"
        "    return atp_verdict_of(ATP_DATA_COMBINE_LOAD,",
    ),
    Rule(
        "a switch does not repeat a complete sum",
        PIPELINE,
        "return atp_verdict_of(ATP_DATA_LOAD, ATP_FORWARD_PARENT, ATP_REPEATED);",
        "return atp_drop(ATP_DUPLICATE);",
    ),
    Rule(
        "an overlapping sum may be merged further up",
        PIPELINE,
        "return atp_pass_direct(p, ATP_PASS_OVERLAP);",
        "return atp_pass(ATP_PASS_OVERLAP);",
    ),
    Rule(
        "a switch does not report a collision",
        PIPELINE,
        "  p->header.flags = (atp_u8)(p->header.flags | ATP_FLAG_COLLISION);\n  atp_note_passed",
        "  atp_note_passed",
    ),
    Rule(
        "an operation mismatch leaves without COLLISION",
        PIPELINE,
        "    p->header.flags = (atp_u8)(p->header.flags | ATP_FLAG_COLLISION);\n"
        "    return atp_pass(ATP_PASS_OPERATION_MISMATCH);",
        "    return atp_pass(ATP_PASS_OPERATION_MISMATCH);",
    ),
    Rule(
        "an operation mismatch is noticed only at the home",
        PIPELINE,
        "  if (has) {\n    if (a->identity.operation == p->header.operation) return",
        "  if (has && (a == home || a->identity.operation == p->header.operation)) {\n"
        "    if (a->identity.operation == p->header.operation) return",
    ),
]

ADMISSION = [
    Rule(
        "a child may contribute for ranks that are not behind it",
        PIPELINE,
        "if (!atp_bitmap_within(p->bitmap, child, h->bitmap_words)) {",
        "if (0) {",
    ),
    Rule(
        "a detached rank's contribution is merged",
        PIPELINE,
        "if (!atp_bitmap_disjoint(p->bitmap, t->detached, h->bitmap_words)) {",
        "if (0) {",
    ),
    Rule(
        "DIRECT is merged",
        PIPELINE,
        "if ((h->flags & (ATP_FLAG_DIRECT | ATP_FLAG_FLOAT)) != 0",
        "if ((h->flags & ATP_FLAG_FLOAT) != 0",
    ),
    Rule(
        "a sequence far ahead reaches an aggregator",
        PIPELINE,
        "if (sequence_limit != 0 && h->sequence > sequence_limit) {",
        "if (0) {",
    ),
    Rule(
        "a switch believes only one Wmax ahead",
        PIPELINE,
        "const atp_u64 limit = parameter + 2 * (atp_u64)wmax;",
        "const atp_u64 limit = parameter + (atp_u64)wmax;",
    ),
    Rule(
        "the agreed K is ignored at a switch",
        PIPELINE,
        "if (t->value_count != 0 && h->value_count > atp_most_values(h->kind, t->value_count)) {",
        "if (0) {",
    ),
    Rule(
        "Wmax is ignored at a switch",
        DOWNWARD,
        "  tree.note_parameter(header.stream, header.sequence);\n",
        "",
    ),
    Rule(
        "a packet without hops left is forwarded",
        "atp/core/dataplane/switch_node.cc",
        "  if (in.packet.header.hops == 0) return turn.count(SwitchCounter::kDropTooManyHops);\n",
        "",
    ),
    Rule("hops of sums are not counted", UPWARD, "  --bytes[ATP_AT_HOPS];\n", ""),
    Rule(
        "hops of passed packets are not counted",
        "atp/core/outbox.cc",
        "  --place[ATP_AT_HOPS];\n",
        "",
    ),
    Rule(
        "a sum forgets the contribution with the fewest hops left",
        AGGREGATOR,
        "  if (p->header.hops < a->hops) a->hops = p->header.hops;\n",
        "",
    ),
]

RELEASE = [
    Rule(
        "a PARAMETER does not release",
        PIPELINE,
        "    atp_release(a, home);\n    reason = ATP_RELEASED;",
        "    reason = ATP_RELEASED;",
    ),
    Rule(
        "a PARAMETER of what is not held is not noted",
        PIPELINE,
        "reason = atp_note_returned(home, &i) ? ATP_MARKED : ATP_MARK_KEPT;",
        "reason = ATP_MARKED;",
    ),
    Rule(
        "the note of what returned has only 32 bits of a sequence",
        AGGREGATOR,
        "return a->sequence > b->sequence &&",
        "return (atp_u32)a->sequence > (atp_u32)b->sequence &&",
    ),
    Rule(
        "the note of what returned goes back",
        AGGREGATOR,
        "  if (home->any_returned && atp_is_later(&home->returned, i)) return 0;\n",
        "",
    ),
    Rule(
        "a PARAMETER releases any fragment",
        PIPELINE,
        "} else if (atp_parameter_reclaims(a, has, h, now, reclaim)) {",
        "} else if (a->state == ATP_AGGREGATING) {",
    ),
    Rule(
        "a PARAMETER releases other fragments of its stream",
        PIPELINE,
        "if (has && a->identity.operation == h->operation) {\n    atp_release",
        "if (a->state == ATP_AGGREGATING && atp_same_stream(&a->identity, h)) {\n    atp_release",
    ),
    Rule(
        "a FLUSH has no effect",
        PIPELINE,
        "if (!has || (operation != 0 && operation != a->identity.operation)) {",
        "if (1) {",
    ),
    Rule(
        "a FLUSH takes any fragment",
        PIPELINE,
        "if (!has || (operation != 0 && operation != a->identity.operation)) {",
        "if (a->state != ATP_AGGREGATING) {",
    ),
    Rule(
        "a FLUSH takes its fragment as any operation",
        PIPELINE,
        "if (!has || (operation != 0 && operation != a->identity.operation)) {",
        "if (!has) {",
    ),
    Rule(
        "the sweep releases nothing",
        PIPELINE,
        "if (!atp_expired(a, now, reclaim)) return atp_drop(ATP_KEPT);",
        "if (1) return atp_drop(ATP_KEPT);",
    ),
    Rule(
        "the sweep discards what it releases",
        SWEEP,
        "const bool emitted = emit_released(turn, sum, slot);",
        "const bool emitted = false;",
    ),
    Rule(
        "the sweep does not know what is held",
        STATE,
        "    if (was_held != is_held) aggregators.note_held(slot, is_held);\n",
        "",
    ),
    Rule("leases at a switch never end", SWEEP, "  if (cursor_ == 0) end_leases(turn);\n", ""),
]

RULES = AGGREGATION + ADMISSION + RELEASE
