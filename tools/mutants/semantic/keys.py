"""Rules about tenants (docs/protocol.md §2, *Keys*); tags are checked elsewhere, unmutated."""

from tools.mutants.mutant import Rule

TENANT = "atp/core/tenant.cc"
RELAY = "atp/core/dataplane/join_relay.cc"
SHARES = "atp/core/dataplane/shares.h"
PLACES = "atp/core/dataplane/shares.cc"
SERVER = "atp/core/server/server.cc"

RULES = [
    Rule(
        "a tenant may have any number of jobs",
        TENANT,
        "if (quota.jobs != 0 && others_ >= quota.jobs) ",
        "if (false) ",
    ),
    Rule(
        "each stream range counts as a job of the tenant",
        TENANT,
        "if (job != job_ && job != last_) ++others_;",
        "if (job != job_) ++others_;",
    ),
    Rule(
        "a switch does not ask whether a tenant's quota is used up",
        RELAY,
        "if (owner.quota == Quota{}) return {};",
        "return {};",
    ),
    Rule(
        "a server does not ask whether a tenant's quota is used up",
        SERVER,
        "if (config_.owners == nullptr) return {};",
        "return {};",
    ),
    Rule(
        "a tenant may hold any number of aggregators",
        SHARES,
        "    share.quota = std::min(share.quota, share.held + left);\n",
        "",
    ),
    Rule(
        "a tenant gets a second quota in a place that is free before its own",
        PLACES,
        "return t.jobs > 0 && t.tenant == owner.tenant;",
        "return t.jobs == 0 || t.tenant == owner.tenant;",
    ),
]
