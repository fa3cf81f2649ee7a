"""The device mesh: d1 rows and d2 columns, and a process group for each row and each column."""

import dataclasses
import datetime
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from atp.tensor_parallel.agreement import PATIENCE, agree
from atp.tensor_parallel.dimension import Dimension
from atp.tensor_parallel.optimizers import refuse_optimizers_of_whole_matrices
from atp.tensor_parallel.randomness import Randomness
from atp.tensor_parallel.request import Request, request_of
from atp.tensor_parallel.torchs_norm import replace_torchs_norm
from atp.tensor_parallel.wrappers import refuse_wrappers_of_pieces

__all__ = ["Mesh", "current_mesh", "init_mesh"]

DIMENSION_NAMES = ("data", "tp1", "tp2")

_current: list["Mesh"] = []


@dataclasses.dataclass(frozen=True, eq=False)
class Mesh:
    """A mesh of d1 x d2 ranks (paper §3.1), and as many replicas of it as the job has room for.

    Rank i * d2 + j of a replica is in row i and column j. A collective on dimension 1 joins the d1
    ranks of a column, one on dimension 2 the d2 ranks of a row.
    """

    device_mesh: DeviceMesh
    """torch's mesh, with the dimensions "data", "tp1" and "tp2"."""
    first: Dimension
    second: Dimension
    data: Dimension
    randomness: Randomness
    """The random numbers of dropout."""
    seed: int = 0
    """Rank 0's torch.initial_seed(), from which all ranks draw the initial weights."""
    plan: Any = None
    """The planner's answer, if it was asked."""
    sequence_parallel: bool = False
    """Whether the rows share the tokens between the blocks."""

    @property
    def splits_tokens(self) -> bool:
        """Whether a rank has only some of a sequence's tokens between the blocks."""
        return self.sequence_parallel and self.first.size > 1

    def with_whole_sequences(self) -> "Mesh":
        """The same mesh, for modules in which every row has all tokens."""
        return dataclasses.replace(self, sequence_parallel=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.first.size, self.second.size

    @property
    def row(self) -> int:
        return self.first.index

    @property
    def column(self) -> int:
        return self.second.index

    def generator(self, site: str) -> torch.Generator:
        """Draws the same numbers on every rank, and on every mesh, for a layer of this name."""
        return torch.Generator().manual_seed((self.seed + zlib.crc32(site.encode())) % 2**63)

    def __deepcopy__(self, _memo: dict) -> "Mesh":
        return self  # a copy of a model runs on the same mesh

    def __repr__(self) -> str:
        algorithms = "/".join((self.first.algorithm, self.second.algorithm))
        replicas = f", {self.data.size} replicas" if self.data.size > 1 else ""
        tokens = ", sequence parallel" if self.sequence_parallel else ""
        return f"Mesh{self.shape} over {algorithms}{replicas}{tokens}"

    def close(self) -> None:
        """Destroys the mesh's groups. All ranks must call it."""
        if self in _current:
            _current.remove(self)
        for dimension in (self.data, self.first, self.second):
            dist.destroy_process_group(dimension.group)


def init_mesh(
    d1: int | str,
    d2: int | None = None,
    *,
    cluster: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    model: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    data_parallel: int | str = 1,
    order: Sequence[int] | None = None,
    algorithm: str | Sequence[str] | None = None,
    data_algorithm: str | None = None,
    fused: bool | None = None,
    sequence_parallel: bool = False,
    dtype: torch.dtype | None = None,
    options: Any = None,
    patience: datetime.timedelta = PATIENCE,
    **planning: Any,
) -> Mesh:
    """Makes the mesh on which tensor parallelism runs; a collective of all ranks of the job.

        mesh = init_mesh(4, 2)
        mesh = init_mesh("auto", cluster="cluster.yaml", model="config.json")

    Args:
        d1, d2: rows and columns; d1 * d2 * data_parallel must be the number of the job's ranks.
            (N, 1) is plain tensor parallelism as in Megatron-LM. "auto" asks `atp.planner.plan`.
        cluster, model: the planner's inputs. They are only for "auto", and so are the planner's
            further arguments, `planning` (batch, sequence, ...). by_heads defaults to true for a
            configuration written by transformers.
        data_parallel: the number of replicas of the mesh, each on consecutive ranks. With "auto"
            the cluster is that of the whole job, and `batch` is that of all replicas together;
            data_parallel="auto" lets the planner choose the number, and fully_shard=True plans for
            replicas that hold parts of the weights (FSDP). A cluster of a single replica is also
            accepted, with that replica's batch.
        order: the mesh rank of each rank of a replica, as the plan's `order()` returns
            it; default: the planner's choice, else the ranks' own order.
        algorithm: how sums run, on both dimensions or one for each: "gloo", "innetwork" (through
            switches) or "ring" (ours, over TCP). Default: the planner's choice, else "gloo". With
            "auto" the planner chooses among the algorithms given here.
        data_algorithm: the same for the gradients of the replicas, one algorithm. Default: the
            planner's choice for a cluster of the whole job, else "gloo".
        fused: reduce-scatter where only a slice of a sum is used. Default: on rings.
        sequence_parallel: between the blocks each of the d1 ranks of a column has some of the
            tokens of every sequence, instead of a copy of all. Norms and dropouts work on these,
            and each sum on dimension 1 becomes a reduce-scatter and an all-gather. d1 must divide
            the sequences' length (in a model of transformers, only in training).
        dtype: the type of the activations that "auto" plans for; default: the model file's.
        options: an `atp.torch.Options` for the dimensions that do not use "gloo".
        patience: how long to wait for the other ranks.

    Raises:
        ValueError: the mesh does not fit the job, an argument is wrong, or the ranks disagree;
            raised on every rank.
        TimeoutError: a rank did not make this call in time.
    """
    if not dist.is_initialized():
        raise ValueError(
            "init_mesh() needs a process group: call torch.distributed.init_process_group() first"
        )
    request, error = None, None
    try:
        request = request_of(
            d1, d2, cluster, model, data_parallel, order, algorithm, data_algorithm, fused,
            sequence_parallel, dtype, planning
        )  # fmt: skip
    except (ValueError, TypeError, RuntimeError) as wrong:
        error = wrong
    seed = agree(f"init_mesh: {request}", str(torch.initial_seed()), error=error, patience=patience)
    request = dataclasses.replace(request, seed=int(seed))
    return _make(request, options)


def _make(request: Request, options: Any) -> Mesh:
    ranks = request.ranks()
    dimensions = []
    for axis, algorithm in enumerate(request.algorithms):
        group = _own_group(ranks, axis, algorithm, options)
        # On dimension 1 only sequence parallelism uses slices.
        fused = request.fused if axis == 2 or (axis and request.sequence_parallel) else False
        dimensions.append(Dimension(axis, group, algorithm, fused))
    device_mesh = DeviceMesh.from_group(
        [dimension.group for dimension in dimensions],
        _device_type(),
        mesh=ranks,
        mesh_dim_names=DIMENSION_NAMES,
    )
    data, first, second = dimensions
    tokens = request.sequence_parallel
    randomness = Randomness(request.seed, data.index, first.index, second.index)
    mesh = Mesh(device_mesh, first, second, data, randomness, request.seed, request.plan, tokens)
    _current.append(mesh)
    refuse_wrappers_of_pieces()
    replace_torchs_norm()
    refuse_optimizers_of_whole_matrices()
    return mesh


def _device_type() -> str:
    """The device type of tensors in the job's own group: an accelerator's if it has a backend.

    A torch built with CUDA names it on a machine without a GPU too, so ask for one that is here.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None and accelerator.type in str(dist.get_backend_config()):
        return accelerator.type
    return torch.get_default_device().type


def current_mesh() -> Mesh:
    """Of the meshes that are not closed, the one that init_mesh() made last."""
    if not _current:
        raise ValueError("there is no mesh: call init_mesh(d1, d2) first, or pass mesh=...")
    return _current[-1]


def _own_group(ranks: torch.Tensor, axis: int, algorithm: str, options) -> dist.ProcessGroup:
    """Every rank makes all groups of a dimension, in the same order, and keeps its own."""
    lines = ranks.movedim(axis, -1).reshape(-1, ranks.shape[axis]).tolist()
    own = None
    for line in lines:
        group = dist.new_group(line, sort_ranks=False, **_backend(algorithm, options, len(line)))
        if dist.get_rank() in line:
            own = group
    assert own is not None
    return own


def _backend(algorithm: str, options: Any, size: int) -> dict[str, Any]:
    if algorithm == "gloo" or size == 1:
        return {"backend": "gloo"}
    from atp.torch import Options

    base = options or Options()
    return {"backend": "atp", "pg_options": dataclasses.replace(base, algorithm=algorithm)}
