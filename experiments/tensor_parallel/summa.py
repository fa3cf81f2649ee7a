"""Compares 1-D and our meshes with SUMMA in two dimensions and in 2.5, on the paper's networks.

    .venv/bin/python -m experiments.tensor_parallel.summa [FOLDER]

2-D tensor parallelism (Optimus) has q x q ranks, and every rank a block of the activations and of
each weight. A product broadcasts blocks of both: along rows those of activations, along columns
those of weights. 2.5-D (Tesseract) has d such grids with a part of the batch each, which sum the
weights' gradients. Writes FOLDER/summa.csv and summa.svg (default: docs/plan/planner): for the
paper's models M1 to M4 (batch 4 of 2048 tokens, half precision), the bytes that a rank sends per
layer, forward and backward, and their time on the fullest links by the planner's rates, without
latencies, all with rings. A q-fold broadcast in a pipeline sends what an all-gather sends.
"""

import dataclasses
import sys

import torch

from atp.planner import Candidate, plan
from experiments import report
from experiments.report import plt

BATCH, SEQUENCE, ELEMENT = 4, 2048, 2
TOKENS = BATCH * SEQUENCE
MODELS = {"M1": 2048, "M2": 4096, "M3": 8192, "M4": 12288}
# Widths of the four products of a GPT layer, in units of h: [T, a] x [a, b].
PRODUCTS = ((1, 3), (1, 1), (1, 4), (4, 1))


def level(name: str, count: int, kind: str, gigabytes: float) -> dict:
    return {"name": name, "count": count, "kind": kind,
            "bandwidth": f"{gigabytes:g} GB/s per direction"}  # fmt: skip


# The paper's networks (docs/plan/planner.md), per direction. IC1 is missing: the paper's authors
# could not model it, and measured neither SUMMA's collectives nor its meshes.
NETWORKS = {
    "IC2: 4 NVLink pairs on PCIe": [level("pair", 4, "switch", 52), level("gpu", 2, "pairs", 300)],
    "IC3: NVSwitch, 8": [level("gpu", 8, "switch", 300)],
    "IC4: InfiniBand, 16": [level("node", 16, "switch", 25)],
    "Fig. 7a: 4 nodes of 4": [level("node", 4, "switch", 25), level("gpu", 4, "full", 100)],
    "IC6: torus, 4 x 4": [level("ring", 4, "torus", 25), level("device", 4, "torus", 25)],
    "IC5: flat, 64": [level("node", 64, "switch", 25)],
}


@dataclasses.dataclass(frozen=True)
class Cost:
    """One way on one network."""

    way: str
    sent: float
    """Bytes that a rank sends per layer, forward and backward."""
    seconds: float


