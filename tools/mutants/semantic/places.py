"""Rules about a fragment's places at a switch and a job's part of them (docs/protocol.md §4)."""

from tools.mutants.mutant import Rule

PIPELINE = "atp/core/dataplane/pipeline.h"
AGGREGATOR = "atp/core/dataplane/aggregator.h"
STATE = "atp/core/dataplane/switch_state.h"
TABLE = "atp/core/dataplane/aggregator_table.cc"
SHARES = "atp/core/dataplane/shares.h"
SWEEP = "atp/core/dataplane/sweep.cc"

PLACES = [
    Rule(
        "a fragment has no place but its home",
        STATE,
        "return aggregators.find(share, config.places, header);",
        "return aggregators.find(share, 1, header);",
    ),
    Rule(
        "a fragment is not found beyond its home",
        TABLE,
        "if (atp_has_fragment(&aggregators_[slot], &header)) return {slot, home, true};",
        "",
    ),
    Rule(
        "a fragment is not looked for behind an EMPTY place",
        TABLE,
        "for (std::uint32_t others = held & ~1U; others != 0;",
        "for (std::uint32_t others = held & ~1U & ((1U << std::countr_one(held)) - 1); "
        "others != 0;",
    ),
    Rule(
        "the last EMPTY place is taken instead of the first",
        TABLE,
        "return {slot_of(static_cast<unsigned>(std::countr_one(held))), home, false};",
        "return {slot_of(static_cast<unsigned>(31 - std::countl_zero(all & ~held))), home, false};",
    ),
    Rule(
        "a fragment has places beyond the end of its region",
        TABLE,
        "return home + place - (place < before_end ? 0 : share.size);",
        "return (home + place) % size();",
    ),
    Rule(
        "places end with the region",
        TABLE,
        "const std::uint32_t count = std::min(places, share.size);",
        "const std::uint32_t count = std::min(places, before_end);",
    ),
    Rule(
        "what returns is noted where it was held",
        AGGREGATOR,
        "if (home) atp_note_returned(home, &a->identity);",
        "atp_note_returned(a, &a->identity);",
    ),
    Rule(
        "a partial sum leaves without a note that it returned",
        PIPELINE,
        "  atp_write_sum(a, p, ATP_FLAG_RESEND);\n  atp_release(a, home);",
        "  atp_write_sum(a, p, ATP_FLAG_RESEND);\n  atp_release(a, 0);",
    ),
    Rule(
        "what a PARAMETER reclaims is noted at the home of the PARAMETER",
        PIPELINE,
        "atp_release(a, holder_home);",
        "atp_release(a, home);",
    ),
    Rule(
        "what the sweep releases is not noted",
        SWEEP,
        "return atp_on_sweep(&aggregator, turn.state.home_of_held(slot), nanoseconds(turn.now), "
        "reclaim,",
        "return atp_on_sweep(&aggregator, nullptr, nanoseconds(turn.now), reclaim,",
    ),
    Rule(
        "what a job that is gone still held is noted in its old region",
        STATE,
        "if (share.size == 0 || !trees.shares().has_trees(a.share)) return nullptr;",
        "if (share.size == 0) return nullptr;",
    ),
    Rule(
        "a pass over the quota is noted at the place",
        PIPELINE,
        "if (s->held >= s->quota) return atp_pass_noted(home, p, ATP_PASS_OVER_QUOTA);",
        "if (s->held >= s->quota) return atp_pass_noted(a, p, ATP_PASS_OVER_QUOTA);",
    ),
]

PARTS = [
    Rule(
        "a job may hold more than its part while others contend",
        SHARES,
        "if (contested_ > 0) share.quota = std::min(share.quota, part_of(entry));",
        "",
    ),
    Rule(
        "a job may not hold more than its part, although nobody contends",
        SHARES,
        "if (contested_ > 0) share.quota",
        "if (has_parts()) share.quota",
    ),
    Rule(
        "aggregators stay contested for ever",
        SHARES,
        "    if (contested_ > 0) count_down();\n",
        "",
    ),
    Rule(
        "a job that holds its part contends for more",
        SHARES,
        "if (!has_parts() || entry.share.held >= part_of(entry)) return;",
        "if (!has_parts()) return;",
    ),
    Rule(
        "a job that finds no place and holds nothing does not count among those that share",
        SHARES,
        "contender_weight_ = entry.share.held == 0 ? entry.weight : 0;",
        "contender_weight_ = 0;",
    ),
    Rule(
        "a job's part does not depend on its weight",
        SHARES,
        "aggregators_ * std::uint64_t{entry.weight} / all",
        "aggregators_ / all",
    ),
    Rule(
        "a job's part may be none",
        SHARES,
        "std::max<std::uint64_t>(1, ",
        "std::max<std::uint64_t>(0, ",
    ),
    Rule(
        "a job that holds nothing any more counts for the parts",
        SHARES,
        "if (--entry.share.held == 0) active_weight_ -= entry.weight;",
        "--entry.share.held;",
    ),
    Rule(
        "--first-come keeps jobs to their parts",
        SHARES,
        "return !config_.first_come && config_.partitions == 0;",
        "return config_.partitions == 0;",
    ),
    Rule(
        "there are parts within a partition",
        SHARES,
        "return !config_.first_come && config_.partitions == 0;",
        "return !config_.first_come;",
    ),
]

RULES = PLACES + PARTS
