"""The requested mesh: every rank reads, plans and checks it before any group is made."""

import dataclasses
import inspect
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from atp.tensor_parallel.difference import counted

__all__ = ["ALGORITHMS", "Request", "request_of", "running"]

ALGORITHMS = ("gloo", "ring", "innetwork")


@dataclasses.dataclass(frozen=True)
class Request:
    """The values that must be the same on every rank before groups are made."""

    shape: tuple[int, int]
    data_parallel: int
    algorithms: tuple[str, str, str]  # data, dimension 1, dimension 2
    positions: tuple[int, ...]  # of the device of each mesh rank, in a replica
    plan: Any = None
    fused: bool | None = None
    seed: int = 0
    sequence_parallel: bool = False

    def __str__(self) -> str:
        replicas, (d1, d2) = self.data_parallel, self.shape
        order = "" if self.positions == tuple(range(d1 * d2)) else f", devices {self.positions}"
        fused = "" if self.fused is None else f", fused={self.fused}"
        tokens = ", sequence parallel" if self.sequence_parallel else ""
        return f"{replicas} x ({d1},{d2}) over {'/'.join(self.algorithms)}{order}{fused}{tokens}"

    def ranks(self) -> torch.Tensor:
        """Global ranks, [data, d1, d2]."""
        one = torch.tensor(self.positions, dtype=torch.int)
        offsets = torch.arange(self.data_parallel, dtype=torch.int).unsqueeze(1) * one.numel()
        return (offsets + one).view(self.data_parallel, *self.shape)


def request_of(
    d1, d2, cluster, model, data_parallel, order, algorithm, data_algorithm, fused,
    sequence_parallel, dtype, planning
) -> Request:  # fmt: skip
    """The request that follows from init_mesh()'s arguments.

    Raises:
        ValueError, TypeError, RuntimeError: an argument is wrong, or does not fit the job.
    """
    world = dist.get_world_size()
    _check_names(planning)
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype: found {dtype!r}, expected a torch.dtype, e.g. torch.bfloat16")
    if d1 == "auto":
        if d2 is not None or cluster is None or model is None:
            raise ValueError('init_mesh("auto") needs cluster=... and model=..., and no d2')
        replicas = "auto" if data_parallel == "auto" else _whole("data_parallel", data_parallel)
        if replicas != "auto" and world % replicas:
            raise ValueError(f"data_parallel = {replicas} does not divide the {world} ranks")
        return _planned(
            cluster, model, world, replicas, order, algorithm, data_algorithm, fused,
            sequence_parallel, dtype, planning
        )  # fmt: skip
    if data_parallel == "auto":
        raise ValueError('data_parallel="auto": only init_mesh("auto") asks the planner')
    replicas = _whole("data_parallel", data_parallel)
    if planning or cluster is not None or model is not None or dtype is not None:
        given = {**planning, "cluster": cluster, "model": model, "dtype": dtype}
        names = ", ".join(name for name, value in given.items() if value is not None)
        raise ValueError(f'{names}: only init_mesh("auto") asks the planner')
    shape = _whole("d1", d1), _whole("d2", 1 if d2 is None else d2)
    if math.prod(shape) * replicas != world:
        raise ValueError(
            f"mesh {shape} with {counted(replicas, 'replica')} has {math.prod(shape) * replicas} "
            f"ranks, but the job has {world}: d1 * d2 * data_parallel must be {world}"
        )
    algorithms = (_known(data_algorithm or "gloo", "data_algorithm"), *_pair(algorithm or "gloo"))
    positions = _positions(order, math.prod(shape))
    return Request(
        shape, replicas, algorithms, positions, fused=fused, sequence_parallel=sequence_parallel
    )


