"""Compares one layer's communication on every mesh of shaped networks with the planner.

    .venv/bin/python -m experiments.tensor_parallel.meshes [--only NAME] [--rounds N] [--out FOLDER]

Hosts are network namespaces, links are shaped with tbf. The ranks run `atp plan compare`: the
runtime's blocks, forward and backward, without the matrix products. They use our ring or, if a
switch sums, `atp switch` and `atp server` on two further hosts with unshaped links. Five rounds
alternate between the meshes; medians are reported. Writes FOLDER/meshes.json (with --only: that
part of it) and meshes.svg (default: docs/plan/tensor-parallel). Fails if a measurement differs from
the prediction by more than 10 % for rings or 15 % for sums in a switch, or if two meshes whose
predictions differ by more than 5 % are in the wrong order.
"""

import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile

from matplotlib.figure import Figure

from experiments import report
from experiments.report import plt
from experiments.tensor_parallel.campaign import finish_axes, run
from lab.network import Network
from lab.ranks import KEEP_MEMORY, run_ranks

# The payload share of a frame of 1514 bytes after TCP, IP and Ethernet.
PAYLOAD = 1448 / 1514
LIMIT_S = 500
# 350 values in a packet of 1400 bytes, plus its header and those of UDP, IP and Ethernet.
AGGREGATION = (
    ", aggregation: {payload_bytes: 1400, header_bytes: 90, servers: dedicated, server_hosts: 1, "
    "server_bandwidth: 10 Gbit/s per direction}"
)


@dataclasses.dataclass(frozen=True)
class Testbed:
    """`racks` racks of `hosts`; a layer of `hidden` on `batch` sequences of `sequence` tokens."""

    name: str
    racks: int
    hosts: int
    host_mbit: int
    uplink_mbit: int | None
    hidden: int
    batch: int
    sequence: int
    heads: int = 16
    sums: bool = False  # in a switch; one rack only

    @property
    def size(self) -> int:
        return self.racks * self.hosts

    def cluster(self) -> str:
        """Its cluster file."""
        levels = [("rack", self.racks, self.uplink_mbit), ("host", self.hosts, self.host_mbit)]
        share = 1 if self.sums else PAYLOAD
        lines = [
            f"  - {{name: {name}, count: {count}, kind: switch, latency: 100 us, "
            f"bandwidth: {mbit * share:.2f} Mbit/s per direction{AGGREGATION * self.sums}}}"
            for name, count, mbit in levels
            if count > 1
        ]
        return "\n".join([f"name: {self.name}", "levels:", *lines]) + "\n"

    def model(self) -> dict:
        return {"model_type": "gpt2", "n_embd": self.hidden, "n_head": self.heads, "n_layer": 1,
                "vocab_size": 256}  # fmt: skip

    def make(self, folder: pathlib.Path) -> Network:
        names = [[f"h{i}-{j}" for j in range(self.hosts)] for i in range(self.racks)]
        ranks = [name for hosts in names for name in hosts]
        names[0] += ["switch", "server"] * self.sums
        network = Network(folder, {f"r{i}": hosts for i, hosts in enumerate(names)})
        for host in ranks:
            network.shape_host(host, self.host_mbit)
        if self.racks > 1:
            for i in range(self.racks):
                network.shape_uplink(f"r{i}", self.uplink_mbit)
        return network


TESTBEDS = [
    Testbed("2 racks of 2, 2000 and 400 Mbit/s", 2, 2, 2000, 400, 1024, 8, 128),
    Testbed("flat 8, 100 Mbit/s", 1, 8, 100, None, 512, 8, 64),
    Testbed("flat 8, summed in a switch, 100 Mbit/s", 1, 8, 100, None, 512, 8, 64, sums=True),
    Testbed("2 racks of 4, 1000 and 200 Mbit/s", 2, 4, 1000, 200, 512, 8, 128),
    Testbed("flat 16, 100 Mbit/s", 1, 16, 100, None, 512, 16, 32),
]
TINY = Testbed("tiny", 1, 2, 1000, None, 32, 2, 16, heads=4)


