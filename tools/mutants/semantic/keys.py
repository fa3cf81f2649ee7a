"""Rules about tenants (docs/inside/protocol §2, *Keys*); tags are checked elsewhere, unmutated."""

from tools.mutants.mutant import Rule

TENANT = "atp/core/tenant.cc"
RELAY = "atp/core/dataplane/join_relay.cc"
SHARES = "atp/core/dataplane/shares.h"
PLACES = "atp/core/dataplane/shares.cc"
SERVER = "atp/core/server/server.cc"
VIEW = "atp/wire/packet_view.h"
AGGREGATOR = "atp/core/dataplane/aggregator.h"
PIPELINE = "atp/core/dataplane/pipeline.h"

RULES = [
    Rule(
        "a tenant may have any number of jobs",
        TENANT,
        "if (quota_.jobs != 0 && others_ >= quota_.jobs) ",
        "if (false) ",
    ),
    Rule(
        "each stream range counts as a job of the tenant",
        TENANT,
        "if (!same_job(job, job_) && !same_job(job, last_)) ++others_;",
        "if (!same_job(job, job_)) ++others_;",
    ),
    Rule(
        "a switch does not ask whether a tenant's quota is used up",
        RELAY,
        "if (quota == Quota{}) return {};",
        "return {};",
    ),
    Rule(
        "a server does not ask whether a tenant's quota is used up",
        SERVER,
        "if (quota == Quota{}) return {};",
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
        "return t.jobs > 0 && t.tenant == number;",
        "return t.jobs == 0 || t.tenant == number;",
    ),
    Rule(
        "a job's number has the same job for all tenants",
        VIEW,
        "return {header.job, header.incarnation, header.tenant};",
        "return {header.job, header.incarnation, 0};",
    ),
    Rule(
        "a switch adds fragments of two tenants' jobs",
        AGGREGATOR,
        " &&\n         i->tenant == h->tenant;",
        ";",
    ),
    Rule(
        "a sum does not say whose it is",
        AGGREGATOR,
        "h->tenant = a->identity.tenant;",
        "h->tenant = 0;",
    ),
    Rule(
        "the jobs of all tenants begin at the same aggregator",
        PIPELINE,
        "atp_slot_of_index(index + tenant * 0x9e3779b9U, s->size)",
        "atp_slot_of_index(index, s->size)",
    ),
    Rule(
        "a control message does not say whose it is",
        "atp/core/outbox.cc",
        "  h.tenant = head.job.tenant;\n",
        "",
    ),
    Rule(
        "a server's fragment does not say whose it is",
        "atp/core/server/downlink.cc",
        "  h.tenant = terms_.key.tenant;\n",
        "",
    ),
    Rule(
        "the jobs of a number have one share, whosever they are",
        PLACES,
        "return is_kept(e) && same_job(e.job, job);",
        "return is_kept(e) && e.job.job == job.job;",
    ),
    Rule(
        "a tenant is told of the incarnations of another one's job",
        SERVER,
        "    if (!same_job(it->first.key, key)) return;\n",
        "    if (it->first.key.job != key.job) return;\n",
    ),
]
