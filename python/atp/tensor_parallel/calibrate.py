"""Measures on the real network what the planner estimates: a program that every rank runs.

    torchrun ... -m atp.tensor_parallel.calibrate --cluster cluster.yaml
    torchrun ... -m atp.tensor_parallel.calibrate --cluster cluster.yaml --compare --model M.json

The first runs the collectives of all groups of a dimension at once, on every mesh, and writes the
times into the cluster file; the planner prefers them to its own estimates. --compare replays one
layer's collectives on every mesh, and prints the prediction next to the measurement.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from atp.planner import Candidate, Plan, plan
from atp.tensor_parallel.agreement import agree
from atp.tensor_parallel.dimension import Dimension, Flight
from atp.tensor_parallel.measured_file import (
    Device,
    Measurements,
    Rate,
    require_cluster,
    write_measurements,
)
from atp.tensor_parallel.mesh import Mesh, init_mesh
from atp.tensor_parallel.replay import Replay, slowest
from atp.tensor_parallel.request import ALGORITHMS, running
from atp.tensor_parallel.transformer import TransformerConfig

__all__ = ["Comparison", "calibrate", "compare", "device_speed"]


def calibrate(
    world_size: int,
    algorithm: str,
    megabytes: float = 4,
    rounds: int = 5,
    with_device: bool = False,
) -> Measurements:
    """The times of collectives by mesh and dimension, all groups at once; the same on every rank.

    Each is measured with `megabytes` and with an eighth of it, which separates latency from
    bandwidth. with_device: also measure how fast the ranks compute, all of them at once.
    """
    sizes = [int(megabytes * 250_000), max(1, int(megabytes * 31_250))]
    found = {}
    for shape in _shapes(world_size):
        mesh = init_mesh(*shape, algorithm=algorithm)
        found[shape] = tuple(_rates(d, sizes, rounds) for d in (mesh.first, mesh.second))
        mesh.close()
    return Measurements(algorithm, found, device_speed(rounds) if with_device else None)


def _shapes(size: int) -> Iterator[tuple[int, int]]:
    return ((d1, size // d1) for d1 in range(size, 0, -1) if size % d1 == 0)


def _rates(dimension: Dimension, sizes: list[int], rounds: int) -> dict[str, Rate] | None:
    """The rates of the collectives that layers use; reduce-scatters only if they are fused."""
    if dimension.size == 1:
        return None
    ways: dict[str, Callable[[torch.Tensor], Flight]] = {"all_reduce": dimension.all_reduce}
    if dimension.fused:
        ways["reduce_scatter"] = lambda whole: dimension.reduce_scatter(
            whole.view(dimension.size, -1)
        )
    ways["all_gather"] = lambda whole: dimension.all_gather(whole.view(dimension.size, -1)[0])
    return {name: _rate(way, dimension.size, sizes, rounds) for name, way in ways.items()}


def _rate(way: Callable[[torch.Tensor], Flight], group: int, sizes: list[int], rounds: int) -> Rate:
    def point(size: int) -> tuple[int, float]:
        values = torch.full((-(-size // group) * group,), 0.5)
        return values.numel() * 4, _median(lambda: way(values.clone()), rounds)

    (bytes1, seconds1), (bytes2, seconds2) = (point(size) for size in sizes)
    slope = (seconds1 - seconds2) / max(1, bytes1 - bytes2)
    latency = seconds2 - bytes2 * slope
    if slope <= 0 or latency < 0:  # noise exceeds the effect of a tensor's size
        return Rate(bytes1 / seconds1, 0.0)
    return Rate(1 / slope, latency)


def _median(start: Callable[[], Flight], rounds: int) -> float:
    """The median of the slowest rank's times. The first round connects, and does not count."""
    seconds = []
    for _ in range(rounds + 1):
        dist.barrier()
        begin = time.perf_counter()
        start().land()
        seconds.append(slowest(time.perf_counter() - begin))
    return statistics.median(seconds[1:])


