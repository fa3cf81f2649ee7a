"""A rack for experiments: ranks on links of their own, and a switch and a server for all."""

import contextlib
import tempfile
from pathlib import Path

from experiments.report import BUILD
from lab.network import Network

ATP = BUILD / "bin" / "atp"
SERVER_PORT, SWITCH_PORT = 5500, 5501


@contextlib.contextmanager
def star(ranks, mbit, wide):
    """Yields (network, the ranks' hosts, ATP_ROUTE).

    mbit: bandwidth of a rank's link, in each direction. wide: that of the switch's and the server's
    links, as a multiple of it; they carry the traffic of all ranks.
    """
    names = [f"h{rank}" for rank in range(ranks)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Network(Path(folder), {"rack": [*names, "switch", "server"]}) as network,
    ):
        for name in names:
            network.shape_host(name, mbit)
        for name in ("switch", "server"):
            network.shape_host(name, mbit * wide)
        server = f"{network['server'].address}:{SERVER_PORT}"
        switch = f"{network['switch'].address}:{SWITCH_PORT}"
        _start(network, "server", "--listen", server)
        _start(network, "switch", "--listen", switch, "--upstream", f"{network.subnet}.0/24")
        yield network, [network[name] for name in names], f"{switch},{server}"


def _start(network, role, *options):
    process = network[role].start(ATP, role, *options)
    network.wait_for_line(process, "listening on", 30)
