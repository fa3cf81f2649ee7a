"""Rules that switch and server share: the tree, and answers to strangers (§2)."""

from tools.mutants.mutant import Rule

MEMBERSHIP = "atp/core/topology/membership.cc"
PROOF = "atp/core/topology/proof.cc"
PACER = "atp/core/answer_pacer.cc"

RULES = [
    Rule(
        "a JOIN counts at any node",
        "atp/wire/status.h",
        "if (meant_for == arrived_at) return {};",
        "if (true) return {};",
    ),
    Rule(
        "a JOIN counts at any port of the address that its route names",
        "atp/wire/status.h",
        "if (meant_for == arrived_at) return {};",
        "if (meant_for.address == arrived_at.address) return {};",
    ),
    Rule(
        "a switch takes a JOIN that was meant for another node",
        "atp/core/dataplane/join_relay.cc",
        "Refusal::if_meant_for_another(join->remaining.front(), in.to)",
        "Refusal{}",
    ),
    Rule(
        "a server takes a JOIN that was meant for another node",
        "atp/core/server/server.cc",
        "Refusal::if_meant_for_another(join.remaining.front(), to)",
        "Refusal{}",
    ),
    Rule(
        "whoever applies keeps a lone member from moving its tree",
        "atp/core/dataplane/join_relay.cc",
        "(is_member ? members.known() : tree->known())",
        "tree->known()",
    ),
    Rule(
        "whoever applies moves the tree of other applicants",
        "atp/core/dataplane/join_relay.cc",
        "(is_member ? members.known() : tree->known())",
        "members.known()",
    ),
    Rule(
        "a detachment of the same number counts",
        MEMBERSHIP,
        "if (!knows(rank) || detachments <= members_[rank].detachments) return false;",
        "if (!knows(rank) || detachments < members_[rank].detachments) return false;",
    ),
    Rule(
        "*detached* counts in a JOIN with the same number",
        MEMBERSHIP,
        "statement.detachments > member.detachments ||",
        "statement.detachments >= member.detachments ||",
    ),
    Rule(
        "a JOIN does not attach again",
        MEMBERSHIP,
        "  } else {\n    attached_.insert(rank);\n",
        "  } else if (!was_known) {\n    attached_.insert(rank);\n",
    ),
    Rule(
        "a JOIN does not renew the lease",
        MEMBERSHIP,
        "  member.lease_end = statement.lease_end;\n",
        "  if (!was_known) member.lease_end = statement.lease_end;\n",
    ),
    Rule(
        "a rank that moves also stays behind its old child",
        MEMBERSHIP,
        "if (was_known && member.child != statement.child) take_from_child(rank);",
        "",
    ),
    Rule(
        "one address gets any number of answers",
        PACER,
        "  if (!of_address.has(now, pause_, kAddressBurst)) return false;\n",
        "",
    ),
    Rule(
        "strangers get any number of answers in total",
        PACER,
        "  if (!total_.has(now, total_pause, kTotalBurst)) return false;\n",
        "",
    ),
    Rule(
        "an answer may be larger than its cause",
        PACER,
        "  if (answer_bytes > cause_bytes) return false;\n",
        "",
    ),
    Rule(
        "a moved index is forgotten",
        "atp/core/placement.h",
        "{ indices_[slot(sequence)] = index; }",
        "{ (void)sequence, (void)index; }",
    ),
    Rule(
        "a moved index counts from the next fragment on",
        "atp/core/placement.h",
        "{ indices_[slot(sequence)] = index; }",
        "{ indices_[slot(sequence + 1)] = index; }",
    ),
    Rule(
        "a proof holds for all ports of an address",
        PROOF,
        "  write_endpoint(at, sender);\n",
        "  write_endpoint(at, Endpoint{sender.address, 0});\n",
    ),
    Rule(
        "a proof holds for all addresses",
        PROOF,
        "  write_endpoint(at, sender);\n",
        "  write_endpoint(at, Endpoint{});\n  static_cast<void>(sender);\n",
    ),
    Rule(
        "a proof holds in all jobs",
        PROOF,
        "atp_store32(at, job.job);",
        "atp_store32(at, 0);",
    ),
    Rule(
        "a proof holds in all incarnations",
        PROOF,
        "atp_store32(at + 4, job.incarnation);",
        "atp_store32(at + 4, 0);",
    ),
    Rule(
        "a proof holds for all tenants",
        PROOF,
        "atp_store16(at + 8, job.tenant);",
        "atp_store16(at + 8, 0);",
    ),
    Rule(
        "all nodes ask for the same proof",
        PROOF,
        "return sip_hash(secret, message);",
        "static_cast<void>(secret);\n  return sip_hash({}, message);",
    ),
]