def device_speed(rounds: int, side: int = 1024) -> Device:
    """Times a product of two square matrices, and a layer's other operations, on all ranks at once.
    The same on every rank."""
    a, b = torch.full((side, side), 0.5), torch.full((side, side), 0.25)
    into = torch.empty_like(a)
    others = _OtherOperations(side)

    def product() -> Flight:
        return Flight(torch.matmul(a, b, out=into))

    products = 2 * side**3 / _median(product, rounds)
    return Device(products, others.counted_bytes / _median(others.run, rounds))


class _OtherOperations:
    """A norm with its residual, a gated activation, forward and backward, and a step of Adam.

    The memory's speed is the bytes that the planner counts for them (atp/planner/step_time.cc)
    divided by their time. It is lower than that of a copy, because libraries read and write more
    often than necessary, and the processor also computes.
    """

    def __init__(self, side: int):
        shape = (side // 2, side)
        self.counted_bytes = 4 * (3 * (11 + 5) * math.prod(shape) + 7 * side**2)
        self._x, self._gate, self._up = (torch.full(shape, 0.5).requires_grad_() for _ in range(3))
        self._gradients = torch.full(shape, 0.5), torch.full(shape, 0.25)
        self._scale = torch.ones(side)
        self._weight = torch.nn.Parameter(torch.full((side, side), 0.5))
        self._weight.grad = torch.full((side, side), 0.5)
        self._optimizer = torch.optim.AdamW([self._weight], lr=1e-6)

    def run(self) -> Flight:
        x = self._x
        normal = x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        added = normal * self._scale + x
        active = torch.nn.functional.silu(self._gate) * self._up
        torch.autograd.grad([added, active], [x, self._gate, self._up], self._gradients)
        self._optimizer.step()
        return Flight(added)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One mesh: the planner's prediction for a layer, and the time of each round."""

    mesh: tuple[int, int]
    collectives: tuple[str, str]
    predicted: float
    measured: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.measured)


def compare(
    cluster: Any, model: Any, algorithm: str, batch: int, sequence: int, rounds: int = 5
) -> list[Comparison]:
    """Measures every mesh that can run the model, best prediction first, rounds interleaved.

    Raises:
        ValueError: a file cannot be read, or the files and the job do not match; on every rank.
    """
    answer = _plan(cluster, model, algorithm, batch, sequence)
    candidates = sorted([answer, *answer.runners_up], key=lambda candidate: candidate.seconds)
    meshes = [_mesh_of(candidate, algorithm) for candidate in candidates]
    replays = [Replay(_config(model), mesh, batch, sequence) for mesh in meshes]
    taken: list[list[float]] = [[] for _ in replays]
    for number in range(rounds + 1):
        for seconds, replay in zip(taken, replays, strict=True):
            once = replay.seconds()
            if number:  # the first round connects and finds the scales
                seconds.append(once)
    for mesh in meshes:
        mesh.close()
    return [
        Comparison(candidate.mesh, candidate.collectives, candidate.seconds, tuple(seconds))
        for candidate, seconds in zip(candidates, taken, strict=True)
    ]


def _plan(cluster: Any, model: Any, algorithm: str, batch: int, sequence: int) -> Plan:
    answer, error = None, None
    try:
        answer = plan(
            cluster,
            model,
            dist.get_world_size(),
            batch=batch,
            sequence=sequence,
            element_bytes=4,
            collectives=("innetwork", "ring") if algorithm == "innetwork" else (algorithm,),
            runtime=True,
        )
    except ValueError as wrong:
        error = wrong
    agree(f"compare {batch} x {sequence} tokens over {algorithm}", error=error)
    assert answer is not None
    return answer


def _mesh_of(candidate: Candidate | Plan, algorithm: str) -> Mesh:
    return init_mesh(
        *candidate.mesh,
        order=candidate.ranks_by_position(),
        algorithm=[running(name, algorithm) for name in candidate.collectives],
    )


def _config(model: Any) -> TransformerConfig:
    """The widths of a Hugging Face config.json, or of its content."""
    data = model if isinstance(model, dict) else json.loads(pathlib.Path(model).read_text())
    llama = data["model_type"] == "llama"
    heads = data["num_attention_heads" if llama else "n_head"]
    return TransformerConfig(
        hidden=data["hidden_size" if llama else "n_embd"],
        heads=heads,
        kv_heads=data.get("num_key_value_heads"),
        head_dim=data.get("head_dim") if llama else None,
        ffn=data.get("intermediate_size") if llama else data.get("n_inner"),
        gated=llama,
        bias=False,
    )