def measure(testbed: Testbed, rounds: int) -> list[dict]:
    """The measurements of each mesh, as in `atp plan compare --json`."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "cluster.yaml").write_text(testbed.cluster())
        (folder / "config.json").write_text(json.dumps(testbed.model()))
        words = [
            *(sys.executable, "-m", "atp.tensor_parallel.calibrate", "--compare"),
            *("--cluster", folder / "cluster.yaml", "--model", folder / "config.json"),
            *("--batch", testbed.batch, "--sequence", testbed.sequence, "--rounds", rounds),
            *("--algorithm", "innetwork" if testbed.sums else "ring"),
            *("--json", folder / "result.json"),
        ]
        with testbed.make(folder) as network:
            route = start_nodes(network) if testbed.sums else ""
            hosts = [host for name, host in network.hosts.items() if name.startswith("h")]
            run_ranks(network, words, LIMIT_S, {**KEEP_MEMORY, "ATP_ROUTE": route}, hosts)
        return json.loads((folder / "result.json").read_text())


def start_nodes(network: Network) -> str:
    """Starts a server and a switch; returns the ranks' route."""
    program = report.BUILD / "bin" / "atp"
    server, switch = network["server"], network["switch"]
    server.start(program, "server", "--listen", f"{server.address}:5500")
    switch.start(program, "switch", "--listen", f"{switch.address}:5501", "--upstream",
                 f"{server.address}/32")  # fmt: skip
    return f"{switch.address}:5501,{server.address}:5500"


def show(testbed: Testbed, meshes: list[dict]) -> None:
    print(f"\n{testbed.name}: h = {testbed.hidden}, {testbed.batch * testbed.sequence} tokens")
    print("mesh      predicted     measured   measured/predicted   all rounds")
    for one in meshes:
        median = statistics.median(one["measured"])
        print(
            f"{str(tuple(one['mesh'])):8} {one['predicted'] * 1e3:7.0f} ms {median * 1e3:9.0f} ms "
            f"{median / one['predicted']:12.2f} {min(one['measured']) * 1e3:16.0f} to "
            f"{max(one['measured']) * 1e3:.0f} ms"
        )


def wrong_orders(meshes: list[dict]) -> list[str]:
    """Pairs measured in the wrong order although predicted to differ by 5 %."""
    return [
        f"{tuple(a['mesh'])} is not faster than {tuple(b['mesh'])}"
        for a in meshes
        for b in meshes
        if a["predicted"] * 1.05 < b["predicted"]
        and statistics.median(a["measured"]) >= statistics.median(b["measured"])
    ]


def unlike_predicted(testbed: Testbed, meshes: list[dict]) -> list[str]:
    """Meshes whose time differs from the prediction by more than the tolerance."""
    granted = 0.15 if testbed.sums else 0.10
    ratios = {
        tuple(one["mesh"]): statistics.median(one["measured"]) / one["predicted"] for one in meshes
    }
    return [
        f"{mesh} took {ratio:.2f} times the prediction"
        for mesh, ratio in ratios.items()
        if abs(ratio - 1) > granted
    ]


def plot(results: dict[str, list[dict]]) -> Figure:
    plt.rcParams["font.size"] = 9
    size = (-(-len(results) // 2), min(2, len(results)))
    figure, rows = plt.subplots(*size, figsize=(9, 3.2 * size[0]), layout="constrained",
                                squeeze=False)  # fmt: skip
    for axes, (name, meshes) in zip(rows.flat, results.items(), strict=False):
        _plot_testbed(axes, name, meshes)
    for axes in list(rows.flat)[len(results) :]:
        axes.remove()
    rows[0][0].legend(frameon=False, loc="upper left")
    return figure


def _plot_testbed(axes, name: str, meshes: list[dict]) -> None:
    for i, one in enumerate(meshes):
        median = statistics.median(one["measured"])
        axes.bar(i - 0.2, one["predicted"], 0.38, color="#bbbbbb", label="" if i else "predicted")
        axes.bar(i + 0.2, median, 0.38, color="#0b6e99", label="" if i else "measured, median")
        axes.plot([i + 0.2] * len(one["measured"]), one["measured"], "_", color="#333333",
                  label="" if i else "each round")  # fmt: skip
        top = max(*one["measured"], one["predicted"])
        axes.annotate(f"{median / one['predicted']:.2f}", (i, top), ha="center", va="bottom",
                      xytext=(0, 3), textcoords="offset points")  # fmt: skip
    axes.set_xticks(range(len(meshes)), [f"({m['mesh'][0]},{m['mesh'][1]})" for m in meshes])
    finish_axes(axes, name, "seconds per layer, forward and backward")


def main() -> int:
    return run(
        __doc__,
        "meshes",
        TESTBEDS,
        TINY,
        measure,
        show,
        lambda testbed, found: wrong_orders(found) + unlike_predicted(testbed, found),
        plot,
        "Predictions confirmed: the order of meshes, and their times within 10 and 15 %.",
    )


if __name__ == "__main__":
    sys.exit(main())
