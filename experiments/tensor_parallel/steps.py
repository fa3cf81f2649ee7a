"""Compares the time of a training step on every mesh of shaped networks with the planner.

    .venv/bin/python -m experiments.tensor_parallel.steps [--only NAME] [--rounds N] [--out FOLDER]

A small Llama trains on hosts that are network namespaces, with links shaped by tbf. The planner
gets the network's links and the measured speed of a rank (products and memory traffic), and nothing
that was measured on a network. It predicts a step on every feasible mesh, with our ring and, if the
network has a switch that sums, with that. Rounds alternate between the meshes; medians are
reported. Writes FOLDER/steps.json (with --only: that part of it) and steps.svg (default:
docs/plan/tensor-parallel). Fails if a step differs from its prediction by more than 15 %, if two
whose predictions differ by more than 10 % are in the wrong order, or if the planner's choice is
more than 5 % slower than the fastest.
"""

import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile

from matplotlib.figure import Figure

from experiments.report import plt
from experiments.tensor_parallel.campaign import finish_axes, run
from experiments.tensor_parallel.meshes import PAYLOAD, start_nodes
from lab.network import Network
from lab.ranks import KEEP_MEMORY, run_ranks

RANK = pathlib.Path(__file__).with_name("steps_rank.py")
LIMIT_S = 900
WITHIN, ORDERED, CHOSEN = 0.15, 0.10, 0.05


@dataclasses.dataclass(frozen=True)
class Testbed:
    """`racks` racks of `hosts`; rates in Mbit/s. `switch` and `server` are rates of the links of
    their hosts, if a switch sums."""

    name: str
    racks: int
    hosts: int
    host: int
    uplink: int = 0
    switch: int = 0
    server: int = 0
    hidden: int = 512
    layers: int = 2
    sequence: int = 64
    batch: int = 8
    chunks: int = 1
    sequence_parallel: bool = False

    def cluster(self) -> dict:
        """Its cluster file."""
        levels = []
        for name, count, mbit in (
            ("rack", self.racks, self.uplink),
            ("host", self.hosts, self.host),
        ):
            if count > 1:
                share = 1 if self.switch else PAYLOAD
                levels.append({"name": name, "count": count, "kind": "switch", "latency": "100 us",
                               "bandwidth": rate(mbit * share)})  # fmt: skip
        if self.switch:
            levels[-1]["aggregation"] = {
                "payload_bytes": 1400, "header_bytes": 90, "servers": "dedicated",
                "server_hosts": 1, "server_bandwidth": rate(self.server),
                "switch_bandwidth": rate(self.switch), "burst": 256, "stream_share": PAYLOAD,
            }  # fmt: skip
        return {"name": self.name, "levels": levels}

    def model(self) -> dict:
        return {
            "model_type": "llama", "hidden_size": self.hidden, "num_attention_heads": 16,
            "num_key_value_heads": 8, "intermediate_size": self.hidden * 11 // 4,
            "num_hidden_layers": self.layers, "vocab_size": 2 * self.hidden,
            "tie_word_embeddings": False,
        }  # fmt: skip

    def make(self, folder: pathlib.Path) -> Network:
        names = [[f"h{i}-{j}" for j in range(self.hosts)] for i in range(self.racks)]
        ranks = [name for hosts in names for name in hosts]
        names[0] += ["switch", "server"] * bool(self.switch)
        network = Network(folder, {f"r{i}": hosts for i, hosts in enumerate(names)})
        for host in ranks:
            network.shape_host(host, self.host)
        if self.switch:
            network.shape_host("switch", self.switch)
            network.shape_host("server", self.server)
        if self.racks > 1:
            for i in range(self.racks):
                network.shape_uplink(f"r{i}", self.uplink)
        return network


def rate(mbit: float) -> str:
    return f"{mbit:.2f} Mbit/s per direction"


TESTBEDS = [
    Testbed("2 racks of 2, 500 and 100 Mbit/s", 2, 2, 500, uplink=100),
    Testbed("2 racks of 2, 500 and 100 Mbit/s, sequence parallel", 2, 2, 500, uplink=100,
            sequence_parallel=True),
    Testbed("2 racks of 4, 400 and 80 Mbit/s", 2, 4, 400, uplink=80),
    Testbed("flat 8, 50 Mbit/s, switch and server on faster links", 1, 8, 50, switch=2000,
            server=2000),
    Testbed("flat 4, 100 Mbit/s, switch and server as well", 1, 4, 100, switch=100, server=100),
]  # fmt: skip
# With such links, ten programs keep two cores busy and wait for a free one, which the planner does
# not model. Runs only with --only.
BUSY = Testbed("busy cores: flat 8, 100 Mbit/s", 1, 8, 100, switch=2000, server=2000)
TINY = Testbed("tiny", 1, 2, 500, hidden=64, layers=1, sequence=16, batch=2)