def table(comparisons: list[Comparison]) -> str:
    """The result of `compare` as a table."""
    lines = ["mesh    dimension 1  dimension 2  predicted    measured   measured/predicted"]
    for one in comparisons:
        mesh = f"({one.mesh[0]},{one.mesh[1]})"
        first, second = (name.replace("none", "-") for name in one.collectives)
        times = f"{one.predicted * 1e3:8.2f} ms {one.median * 1e3:8.2f} ms"
        lines.append(f"{mesh:7} {first:12} {second:12} {times} {one.median / one.predicted:12.2f}")
    return "\n".join(lines)


_CALIBRATE = "Measures the collectives of every mesh, and writes their times into the cluster file."
_COMPARE = "Measures one layer's collectives on every mesh, and prints them next to the prediction."


def _arguments(words: list[str]) -> argparse.Namespace:
    compares = "--compare" in words
    parser = argparse.ArgumentParser(
        prog="atp plan compare" if compares else "atp plan calibrate",
        description=f"{_COMPARE if compares else _CALIBRATE} Every rank of a job runs it.",
        allow_abbrev=False,
    )
    parser.add_argument("--compare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cluster", metavar="FILE", required=True, help="cluster file")
    parser.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        default="ring",
        help="how to sum tensors (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="timed rounds, of which the median is used (default: %(default)s)",
    )
    (_add_compare if compares else _add_calibrate)(parser)
    arguments = parser.parse_args(words)
    if arguments.rounds < 1:
        parser.error(f"--rounds: found {arguments.rounds}, expected at least 1")
    if not compares and not 0 < arguments.megabytes < math.inf:
        parser.error(f"--megabytes: found {arguments.megabytes}, expected more than 0")
    if "RANK" not in os.environ:
        parser.error(f"run it on every rank: atp run -n N -- {parser.prog} ..., or torchrun")
    return arguments


def _add_calibrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--megabytes",
        type=float,
        default=4,
        help="size of the largest tensor in MB (default: %(default)s)",
    )
    parser.add_argument(
        "--device", action="store_true", help="also measure how fast a rank computes"
    )


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="FILE", required=True, help="the model's config.json")
    parser.add_argument(
        "--batch", type=int, default=4, help="sequences per step (default: %(default)s)"
    )
    parser.add_argument(
        "--sequence", type=int, default=256, help="tokens per sequence (default: %(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the numbers to this file")


def main(words: list[str]) -> None:
    arguments = _arguments(words)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        (_main_compare if arguments.compare else _main_calibrate)(arguments)
    except (ValueError, OSError) as error:
        # In one write, so that the ranks' lines do not mix.
        sys.stderr.write(f"atp plan: rank {dist.get_rank()}: {error}\n")
        raise SystemExit(1) from None
    finally:
        dist.destroy_process_group()


def _main_calibrate(arguments: argparse.Namespace) -> None:
    error = None
    try:
        if dist.get_rank() == 0:
            require_cluster(arguments.cluster, dist.get_world_size())  # before time is spent
    except (ValueError, OSError) as wrong:
        error = wrong
    agree(f"calibrate over {arguments.algorithm}", error=error)
    found = calibrate(
        dist.get_world_size(),
        arguments.algorithm,
        arguments.megabytes,
        arguments.rounds,
        arguments.device,
    )
    if dist.get_rank() == 0:
        write_measurements(arguments.cluster, found)
        print(f"wrote the times of {len(found.meshes)} meshes to {arguments.cluster}")


def _main_compare(arguments: argparse.Namespace) -> None:
    found = compare(
        arguments.cluster,
        arguments.model,
        arguments.algorithm,
        arguments.batch,
        arguments.sequence,
        arguments.rounds,
    )
    if dist.get_rank() == 0:
        print(table(found))
        if arguments.json:
            text = json.dumps([dataclasses.asdict(one) for one in found], indent=1)
            pathlib.Path(arguments.json).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
