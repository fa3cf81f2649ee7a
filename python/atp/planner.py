"""Finds the device mesh on which a transformer communicates least.

    from atp.planner import plan

    answer = plan("cluster.yaml", "config.json", ranks=8)
    answer.mesh            # (8, 1)
    answer.collectives     # ("innetwork", "none")
    answer.seconds         # of one layer, forward and backward

The same search as `atp plan best`, with the same results; docs/plan/planner.md describes the cost
model. Planning needs neither the described cluster nor torch.
"""

import dataclasses
import json
import math
import operator
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

try:
    from atp import _planner
except ImportError as error:
    raise ImportError(
        "this atp was built without its planner, because yaml-cpp or nlohmann-json was missing: "
        "apt-get install libyaml-cpp-dev nlohmann-json3-dev and install atp again; "
        "or use the program: atp plan best --json"
    ) from error

__all__ = [
    "Candidate",
    "Change",
    "Data",
    "Dimension",
    "Ends",
    "Feasibility",
    "Memory",
    "Plan",
    "Rejected",
    "Step",
    "core_spread",
    "feasibility",
    "plan",
]

Mode = Literal["linkload", "paper", "paper-literal"]
Volume = Literal["exact", "equation2"]
Recompute = Literal["none", "selective", "full"]
Collective = Literal["ring", "hierarchical", "innetwork", "gloo"]
ALL_COLLECTIVES: tuple[Collective, ...] = ("ring", "hierarchical", "innetwork", "gloo")


@dataclasses.dataclass(frozen=True)
class Dimension:
    """The communication cost of one mesh dimension in one layer, forward and backward."""

    collective: str
    """How its all-reduces run: "none" (one rank), "ring", "hierarchical", "innetwork", "gloo", or
    "measured" where a measurement does not say what ran."""
    reduce_scatter: str
    """How the layer's reduce-scatters run; "none" if it has none."""
    all_gather: str
    seconds: float
    bandwidth_seconds: float
    latency_seconds: float
    bytes: float
    """Size of a rank's tensors that are reduced or gathered."""
    operations: float
    fallback_share: float
    """Share of the fragments that in-network aggregation leaves to the servers."""
    bottleneck: str
    why: str


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes on one rank, all layers."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    working: float
    """The logits and their gradients or, if that is more, the gradients of one layer."""
    total: float


@dataclasses.dataclass(frozen=True)
class Ends:
    """Cost of embedding, last norm, head and loss together, forward and backward."""

    seconds: float
    norm_seconds: float
    bytes: tuple[float, float]
    """By dimension: size of a rank's tensors that are summed, or gathered for whole logits, without
    the norm's statistics."""


@dataclasses.dataclass(frozen=True)
class Step:
    """The time of one training step."""

    seconds: float
    """The whole step; without a device speed, only its collectives."""
    is_timed: bool
    """Whether the device speed is known; otherwise the computing times below are 0."""
    products: float
    """Seconds in matrix products."""
    others: float
    """Seconds in all other computation."""
    sent: float
    """Seconds in collectives, as if nothing overlapped."""
    waited: float
    """The part of `sent` that computing does not hide."""


@dataclasses.dataclass(frozen=True)
class Data:
    """What the replicas of a mesh exchange in a step."""

    replicas: int
    fully_shard: bool
    collective: str
    """How gradients are summed; "none" with one replica."""
    bytes: float
    """Size of a rank's tensors: gradients and, if fully sharded, weights twice."""
    seconds: float
    waited: float
    """Part of `step.seconds`: what computing does not hide; all, without a device speed."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A mesh and its layout on the levels of the cluster."""

    mesh: tuple[int, int]
    """(d1, d2): rank i * d2 + j is at row i, column j."""
    collectives: tuple[str, str]
    """How the sums run, by dimension, as in `Dimension.collective`."""
    seconds: float
    """Communication time of one layer, forward and backward."""
    norm_seconds: float
    ends: Ends
    step: Step
    layout: tuple[tuple[int, int], ...]
    """By level, top to bottom: how its count is split into dimension 1 and dimension 2."""
    dimensions: tuple[Dimension, Dimension]
    memory: Memory
    data: Data
    sequence_parallel: bool
    measured: bool
    """Whether the costs are the cluster file's measurements of this mesh."""
    notes: tuple[str, ...]

    def ranks_by_position(self) -> list[int]:
        """The mesh rank of each device; devices are numbered through the levels."""
        if not self.layout:  # a measured mesh that splits no level evenly: in device order
            return list(range(math.prod(self.mesh)))
        return _planner.ranks_by_position(self.layout)