def measure(testbed: Testbed, rounds: int) -> dict:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        settings = {
            "cluster": testbed.cluster(),
            "model": testbed.model(),
            "batch": testbed.batch,
            "sequence": testbed.sequence,
            "chunks": testbed.chunks,
            "sequence_parallel": testbed.sequence_parallel,
            "rounds": rounds,
            # The last one is what init_mesh("auto") asks for.
            "collectives": [["ring"]] if not testbed.switch
            else [["ring"], ["innetwork"], ["ring", "innetwork"]],
            "result": str(folder / "result.json"),
        }  # fmt: skip
        (folder / "settings.json").write_text(json.dumps(settings))
        words = [sys.executable, RANK, folder / "settings.json"]
        with testbed.make(folder) as network:
            route = start_nodes(network) if testbed.switch else ""
            hosts = [host for name, host in network.hosts.items() if name.startswith("h")]
            run_ranks(network, words, LIMIT_S, {**KEEP_MEMORY, "ATP_ROUTE": route}, hosts)
        return json.loads((folder / "result.json").read_text())


def ran(entry: dict) -> str:
    """The mesh and what sums on its dimensions."""
    used = {name.replace("innetwork", "switch") for name in entry["collectives"]} - {"none"}
    how = used.pop() if len(used) == 1 else "/".join(entry["collectives"])
    return f"({entry['mesh'][0]},{entry['mesh'][1]}) {how}".replace("innetwork", "switch")


def median(entry: dict) -> float:
    return statistics.median(entry["measured"])


def show(testbed: Testbed, found: dict) -> None:
    device = found["device"]
    print(f"\n{testbed.name}: h = {testbed.hidden}, {testbed.batch * testbed.sequence} tokens; "
          f"a rank computes {device['products']}, memory {device['memory']}")  # fmt: skip
    print("mesh                predicted  of it computing   measured  ratio  all rounds")
    for one in found["entries"]:
        print(
            f"{ran(one) + ' *' * one['auto']:19} {one['predicted'] * 1e3:6.0f} ms "
            f"{one['computed'] * 1e3:12.0f} ms {median(one) * 1e3:8.0f} ms "
            f"{median(one) / one['predicted']:6.2f}  {min(one['measured']) * 1e3:.0f} to "
            f"{max(one['measured']) * 1e3:.0f} ms"
        )


def shortfalls(entries: list[dict]) -> list[str]:
    """What the predictions get wrong, as sentences."""
    wrong = [
        f"{ran(one)} took {median(one) / one['predicted']:.2f} times its prediction"
        for one in entries
        if abs(median(one) / one["predicted"] - 1) > WITHIN
    ]
    wrong += [
        f"{ran(a)} is not faster than {ran(b)}"
        for a in entries
        for b in entries
        if a["predicted"] * (1 + ORDERED) < b["predicted"] and median(a) >= median(b)
    ]
    chosen = next(one for one in entries if one["auto"])
    fastest = min(entries, key=median)
    if median(chosen) > (1 + CHOSEN) * median(fastest):
        slower = median(chosen) / median(fastest) - 1
        wrong.append(f"the planner's {ran(chosen)} is {slower:.0%} slower than {ran(fastest)}")
    return wrong


def plot(results: dict[str, dict]) -> Figure:
    plt.rcParams["font.size"] = 9
    size = (-(-len(results) // 2), min(2, len(results)))
    figure, rows = plt.subplots(*size, figsize=(10, 3.4 * size[0]), layout="constrained",
                                squeeze=False)  # fmt: skip
    for axes, (name, found) in zip(rows.flat, results.items(), strict=False):
        _plot_testbed(axes, name, found["entries"])
    for axes in list(rows.flat)[len(results) :]:
        axes.remove()
    rows[0][0].legend(frameon=False, loc="upper left")
    return figure


def _plot_testbed(axes, name: str, entries: list[dict]) -> None:
    for i, one in enumerate(entries):
        hidden = one["predicted"] - one["computed"]
        axes.bar(i - 0.2, one["computed"], 0.38, color="#888888",
                 label="" if i else "predicted, computing")  # fmt: skip
        axes.bar(i - 0.2, hidden, 0.38, bottom=one["computed"], color="#cccccc",
                 label="" if i else "predicted, waiting for sums")  # fmt: skip
        axes.bar(i + 0.2, median(one), 0.38, color="#0b6e99", label="" if i else "measured, median")
        axes.plot([i + 0.2] * len(one["measured"]), one["measured"], "_", color="#333333")
        top = max(*one["measured"], one["predicted"])
        axes.annotate(f"{median(one) / one['predicted']:.2f}", (i, top), ha="center", va="bottom",
                      xytext=(0, 3), textcoords="offset points")  # fmt: skip
    # One word per line: ten bars leave no room for two algorithms side by side.
    labels = [
        ran(one).replace(" ", "\n").replace("/", "/\n") + "*" * one["auto"] for one in entries
    ]
    axes.set_xticks(range(len(entries)), labels, fontsize=7)
    finish_axes(axes, name, "seconds per step")


def main() -> int:
    return run(
        __doc__,
        "steps",
        TESTBEDS,
        TINY,
        measure,
        show,
        lambda testbed, found: shortfalls(found["entries"]),
        plot,
        "Predictions confirmed: times within 15 %, the order of meshes, and the choice (*).",
        on_request=(BUSY,),
    )


if __name__ == "__main__":
    sys.exit(main())
