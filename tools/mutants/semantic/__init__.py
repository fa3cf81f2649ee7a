"""Rules of docs/protocol.md, each left out in one place, by hand: no operator would do that."""

from tools.mutants.semantic import keys, numbers, places, server, switch, topology, worker

RULES = (
    switch.RULES
    + places.RULES
    + topology.RULES
    + server.RULES
    + worker.RULES
    + numbers.RULES
    + keys.RULES
)
