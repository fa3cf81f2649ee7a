"""The all-reduce implementations that are compared, and the lower bound for each."""

import dataclasses

FLOAT32_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Way:
    kind: str  # the program of its ranks: "torch" or "openmpi"
    backend: str = ""  # of torch
    options: dict | None = None  # atp.torch.Options of its group
    dtype: str = "float32"  # of the tensor
    bytes_per_value: int = FLOAT32_BYTES  # on the wire
    # The path of the bytes: "ring", "network" (through switches and servers), or "either",
    # whichever is faster. Memory has no bound.
    shape: str = "ring"

    @property
    def in_memory(self):
        return bool((self.options or {}).get("host_memory"))


WAYS = {
    "atp memory": Way("torch", "atp", {"host_memory": True}),
    "atp": Way("torch", "atp", {"host_memory": False, "algorithm": "innetwork"}, shape="network"),
    "atp int16": Way(
        "torch",
        "atp",
        {"host_memory": False, "algorithm": "innetwork", "wire": "int16"},
        bytes_per_value=2,
        shape="network",
    ),
    "atp ring": Way("torch", "atp", {"algorithm": "ring"}),
    "atp auto": Way("torch", "atp", {"host_memory": False, "algorithm": "auto"}, shape="either"),
    "Gloo": Way("torch", "gloo"),
    "Gloo float16": Way("torch", "gloo", dtype="float16", bytes_per_value=2),
    "Open MPI ring": Way("openmpi"),
}
BASELINE = "Gloo"


def bound_s(way, workload, size):
    """The minimum time that the links allow for the float32 tensors of `size` bytes of all jobs.

    In each direction a rank's link carries 2(N-1)/N tensors in a ring and one tensor in the
    network. A switch's link carries those of N ranks and the server's one. A server without a
    switch carries its share of the tensors of N ranks. Headers are not counted. 0 without shaped
    links.
    """
    if workload.mbit is None:
        return 0
    tensor = workload.jobs * size * WAYS[way].bytes_per_value / FLOAT32_BYTES
    ranks = workload.ranks
    ring = 2 * (ranks - 1) / ranks
    if workload.has_switch:
        network = max(1, (workload.most_below_a_switch + 1) / workload.wide)
    else:
        network = max(1, ranks / workload.servers / workload.wide)
    busiest = {"ring": ring, "network": network, "either": min(ring, network)}[WAYS[way].shape]
    return busiest * tensor * 8 / (workload.mbit * 1e6)
