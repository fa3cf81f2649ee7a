"""Rules of docs/protocol.md, each left out in one place, by hand: no operator would do that."""

from tools.mutants.semantic import keys, numbers, server, switch, topology, worker

RULES = switch.RULES + topology.RULES + server.RULES + worker.RULES + numbers.RULES + keys.RULES
