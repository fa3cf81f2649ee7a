"""Rules about tenants (docs/protocol.md §2, *Keys*); tags are checked elsewhere, unmutated."""

from tools.mutants.mutant import Rule

RELAY = "atp/core/dataplane/join_relay.cc"
SHARES = "atp/core/dataplane/shares.cc"
SERVER = "atp/core/server/server.cc"

RULES = [
    Rule(
        "a tenant may have any number of jobs at a switch",
        RELAY,
        "if (quota.jobs != 0 && others >= quota.jobs) ",
        "if (false) ",
    ),
    Rule(
        "a tenant may have any number of jobs at a server",
        SERVER,
        "if (quota.jobs != 0 && others >= quota.jobs) ",
        "if (false) ",
    ),
    Rule(
        "a server counts each range of streams as a job of the tenant",
        SERVER,
        "if (range.key.job != job && range.key.job != last) ++others;",
        "if (range.key.job != job) ++others;",
    ),
    Rule(
        "a tenant may hold any number of aggregators",
        SHARES,
        "job.quota = std::min(quota_of_job(), job.held + left);",
        "job.quota = quota_of_job();",
    ),
]