@dataclasses.dataclass(frozen=True)
class Rejected:
    """A mesh that cannot run the model, and all reasons why."""

    mesh: tuple[int, int]
    reasons: tuple[str, ...]
    replicas: int = 1


@dataclasses.dataclass(frozen=True)
class Change:
    """A change to the cluster or the batch that makes a different answer the best."""

    text: str
    factor: float
    mesh: tuple[int, int]
    collectives: tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Plan(Candidate):
    """The best mesh, and the alternatives considered."""

    seconds_per_step: float
    use_one_dimensional: bool
    """The best mesh is (N, 1): plain tensor parallelism."""
    one_dimensional: Candidate | None
    """The mesh (N, 1), if it can run the model."""
    gain_over_one_dimensional: float
    """The time of (N, 1) divided by that of the best mesh."""
    runners_up: tuple[Candidate, ...]
    """Best first."""
    rejected: tuple[Rejected, ...]
    what_would_change_it: tuple[Change, ...]
    cluster: str
    model: str
    ranks: int
    layers: int
    mode: str
    volume: str
    job_ranks: tuple[int, ...]
    """The job rank of each device: devices are numbered rack by rack, job ranks in the order of
    `hosts`. Empty: both numberings are the same."""

    def order(self) -> list[int]:
        """The mesh rank of each rank of a replica, which init_mesh(order=...) takes."""
        ranks = self.ranks_by_position()
        if self.data.replicas > 1:  # planned only if the job's ranks are in the devices' order
            return ranks
        order = [0] * len(ranks)
        for job_rank, rank in zip(self.job_ranks or range(len(ranks)), ranks, strict=True):
            order[job_rank] = rank
        return order


@dataclasses.dataclass(frozen=True)
class Feasibility:
    """Whether a mesh can run a model."""

    reasons: tuple[str, ...]
    """Why it cannot; empty if it can."""
    notes: tuple[str, ...]


def feasibility(
    model: str | os.PathLike[str] | Mapping[str, Any],
    mesh: tuple[int, int],
    *,
    batch: int = 4,
    chunks: int = 1,
) -> Feasibility:
    """Whether the runtime can run `model` on `mesh`, by the rules that `plan` applies.

    Raises:
        ValueError: a file or an argument is wrong.
    """
    sides = _whole("d1", mesh[0]), _whole("d2", mesh[1])
    reasons, notes = _planner.feasibility(
        _description("model", model), sides, _whole("batch", batch), _whole("chunks", chunks)
    )
    return Feasibility(tuple(reasons), tuple(notes))


def core_spread(heads: int, kv_heads: int, mesh: tuple[int, int], batch: int) -> str | None:
    """How the ranks of a row share the attention core for `batch` sequences at once.

    "whole" (the row has one rank), "heads", "sequences", "heads with shared kv"; None: they cannot.
    `mesh[0]` must divide the heads.
    """
    counts = _whole("heads", heads), _whole("kv_heads", kv_heads)
    sides = _whole("d1", mesh[0]), _whole("d2", mesh[1])
    return _planner.core_spread(*counts, *sides, _whole("batch", batch)) or None


