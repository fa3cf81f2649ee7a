#!/usr/bin/env python3
"""make demo-tp: trains a Llama on every mesh of four hosts, and compares with the planner.

    examples/demo_tp/demo.py                   40 steps on each mesh: a few minutes
    examples/demo_tp/demo.py --short           4 steps
    examples/demo_tp/demo.py --transformers    with the library's LlamaForCausalLM, unmodified

Creates two racks of two hosts as network namespaces on this machine, with links of 2000 Mbit/s and
400 Mbit/s between the racks. Prints the planner's table, measures the communication of a layer on
each mesh over our ring, trains the same small Llama on each with the bytes of the King James Bible,
and with torch's parallelize_module on (4,1), compares the time of a step with its prediction, draws
out/demo_tp/demo_tp.png, and fails if a check fails.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("ATP_BUILD", CHECKOUT / "build/release"))
sys.path.insert(0, str(CHECKOUT))

import figure  # noqa: E402
import text  # noqa: E402

from lab.entry import enter  # noqa: E402
from lab.network import Network  # noqa: E402
from lab.ranks import KEEP_MEMORY, run_ranks  # noqa: E402
from lab.requirements import missing  # noqa: E402
from lab.results import results_folder  # noqa: E402

RACKS = {"r0": ["h0", "h1"], "r1": ["h2", "h3"]}
HOST_MBIT, UPLINK_MBIT = 2000, 400
CLUSTER, CONFIG = HERE / "cluster.yaml", HERE / "config.json"
LIMIT_S = 280


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="fewer steps, for automated tests")
    parser.add_argument(
        "--transformers", action="store_true", help="train the library's LlamaForCausalLM"
    )
    parser.add_argument(
        "--out",
        type=results_folder,
        default=str(CHECKOUT / "out/demo_tp"),
        help="folder for the results (default: out/demo_tp)",
    )
    arguments = parser.parse_args()
    program = BUILD / "bin/atp"
    if not program.exists():
        return complain(f"{program} is missing; `make demo-tp` builds it")
    if not text.is_installed():
        return complain("no training text; install it: apt-get install bible-kjv")
    library = "transformers" if arguments.transformers else "atp"
    if arguments.transformers and importlib.util.find_spec(library) is None:
        return complain(
            f"--transformers needs the library: {sys.executable} -m pip install {library}"
        )
    if problem := missing():
        return complain(problem)

    batch = ("--batch", text.BATCH, "--sequence", text.SEQUENCE, "--element-bytes", 4)
    run(program, "plan", "best", "--cluster", CLUSTER, "--model", CONFIG,
        "--collectives", "ring", "--fused", *batch)  # fmt: skip
    result = measure(arguments.out, 4 if arguments.short else 40, library)
    picture = arguments.out / "demo_tp.png"
    figure.draw(result, picture)
    print(f"\nPredicted and measured times, and the losses: {os.path.relpath(picture)}")
    return report(result)


def run(*words) -> None:
    subprocess.run([str(word) for word in words], check=True)


def measure(folder: pathlib.Path, steps: int, library: str) -> dict:
    """Runs the four ranks, each on its own host."""
    print("\nFour ranks on four hosts: a layer's collectives on each mesh, then training.\n")
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    with Network(folder, RACKS) as network:
        for host in network.hosts:
            network.shape_host(host, HOST_MBIT)
        for rack in RACKS:
            network.shape_uplink(rack, UPLINK_MBIT)
        words = (sys.executable, HERE / "rank.py", CLUSTER, CONFIG, result, steps, library)
        outputs = run_ranks(network, words, LIMIT_S, KEEP_MEMORY)
    print(*(line for line in outputs[0].splitlines() if line.startswith("trained")), sep="\n")
    return json.loads(result.read_text())


def report(result: dict) -> int:
    print("\n          communication per layer         training step")
    print("mesh    predicted   measured  ratio   predicted   measured  ratio")
    medians = {}
    for one, trained in zip(result["replayed"], result["trained"], strict=True):
        mesh = tuple(one["mesh"])
        medians[mesh] = statistics.median(one["measured"])
        layer = one["predicted"], medians[mesh]
        step = trained["predicted"], trained["seconds"]
        what = "  Megatron-style, 1-D" if mesh[1] == 1 else ""
        print(f"{str(mesh):6} {beside(*layer)} {beside(*step)}{what}")
    seconds = result["torch"]["seconds"]
    print(f"(4, 1) by torch's parallelize_module, our ring {seconds * 1e3:10.0f} ms")
    failed = [what for what, passed in checks(result, medians).items() if not passed]
    for what in failed:
        print(f"demo: FAILED: {what}", file=sys.stderr)
    if not failed:
        print("All 3 checks passed.")
    return 1 if failed else 0


def beside(predicted: float, measured: float) -> str:
    return f"{predicted * 1e3:8.1f} ms {measured * 1e3:7.1f} ms {measured / predicted:6.2f}"


def checks(result: dict, medians: dict) -> dict[str, bool]:
    predicted = {tuple(one["mesh"]): one["predicted"] for one in result["replayed"]}
    curves = [one["losses"] for one in (*result["trained"], result["torch"])]
    return {
        "measured times are in the predicted order where predictions differ by 5 %": all(
            medians[a] < medians[b]
            for a in predicted
            for b in predicted
            if predicted[a] * 1.05 < predicted[b]
        ),
        "the losses of all meshes, and torch's, agree within 0.1 %": all(
            max(step) - min(step) <= 1e-3 * max(step) for step in zip(*curves, strict=True)
        ),
        "the model learns": all(curve[-1] < curve[0] for curve in curves),
    }


def complain(message: str) -> int:
    print(f"demo: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    enter(main)
