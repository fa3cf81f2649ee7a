"""A fragment's places at a switch and a job's part of them (docs/inside/protocol §4)."""

from tools.mutants.mutant import Rule

PIPELINE = "atp/core/dataplane/pipeline.h"
AGGREGATOR = "atp/core/dataplane/aggregator.h"
STATE = "atp/core/dataplane/switch_state.h"
TABLE = "atp/core/dataplane/aggregator_table.cc"
SHARES = "atp/core/dataplane/shares.h"
ACTIVE = "atp/core/dataplane/active_jobs.h"
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
        "    if (contested_ > 0) --contested_;\n",
        "",
    ),
    Rule(
        "a job that holds its part contends for more",
        SHARES,
        "if (has_parts() && entry.share.held < part_of(entry)) contested_ = aggregators_;",
        "if (has_parts()) contested_ = aggregators_;",
    ),
    Rule(
        "a job that only collides does not count for the parts",
        SHARES,
        "    active_.note(entry.active, entry.weight);\n    if (has_parts()",
        "    if (has_parts()",
    ),
    Rule(
        "a job's part does not depend on its weight",
        SHARES,
        "aggregators_ * std::uint64_t{entry.weight} / weight_with(entry)",
        "aggregators_ / weight_with(entry)",
    ),
    Rule(
        "a job's part may be none",
        SHARES,
        "std::max<std::uint64_t>(1, ",
        "std::max<std::uint64_t>(0, ",
    ),
    Rule(
        "a job that is not active has no part",
        SHARES,
        "(active_.active(entry.active) ? 0 : entry.weight)",
        "std::uint64_t{active_.weight() == 0}",
    ),
    Rule(
        "a job counts for ever for the parts",
        ACTIVE,
        "    before_ = now_;\n    now_ = 0;\n    ++period_;\n",
        "",
    ),
    Rule(
        "a job counts for the parts only in the period in which it claims",
        ACTIVE,
        "    before_ = now_;",
        "    before_ = 0;",
    ),
    Rule(
        "a period is as long as the table is large, however small",
        ACTIVE,
        "claims_(std::max(aggregators, kPeriod))",
        "claims_(aggregators)",
    ),
    Rule(
        "a job whose trees are gone counts no more",
        "atp/core/dataplane/shares.cc",
        "return entry.in_use() || active_.active(entry.active);",
        "return entry.in_use();",
    ),
    Rule(
        "a job that is active keeps the weight that it had",
        "atp/core/dataplane/shares.cc",
        "  active_.reweigh(entry.active, entry.weight, weight);\n",
        "",
    ),
    Rule(
        "a job has its tenant's weight, although it has one of its own",
        "atp/core/dataplane/join_relay.cc",
        "quota_of(turn.config.quotas, in.packet.job())",
        "quota_of(turn.config.quotas, in.packet.header.tenant)",
    ),
    Rule(
        "a PARAMETER does not say the part",
        "atp/core/dataplane/downward.cc",
        "turn.state.trees.shares().part_to_say(tree.share())",
        "0",
    ),
    Rule(
        "a switch says its own part, although one further up has said less",
        "atp/core/outbox.cc",
        "if (part != 0 && (place[ATP_AT_PART] == 0 || part < place[ATP_AT_PART])) {",
        "if (part != 0) {",
    ),
    Rule(
        "a switch does not say its own part if one further up has said one",
        "atp/core/outbox.cc",
        "(place[ATP_AT_PART] == 0 || part < place[ATP_AT_PART])",
        "place[ATP_AT_PART] == 0",
    ),
    Rule(
        "a job's part stays what a PARAMETER said first",
        SHARES,
        "entry.said.all == all ?",
        "entry.said.all != 0 ?",
    ),
    Rule(
        "a job's part stays what it was, although its weight changes",
        "atp/core/dataplane/shares.cc",
        "  entry.said = {};\n",
        "",
    ),
    Rule(
        "a tenant's jobs keep the part that was said first",
        "atp/core/dataplane/shares.cc",
        "  if (entry.tenant == kNoTenant) entry.said",
        "  entry.said",
    ),
    Rule(
        "the part that is said may be more than the quota",
        "atp/core/dataplane/shares.cc",
        "const std::uint32_t part = std::min(part_of(entry), entry.share.quota);",
        "const std::uint32_t part = part_of(entry);",
    ),
    Rule(
        "each of a tenant's jobs may have all of its aggregators",
        "atp/core/dataplane/shares.cc",
        "tenant.quota / std::max(1u, tenant.jobs_with_trees)",
        "tenant.quota",
    ),
    Rule(
        "a tenant's jobs that are gone have a part of its aggregators",
        "atp/core/dataplane/shares.cc",
        "  if (--entry.trees == 0 && entry.tenant != kNoTenant) "
        "--tenants_[entry.tenant].jobs_with_trees;",
        "  --entry.trees;",
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