def plan(
    cluster: str | os.PathLike[str] | Mapping[str, Any],
    model: str | os.PathLike[str] | Mapping[str, Any],
    ranks: int | None = None,
    *,
    batch: int = 4,
    sequence: int = 2048,
    element_bytes: int | None = None,
    full_attention: bool = False,
    mode: Mode = "linkload",
    collectives: Sequence[Collective] | Sequence[Sequence[Collective]] = ALL_COLLECTIVES,
    point_to_point_correction: bool = True,
    volume: Volume = "exact",
    fused: bool | None = None,
    count_norms: bool = False,
    chunks: int = 1,
    micro_batch: int | None = None,
    recompute: Recompute = "none",
    device_memory_gb: float | None = None,
    runtime: bool | None = None,
    attention_scores: bool = False,
    by_heads: bool = False,
    whole_logits: bool = False,
    sequence_parallel: bool | Literal["auto"] = False,
    hosts: Sequence[str] = (),
    ranks_per_host: int | None = None,
    data_parallel: int | Literal["auto"] = 1,
    fully_shard: bool = False,
    data_collectives: Sequence[Collective] = ALL_COLLECTIVES,
) -> Plan:
    """Plans tensor parallelism of `model` on `cluster`.

    Args:
        cluster: a cluster file, or its content as a mapping.
        model: a Hugging Face config.json, or its content as a mapping (`model.config.to_dict()`),
            of a gpt2, a llama, or one of the types with a llama's matrices that
            atp.tensor_parallel runs.
        ranks: their number, which must be that of the devices; None: all devices.
        batch, sequence: sequences per step, and tokens per sequence.
        element_bytes: bytes of one activation; None: what the model file says, else 2.
        full_attention: each token attends to the whole sequence, not only to those before it.
        mode: "linkload", the load that all groups together put on every link, or the paper's
            equations: "paper" corrected, "paper-literal" as printed.
        collectives: the algorithms allowed on both dimensions, or a pair, one entry per dimension.
        point_to_point_correction: in the paper's modes, the bandwidth between two devices limits
            a group's bandwidth.
        volume: "exact", the all-reduces and all-gathers of a layer, or the paper's "equation2",
            which counts them all as all-reduces (and so do the paper's modes).
        fused: reduce-scatter where only a slice of an all-reduce is used (only with exact
            volumes). None: where the runtime does so by default.
        count_norms: also count the norms' small all-reduces.
        chunks: the number of parts of the batch that overlap.
        micro_batch: sequences that a replica runs at once, adding up their gradients; None: all.
        recompute: what the backward pass computes again to save memory: "selective", norms and
            activation functions; "full", each layer.
        device_memory_gb: refuse meshes that need more than this on a device.
        runtime: consider only what atp.tensor_parallel can run: on each dimension a ring or
            innetwork, with reduce-scatters where our own ring runs. None: yes, except in the
            paper's modes, with "equation2", and if "hierarchical" is named.
        attention_scores: assume that attention stores its scores in memory.
        by_heads: split the attention core by heads only, as models of `transformers` require.
        whole_logits: every rank gets all logits and computes the whole loss, as in these models.
        sequence_parallel: between the blocks the rows of the mesh share each sequence's tokens;
            with whole_logits, only inside the layers. "auto": where that is faster.
        hosts, ranks_per_host: plan for these hosts of the cluster, with this many ranks on each,
            as in `atp run`; default: all hosts, and the file's number of ranks.
        data_parallel: replicas of the mesh, each on consecutive ranks with its part of the batch;
            "auto": as many as take the least time.
        fully_shard: each replica holds a part of the weights and gathers the others for every
            layer (FSDP), instead of summing the gradients of whole copies.
        data_collectives: the algorithms allowed between replicas.

    Raises:
        ValueError: a file or an argument is wrong; the message has file, line and key.
        TypeError: an argument that must be a number is not.
        RuntimeError: no mesh can run the model; the message has the reasons, mesh by mesh.
    """
    first, second = _by_dimension(collectives)
    named = collectives is not ALL_COLLECTIVES and "hierarchical" in (*first, *second)
    choices = _planner.Choices(
        mode=mode,
        collectives=first,
        collectives2=second,
        batch=_whole("batch", batch),
        sequence=_whole("sequence", sequence),
        element_bytes=0 if element_bytes is None else _element_bytes(element_bytes),
        full_attention=full_attention,
        point_to_point_correction=point_to_point_correction,
        volume=volume,
        fused=fused,
        count_norms=count_norms,
        chunks=_whole("chunks", chunks, 1024),
        micro_batch=0 if micro_batch is None else _whole("micro_batch", micro_batch),
        recompute=recompute,
        device_memory_bytes=0.0 if device_memory_gb is None else _gigabytes(device_memory_gb),
        runtime=mode == "linkload" and volume == "exact" and not named
        if runtime is None
        else runtime,
        stores_attention_scores=attention_scores,
        by_heads=by_heads,
        whole_logits=whole_logits,
        sequence_parallel=sequence_parallel is True,
        searches_sequence_parallel=sequence_parallel == "auto",
        hosts=list(hosts),
        replicas=0 if data_parallel == "auto" else _whole("data_parallel", data_parallel, 2**20),
        fully_shard=fully_shard,
        data_collectives=list(data_collectives),
        ranks_per_host=0 if ranks_per_host is None else _whole("ranks_per_host", ranks_per_host),
    )
    size = 0 if ranks is None else _whole("ranks", ranks)
    text = _planner.plan_json(
        _description("cluster", cluster), _description("model", _as_llama(model)), size, choices
    )
    return _plan(json.loads(text))