def asked(levels: list[dict], hidden: int, **more) -> list[Candidate]:
    # Heads of 32 values, so that 64 ranks can share those of M1; their number changes no cost.
    model = {"model_type": "gpt2", "n_embd": hidden, "n_head": hidden // 32, "n_layer": 1}
    answer = plan({"levels": levels}, model | {"vocab_size": 64}, batch=BATCH, sequence=SEQUENCE,
                  element_bytes=ELEMENT, collectives=["ring"], runtime=False, **more)  # fmt: skip
    return [answer, *answer.runners_up]


def rates(candidate: Candidate) -> tuple[float, float]:
    """Seconds per byte of an all-reduce on each dimension; from a plan with equation 2's volume,
    which has only all-reduces."""
    return tuple(d.bandwidth_seconds / d.bytes if d.bytes else 0.0 for d in candidate.dimensions)


def share(ranks: int) -> float:
    """What a rank sends of a tensor that a ring gathers."""
    return (ranks - 1) / ranks


def meshes(levels: list[dict], hidden: int) -> list[Cost]:
    """1-D and the best mesh, with a reduce-scatter where a slice is enough."""
    simple = {one.mesh: rates(one) for one in asked(levels, hidden, volume="equation2")}
    found = {}
    for one in asked(levels, hidden, fused=True):
        sent = 0.0
        for ranks, rate, dimension in zip(one.mesh, simple[one.mesh], one.dimensions, strict=True):
            if ranks > 1:  # in units of all-reduces of that many bytes
                sent += 2 * share(ranks) * dimension.bandwidth_seconds / rate
        found[one.mesh] = sent, one.seconds
    one_dimensional = next(mesh for mesh in found if mesh[1] == 1)
    best = min(found, key=lambda mesh: found[mesh][1])
    return [Cost("1-D", *found[one_dimensional]),
            Cost(f"ours ({best[0]},{best[1]})", *found[best])]  # fmt: skip


def with_replicas(levels: list[dict], hidden: int) -> Cost | None:
    """Our fastest mesh with replicas, which, like those of 2.5-D, sum gradients; None if replicas
    on consecutive devices do not split the levels."""
    every = asked(levels, hidden, fused=True, data_parallel="auto")
    every = [one for one in every if one.data.replicas > 1]
    if not every:
        return None
    best = min(every, key=lambda one: one.seconds + one.data.seconds)
    replicas, mesh = best.data.replicas, best.mesh
    simple = asked(levels, hidden, volume="equation2", data_parallel=replicas)
    of_mesh = rates(next(one for one in simple if one.mesh == mesh))
    sent = 2 * share(replicas) * best.data.bytes
    for ranks, rate, dimension in zip(mesh, of_mesh, best.dimensions, strict=True):
        if ranks > 1:
            sent += 2 * share(ranks) * dimension.bandwidth_seconds / rate
    name = f"replicas {replicas} x ({mesh[0]},{mesh[1]})"
    return Cost(name, sent, best.seconds + best.data.seconds)


def of_layer(hidden: int, tokens: float) -> tuple[float, float]:
    """Bytes of activations and of weights that all products of a layer broadcast or reduce, forward
    and backward: Y = X W, dX = dY W', dW = X' dY each move one of each."""
    activations = 3 * sum(a for a, _ in PRODUCTS) * tokens * hidden * ELEMENT
    weights = 3 * sum(a * b for a, b in PRODUCTS) * hidden**2 * ELEMENT
    return activations, weights


def summa(levels: list[dict], hidden: int, q: int, depth: int) -> Cost | None:
    """None if the network's levels cannot be split this way."""
    try:
        candidates = asked(levels, hidden, volume="equation2", data_parallel=depth)
    except RuntimeError:
        return None
    one = next((one for one in candidates if one.mesh == (q, q)), None)
    if one is None:
        return None
    columns, rows = rates(one)
    activations, weights = (total / q for total in of_layer(hidden, TOKENS / depth))
    sent = share(q) * (activations + weights)
    seconds = activations * rows / 2 + weights * columns / 2
    if depth > 1:
        gradients = 12 * hidden**2 * ELEMENT / q**2
        sent += 2 * share(depth) * gradients
        seconds += gradients * one.data.seconds / one.data.bytes
    name = f"2-D {q} x {q}" if depth == 1 else f"2.5-D {q} x {q} x {depth}"
    return Cost(name, sent, seconds)


def compared(levels: list[dict], hidden: int) -> list[Cost]:
    """All ways; of the 2.5-D grids and of our meshes with replicas the fastest."""
    size = 1
    for one in levels:
        size *= one["count"]
    grids = [(q, size // q**2) for q in range(2, size) if size % q**2 == 0]
    found = [cost for q, depth in grids if (cost := summa(levels, hidden, q, depth))]
    flat = [cost for cost in found if cost.way.startswith("2-D")]
    deep = [cost for cost in found if cost.way.startswith("2.5-D")]
    deep = [min(deep, key=lambda cost: cost.seconds)] if deep else []
    replicated = with_replicas(levels, hidden)
    return [*meshes(levels, hidden), *([replicated] if replicated else []), *flat, *deep]


class Grid:
    """SUMMA on a simulated grid of q x q ranks, which counts what every rank sends or receives."""

    def __init__(self, q: int):
        self.q, self.activations, self.weights = q, 0, 0

    def split(self, whole: torch.Tensor) -> list[list[torch.Tensor]]:
        return [list(row.chunk(self.q, 1)) for row in whole.chunk(self.q, 0)]

    @staticmethod
    def join(blocks: list[list[torch.Tensor]]) -> torch.Tensor:
        return torch.cat([torch.cat(row, 1) for row in blocks])

    def _along_row(self, block: torch.Tensor) -> None:
        self.activations += (self.q - 1) * block.numel()

    def _along_column(self, block: torch.Tensor) -> None:
        self.weights += (self.q - 1) * block.numel()

    def forward(self, x, w):
        """Y = X W: step k broadcasts column k of X along rows and row k of W along columns."""
        y = [[0.0] * self.q for _ in range(self.q)]
        for k in range(self.q):
            for i in range(self.q):
                self._along_row(x[i][k])
                self._along_column(w[k][i])
                for j in range(self.q):
                    y[i][j] = y[i][j] + x[i][k] @ w[k][j]
        return y

    def gradient_of_input(self, dy, w):
        """dX = dY W': step k broadcasts row k of W along columns, and sums along rows."""
        dx = [[0.0] * self.q for _ in range(self.q)]
        for k in range(self.q):
            for i in range(self.q):
                self._along_column(w[k][i])
                dx[i][k] = sum(dy[i][j] @ w[k][j].T for j in range(self.q))
                self._along_row(dx[i][k])
        return dx

    def gradient_of_weight(self, x, dy):
        """dW = X' dY: step k broadcasts column k of X along rows, and sums along columns."""
        dw = [[0.0] * self.q for _ in range(self.q)]
        for k in range(self.q):
            for i in range(self.q):
                self._along_row(x[i][k])
                dw[k][i] = sum(x[j][k].T @ dy[j][i] for j in range(self.q))
                self._along_column(dw[k][i])
        return dw


def plot(rows: list[dict], model: str):
    rows = [row for row in rows if row["model"] == model]
    plt.rcParams["font.size"] = 9
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    colors = {"1-D": "#bbbbbb", "ours": "#0b6e99", "replicas": "#58a4c0",
              "2-D": "#d08030", "2.5-D": "#80a040"}  # fmt: skip
    for number, network in enumerate(NETWORKS):
        own = [row for row in rows if row["network"] == network]
        for place, row in enumerate(own):
            kind = row["way"].split(" ")[0]
            x = number + 0.16 * (place - (len(own) - 1) / 2)
            axes.bar(x, row["seconds"] / own[0]["seconds"], 0.15, color=colors[kind],
                     label=kind if number == 2 else "")  # fmt: skip
            axes.annotate(row["way"].removeprefix(kind).strip(), (x, 0.02), rotation=90,
                          ha="center", va="bottom", fontsize=7)  # fmt: skip
    axes.set_xticks(range(len(NETWORKS)), [name.replace(": ", "\n") for name in NETWORKS])
    axes.set_ylabel(f"time of a layer of {model}, 1-D = 1")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> int:
    arguments = report.parser(__doc__, report.REPOSITORY / "docs" / "plan" / "planner").parse_args()
    rows = []
    for network, levels in NETWORKS.items():
        for model, hidden in MODELS.items():
            print(f"\n{network}, {model} (h = {hidden})")
            for cost in compared(levels, hidden):
                print(
                    f"  {cost.way:16} {cost.sent / 1e6:8.1f} MB sent {cost.seconds * 1e3:8.2f} ms"
                )
                rows.append({"network": network, "model": model, "way": cost.way,
                             "sent_bytes": round(cost.sent), "seconds": cost.seconds})  # fmt: skip
    report.publish(arguments.folder / "summa", rows, plot(rows, "M3"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
