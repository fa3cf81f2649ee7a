"""How much communication stays exposed with 1, 2 and 4 chunks (the paper's §4.1, Figs 10 and 11).

    .venv/bin/python -m experiments.tensor_parallel.overlap [--hidden N] [--steps N] [--out FOLDER]

Two single-threaded ranks train two layers on mesh (2,1), on two hosts in network namespaces. A
first run measures the matrix products, and the link is then shaped so that the sums take the same
time. Each rank traces where it waits; its fastest step counts. Writes FOLDER/overlap.json and
overlap.svg (default: docs/plan/tensor-parallel).
"""

import argparse
import json
import pathlib
import sys
import tempfile

from matplotlib.figure import Figure

from experiments import report
from experiments.report import plt
from experiments.tensor_parallel.meshes import PAYLOAD
from lab.network import Network
from lab.ranks import KEEP_MEMORY, run_ranks
from lab.results import results_folder

RANK = pathlib.Path(__file__).with_name("overlap_rank.py")
LIMIT_S = 300


def run(network: Network, folder: pathlib.Path, hidden: int, steps: int, *chunks: int) -> list:
    result = folder / "result.json"
    words = (sys.executable, RANK, result, hidden, steps, *chunks)
    run_ranks(network, words, LIMIT_S, KEEP_MEMORY)
    return json.loads(result.read_text())


def measure(hidden: int, steps: int) -> dict:
    """{"mbit": the link's, "computing": seconds, "runs": the results by number of chunks}."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with Network(folder, {"r": ["h0", "h1"]}) as network:
            (free,) = run(network, folder, hidden, steps, 1)
            computing = free["seconds"] - free["exposed"]
            # In a ring of two, each rank sends the S bytes of a sum once.
            mbit = round(free["bytes"] * 8 / PAYLOAD / computing / 1e6)
            for host in network.hosts:
                network.shape_host(host, mbit)
            runs = run(network, folder, hidden, steps, 1, 2, 4)
    return {"mbit": mbit, "computing": computing, "runs": runs}


def show(result: dict) -> None:
    print(f"the products of a step take {result['computing'] * 1e3:.0f} ms, its sums the same on a "
          f"link of {result['mbit']} Mbit/s")  # fmt: skip
    print("chunks   per step   exposed   of the sums")
    for one in result["runs"]:
        share = one["exposed"] / result["computing"]
        print(f"{one['chunks']:6} {one['seconds'] * 1e3:7.0f} ms {one['exposed'] * 1e3:6.0f} ms "
              f"{share:10.0%}")  # fmt: skip


def plot(result: dict) -> Figure:
    plt.rcParams["font.size"] = 9
    figure, axes = plt.subplots(figsize=(9, 2.8), layout="constrained")
    labels = []
    for row, one in enumerate(reversed(result["runs"])):
        axes.barh(row, 1e3 * one["seconds"], 0.6, color="#0b6e99", label="" if row else "computing")
        waits = [(1e3 * begin, 1e3 * (end - begin)) for begin, end in one["trace"]]
        axes.broken_barh(waits, (row - 0.3, 0.6), color="#e07b39", label="" if row else "waiting")
        labels.append(f"{one['chunks']} chunk{'s' * (one['chunks'] > 1)}")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel("ms of a step, forward and backward, at rank 0")
    axes.set_title(
        f"Sums as long as the products, on a link of {result['mbit']} Mbit/s", fontsize=10
    )
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(prog=report.program(), description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=512, help="hidden width (default: 512)")
    parser.add_argument("--steps", type=int, default=15, help="training steps (default: 15)")
    parser.add_argument(
        "--out",
        type=results_folder,
        default=str(report.REPOSITORY / "docs/plan/tensor-parallel"),
        help="folder for the results (default: docs/plan/tensor-parallel)",
    )
    arguments = parser.parse_args()
    result = measure(arguments.hidden, arguments.steps)
    show(result)
    (arguments.out / "overlap.json").write_text(json.dumps(result) + "\n")
    report.save(plot(result), arguments.out / "overlap.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
