"""How the groups of a test sum: in the network, in the host's memory, or over a ring."""

import atp.torch

WAYS = ("innetwork", "memory", "ring")


def options_of(way: str) -> atp.torch.Options:
    algorithm = "innetwork" if way == "memory" else way
    return atp.torch.Options(algorithm=algorithm, host_memory=way == "memory")


def environment_of(way: str) -> dict[str, str]:
    """The environment for a program whose groups set no options."""
    options = options_of(way)
    return {"ATP_ALGORITHM": options.algorithm, "ATP_HOST_MEMORY": str(int(options.host_memory))}
