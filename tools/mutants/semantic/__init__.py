"""Rules of docs/inside/protocol, each left out in one place, by hand: no operator would do that."""

from tools.mutants.semantic import (
    keys,
    numbers,
    places,
    server,
    switch,
    switch_trees,
    topology,
    worker,
    worker_joining,
)

RULES = (
    switch.RULES
    + switch_trees.RULES
    + places.RULES
    + topology.RULES
    + server.RULES
    + worker.RULES
    + worker_joining.RULES
    + numbers.RULES
    + keys.RULES
)
