"""The results of both papers: twenty entries of the in-network paper, eight of the tensor one.

A figure that is simulated may have a second entry, KEY-real, by real processes.

Drawings and pseudocode that no run can reproduce (Fig. 1, 2 and 4 to 6 of the first; Fig. 1 to 6, 8
and 9 of the second) are not entries.
"""

from experiments.papers import (
    accuracy,
    gradients,
    loss,
    network,
    real_links,
    real_loss,
    real_racks,
    real_scarcity,
    real_switch,
    real_training,
    shared_links,
    shared_switch,
    shared_switch_over_time,
    tensor_parallel,
    training_pairs,
    training_speed,
)
from experiments.papers.entry import Entry, State

_NOT_SHOWN = [
    Entry(
        "17",
        "Fig. 7 and 17: pseudocode of the switch",
        "The rules for a packet.",
        State.NOT_SHOWN,
        "these are rules, not a result. docs/inside/protocol §4 has the product's rules, and "
        "atp/core/dataplane/conformance has a test for each.",
    ),
    Entry(
        "19",
        "Fig. 19, §D.1: optimizations for small packets",
        "With one worker and one server, TSO makes sending 3 times as fast, multi-packet queues "
        "1.47 times and two passes 1.3 times: 6 times in all. The server saturates at 60 Gbit/s.",
        State.NOT_SHOWN,
        "this needs a ConnectX-5 and a Tofino. docs/inside/architecture.md (*Numbers that shaped "
        "it*) says what trains of packets gain on sockets.",
    ),
]
_ORDER = [
    *("3", "8", "9", "9-real", "10", "10-real", "11", "11-real", "12", "12-real"),
    *("13a", "13a-real", "13b", "13b-real", "13c", "13c-real"),
    *("14", "15", "16a", "16b", "17", "18", "19", "20", "20-real", "table1", "b1", "overflow"),
    *("tp-table1", "tp-7a", "tp-7b", "tp-10", "tp-table2", "tp-table3", "tp-11", "tp-12"),
]
_ALL = {
    entry.key: entry
    for module in (
        training_speed,
        network,
        real_racks,
        real_links,
        shared_switch,
        shared_switch_over_time,
        training_pairs,
        real_scarcity,
        real_switch,
        loss,
        real_loss,
        accuracy,
        real_training,
        shared_links,
        gradients,
        tensor_parallel,
    )
    for entry in module.ENTRIES
} | {entry.key: entry for entry in _NOT_SHOWN}

ENTRIES = [_ALL[key] for key in _ORDER]
TP = [entry for entry in ENTRIES if entry.key.startswith("tp-")]  # tensor parallelism
INA = [entry for entry in ENTRIES if entry not in TP]  # in-network aggregation


def find(keys):
    """The entries with these keys, or all; KeyError names an unknown one."""
    for key in keys or ():
        if key not in _ALL:
            raise KeyError(key)
    return [entry for entry in ENTRIES if not keys or entry.key in keys]