def _planned(
    cluster, model, world, replicas, order, algorithm, data_algorithm, fused, sequence_parallel,
    dtype, planning
) -> Request:  # fmt: skip
    given = None if algorithm is None else _pair(algorithm)
    if dtype is not None:
        planning = {"element_bytes": dtype.itemsize} | planning
    if sequence_parallel:
        planning = planning | {"sequence_parallel": True}
    between = (
        [_known(data_algorithm, "data_algorithm")] if data_algorithm else ["ring", "innetwork"]
    )
    of_job = {"data_parallel": replicas, "data_collectives": between}
    try:
        answer = _best(cluster, model, world, given, fused, planning | of_job)
    except ValueError:
        if replicas in (1, "auto"):
            raise
        # The cluster may be that of one replica.
        answer = _best(cluster, model, world // replicas, given, fused, planning)
    else:
        replicas = answer.data.replicas
    size = math.prod(answer.mesh)
    positions = _positions(answer.order() if order is None else order, size)
    # "gloo" if the planner did not choose.
    data = data_algorithm or running(answer.data.collective)
    algorithms = (_known(data), *(given or map(running, answer.collectives)))
    return Request(
        answer.mesh, replicas, algorithms, positions, answer, fused,
        sequence_parallel=sequence_parallel,
    )  # fmt: skip


def running(collective: str, unnamed: str = "ring") -> str:
    """The algorithm that runs a collective of the planner's: `unnamed` for a measurement that names
    none; gloo for a dimension of one rank, which sends nothing."""
    if collective == "none":
        return "gloo"
    return collective if collective in ALGORITHMS else unnamed


def _best(cluster, model, size, given, fused, planning) -> Any:
    """The planner's answer among the meshes and algorithms that can run."""
    from atp.planner import plan

    planning = dict(planning)
    if "fused" in planning:
        raise ValueError("fused: pass it to init_mesh() only")
    theirs = _is_of_transformers(model)
    planning.setdefault("by_heads", theirs)
    planning.setdefault("whole_logits", theirs)
    wanted = planning.pop("collectives", None)
    if given is not None:
        if wanted is not None:
            raise ValueError("collectives: algorithm= already sets the algorithms")
        wanted = [[one] for one in given]
    elif wanted is None:
        wanted = ["ring", "innetwork"]
    return plan(cluster, model, size, collectives=wanted, fused=fused, runtime=True, **planning)


def _is_of_transformers(model: Any) -> bool:
    """Whether transformers wrote the configuration: such a model's attention blocks keep their own
    forward pass and share only heads, and its head returns all logits."""
    key = "transformers_version"
    if isinstance(model, Mapping):
        return key in model
    try:
        with open(model, encoding="utf-8", errors="replace") as file:
            return f'"{key}"' in file.read()
    except OSError:
        return False  # the planner reports it


def _positions(order: Sequence[int] | None, size: int) -> tuple[int, ...]:
    order = list(range(size)) if order is None else list(order)
    if sorted(order) != list(range(size)):
        raise ValueError(f"order: found {order}, expected each of 0 to {size - 1} once")
    return tuple(order.index(rank) for rank in range(size))


def _check_names(planning: Mapping[str, Any]) -> None:
    if not planning:
        return
    from atp.planner import plan

    if unknown := planning.keys() - inspect.signature(plan).parameters.keys():
        raise ValueError(f"init_mesh() has no option {', '.join(sorted(unknown))}")


def _pair(algorithm: str | Sequence[str]) -> tuple[str, str]:
    pair = (algorithm, algorithm) if isinstance(algorithm, str) else tuple(algorithm)
    if len(pair) != 2:
        raise ValueError(f"algorithm: found {algorithm!r}, expected one, or one for each dimension")
    return _known(pair[0]), _known(pair[1])


def _known(algorithm: str, name: str = "algorithm") -> str:
    if algorithm not in ALGORITHMS:
        raise ValueError(f"{name}: found {algorithm!r}, expected one of {', '.join(ALGORITHMS)}")
    return algorithm


def _whole(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: found {value!r}, expected a whole number") from None
    if number < 1:
        raise ValueError(f"{name}: found {number}, expected at least 1")
    return number
