"""Of what switch and server share: who is behind whom, and what strangers are told (§2)."""

from tools.mutants.mutant import Rule

MEMBERSHIP = "atp/core/topology/membership.cc"
PACER = "atp/core/answer_pacer.cc"

RULES = [
    Rule(
        "a detachment of the same number counts",
        MEMBERSHIP,
        "if (!knows(rank) || detachments <= members_[rank].detachments) return false;",
        "if (!knows(rank) || detachments < members_[rank].detachments) return false;",
    ),
    Rule(
        "of a JOIN with the same number *detached* counts",
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
        "a rank that moves stays behind its old child, too",
        MEMBERSHIP,
        "if (was_known && member.child != statement.child) take_from_child(rank);",
        "",
    ),
    Rule(
        "strangers get any number of answers at an address",
        PACER,
        "  if (!of_address.has(now, pause_, kAddressBurst)) return false;\n",
        "",
    ),
    Rule(
        "strangers get any number of answers in all",
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
]
