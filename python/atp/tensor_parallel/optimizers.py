"""Refuses optimizers that would compute something else on pieces than on whole parameters.

Adam treats each value by itself. Muon, Adafactor, LAMB and others look at a whole matrix, L-BFGS at
all values: on a rank's pieces they would train another model without an error. Their number grows,
so none is known here by name: before its first step an optimizer steps on random matrices, and on
the pieces of these, with its own settings.
"""

import copy
import functools
from collections import defaultdict
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from atp.tensor_parallel.torchs_norm import pieces_by
from atp.tensor_parallel.wrappers import check_group

__all__ = ["refuse_optimizers_of_whole_matrices"]

_STEPS, _LEARNING_RATE, _TOLERANCE = 2, 1e-2, 1e-3
_SHAPES = {1: ((16,), (8,)), 2: ((16, 8), (8, 12))}
_checked: WeakSet[Optimizer] = WeakSet()


@functools.cache
def refuse_optimizers_of_whole_matrices() -> None:
    """From now on the first step of such an optimizer on pieces raises ValueError."""
    register_optimizer_step_pre_hook(_before_a_step)


def _before_a_step(optimizer: Optimizer, _inputs: Any, _named: Any) -> None:
    if optimizer in _checked:
        return
    pieces = pieces_by("")
    of_it = [p for group in optimizer.param_groups for p in group["params"]]
    meshes = [pieces[id(p)][0] for p in of_it if id(p) in pieces]
    if meshes:
        name = type(optimizer).__name__
        group = getattr(optimizer, "process_group", None)  # of ZeroRedundancyOptimizer
        if isinstance(group, dist.ProcessGroup):
            check_group(name, group, meshes[0])
        if meshes[0].first.size * meshes[0].second.size > 1 and not hasattr(optimizer, "optim"):
            _refuse_whole_matrices(name, optimizer, pieces)
    _checked.add(optimizer)


def _refuse_whole_matrices(name: str, optimizer: Optimizer, pieces: Any) -> None:
    groups = []
    for group in optimizer.param_groups:
        cut = [p for p in group["params"] if id(p) in pieces and _is_cut(*pieces[id(p)])]
        if cut:
            groups.append((group, max(min(p.dim(), 2) for p in cut), cut[0]))
    if not groups:
        return
    try:
        try:
            whole, first, second = _halved(optimizer, groups, {})
        except Exception:  # some make their state before the first step, as Adagrad does
            whole, first, second = _halved(optimizer, groups, optimizer.state)
    except Exception as error:
        why = f"it fails on random ones ({type(error).__name__}: {str(error)[:150]})"
        raise _error(name, why) from error
    for number, (of_whole, *halves) in enumerate(zip(whole, first, second, strict=True)):
        pieced = torch.cat(halves, _axis(number % 2, of_whole.shape))
        if not (pieced - of_whole).norm() <= _TOLERANCE * of_whole.norm():
            raise _error(name, "its steps on pieces of a matrix are not pieces of its step on all")


def _is_cut(mesh: Any, cut: Any) -> bool:
    return cut.copies(mesh.shape) < mesh.first.size * mesh.second.size


def _error(name: str, why: str) -> ValueError:
    return ValueError(
        f"{name} cannot step on a rank's pieces: {why}; use parallelize(..., dtensors=True), if it "
        "supports DTensors, or an optimizer that treats each value by itself, such as AdamW"
    )


def _halved(optimizer: Any, groups: list, state: Any) -> list[list[torch.Tensor]]:
    return [_stepped(optimizer, groups, state, part) for part in (None, 0, 1)]


def _stepped(optimizer: Any, groups: list, state: Any, part: int | None) -> list[torch.Tensor]:
    """How far the optimizer moves random parameters, or the first or second half of each."""
    draw = torch.Generator().manual_seed(0)
    probe = object.__new__(type(optimizer))  # copy.copy() would drop what a class adds
    vars(probe).update(vars(optimizer), state=defaultdict(dict), param_groups=[])
    parameters, gradients = [], []
    for group, dimensions, like in groups:
        own = []
        for number, shape in enumerate(_SHAPES[max(dimensions, 1)]):
            values, *several = torch.randn(1 + _STEPS, *shape, generator=draw)
            # Of very different sizes, so that a norm of all is far from that of a part.
            sizes = (10 ** torch.linspace(-1, 1, values.numel())).view(shape)
            each = [values, *(gradient * sizes for gradient in several)]
            if part is not None:
                each = [x.chunk(2, _axis(number, shape))[part] for x in each]
            begin, *several = (x.to(like.device, like.dtype).contiguous().clone() for x in each)
            own.append(nn.Parameter(begin))
            if like in state:
                probe.state[own[-1]] = _like(state[like], like, begin)
            gradients.append(several)
        parameters += own
        probe.param_groups.append({**group, "params": own} | _moving(group))
    step = getattr(type(optimizer).step, "__wrapped__", type(optimizer).step)
    begins = [parameter.detach().clone() for parameter in parameters]
    for number in range(_STEPS):
        for parameter, each in zip(parameters, gradients, strict=True):
            parameter.grad = each[number]
        with torch.no_grad():
            step(probe)
    return [
        (parameter.detach() - begin).double()
        for parameter, begin in zip(parameters, begins, strict=True)
    ]


def _like(state: dict[str, Any], of: torch.Tensor, begin: torch.Tensor) -> dict[str, Any]:
    """The state as it begins, the same for all values, for a parameter of another shape."""
    return {
        key: torch.full_like(begin, float(value.flatten()[0]), dtype=value.dtype)
        if isinstance(value, torch.Tensor) and value.shape == of.shape
        else copy.deepcopy(value)
        for key, value in state.items()
    }


def _axis(number: int, shape: Any) -> int:
    """Of two matrices, one is split along its rows and the other along its columns."""
    return number if len(shape) > 1 else 0


def _moving(group: dict[str, Any]) -> dict[str, Any]:
    """A warm-up may begin with a learning rate of zero, at which nothing differs."""
    rate = group.get("lr")
    if isinstance(rate, torch.Tensor):
        return {"lr": torch.full_like(rate, _LEARNING_RATE)}
    return {} if rate is None else {"lr": _LEARNING_RATE}