def _by_dimension(collectives: Sequence[Any]) -> tuple[list[str], list[str]]:
    names = [isinstance(one, str) for one in collectives]
    if all(names) and not isinstance(collectives, str):
        return list(collectives), list(collectives)
    if any(names) or len(collectives) != 2:
        raise ValueError(
            f"collectives: found {collectives!r}, expected names, or names for each of 2 dimensions"
        )
    return list(collectives[0]), list(collectives[1])


def _whole(name: str, value: int, most: int = 2**30) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: found {value!r}, expected an int") from None
    if not 1 <= number <= most:
        raise ValueError(f"{name}: found {number}, expected a whole number from 1 to {most}")
    return number


def _element_bytes(value: int) -> int:
    if _whole("element_bytes", value) not in (1, 2, 4, 8):
        raise ValueError(f"element_bytes: found {value}, expected 1, 2, 4 or 8")
    return value


def _gigabytes(value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"device_memory_gb: found {value!r}, expected a number") from None
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"device_memory_gb: found {value}, expected a finite number above 0")
    return number * 1e9


_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
# A configuration does not tell whether feed-forward blocks are gated; these types' are, and
# atp.tensor_parallel runs them.
_LIKE_LLAMA = frozenset(
    "cohere cohere2 cwm ernie4_5 exaone4 gemma gemma2 gemma3_text glm glm4 granite helium "
    "hunyuan_v1_dense hyperclovax ministral ministral3 mistral olmo olmo2 olmo3 phi3 qwen2 qwen3 "
    "seed_oss smollm3 stablelm vaultgemma".split()
)


def _as_llama(model: str | os.PathLike[str] | Mapping[str, Any]) -> Any:
    """The sizes of a model with a llama's matrices, as a llama's; any other as it is, for the
    planner to read or refuse."""
    try:
        content = model if isinstance(model, Mapping) else json.loads(Path(model).read_text())
    except (OSError, ValueError):
        return model
    is_like = isinstance(content, Mapping) and content.get("model_type") in _LIKE_LLAMA
    if not is_like or not all(isinstance(content.get(size), int) for size in _SIZES):
        return model
    return {**content, "model_type": "llama"}


def _description(
    name: str, value: str | os.PathLike[str] | Mapping[str, Any]
) -> _planner.Description:
    if isinstance(value, Mapping):
        # JSON is also YAML, except for its escapes of characters beyond 16 bits.
        text = json.dumps(dict(value), indent=1, ensure_ascii=False)
        return _planner.Description(f"<{name}>", text, is_text=True)
    return _planner.Description(os.fspath(value))


def _candidate_fields(data: dict[str, Any]) -> dict[str, Any]:
    first, second = (Dimension(**dimension) for dimension in data["dimensions"])
    return {
        "mesh": tuple(data["mesh"]),
        "collectives": tuple(data["collectives"]),
        "seconds": data["seconds"],
        "norm_seconds": data["norm_seconds"],
        "ends": Ends(**{**data["ends"], "bytes": tuple(data["ends"]["bytes"])}),
        "step": Step(**data["step"]),
        "layout": tuple(tuple(split) for split in data["layout"]),
        "dimensions": (first, second),
        "memory": Memory(**data["memory_bytes"]),
        "data": Data(**data["data"]),
        "sequence_parallel": data["sequence_parallel"],
        "measured": data["measured"],
        "notes": tuple(data["notes"]),
    }


def _plan(data: dict[str, Any]) -> Plan:
    one = data["one_dimensional"]
    return Plan(
        **_candidate_fields(data),
        seconds_per_step=data["seconds_per_step"],
        use_one_dimensional=data["use_one_dimensional"],
        one_dimensional=None if one is None else Candidate(**_candidate_fields(one)),
        gain_over_one_dimensional=data["gain_over_one_dimensional"],
        runners_up=tuple(Candidate(**_candidate_fields(c)) for c in data["runners_up"]),
        rejected=tuple(
            Rejected(tuple(r["mesh"]), tuple(r["reasons"]), r["replicas"]) for r in data["rejected"]
        ),
        what_would_change_it=tuple(
            Change(
                text=c["change"],
                factor=c["factor"],
                mesh=tuple(c["mesh"]),
                collectives=tuple(c["collectives"]),
            )
            for c in data["what_would_change_it"]
        ),
        cluster=data["cluster"],
        model=data["model"],
        ranks=data["ranks"],
        layers=data["layers"],
        mode=data["mode"],
        volume=data["volume"],
        job_ranks=tuple(data["job_ranks"]),
    )
