"""Experts of transformers, whose matrices are one parameter each, and their routers."""

import copy
import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from atp.tensor_parallel.experts import ATPExperts, ATPRouter
from atp.tensor_parallel.likeness import in_evaluation, key_of, on_cpu, once
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.roles import Role
from atp.tensor_parallel.sharding import Cut, Part

__all__ = ["ExpertsRole", "RouterRole", "experts_of", "router_of"]

_TOKENS, _WIDTH, _CHOSEN = 5, 8, 2
_INNER = ("intermediate_dim", "intermediate_size", "expert_dim", "ffn_dim")


@dataclasses.dataclass(frozen=True)
class RouterRole(Role):
    """A module that is whole on every rank, and gets whole hidden states of this width."""

    width: int

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        return ATPRouter(module, self.width, mesh, site)


@dataclasses.dataclass(frozen=True)
class ExpertsRole(Role):
    """axes: of each parameter, the inner axis and the number of its parts, or None for a bias of
    the result."""

    width: int
    inner: int
    axes: tuple[tuple[str, tuple[int, int] | None], ...]

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        ranks = mesh.first.size * mesh.second.size
        if self.inner % ranks:
            raise ValueError(
                f"{site}: {ranks} ranks cannot share its inner width of {self.inner} equally; "
                "choose another mesh"
            )
        cuts = {}
        for name, axis in self.axes:
            cuts[name] = Cut()
            if axis is not None:
                size = module.get_parameter(name).shape[axis[0]] // axis[1]
                cuts[name] = Cut(axis[0], axis[0], (Part(size, ranks),) * axis[1])
        once_added = tuple(name for name, axis in self.axes if axis is None)
        built = ATPExperts(module, self.width, cuts, once_added, mesh, site)
        _narrow(built._inner, self.inner, ranks)
        return built


def router_of(module: nn.Module, last: str, width: int) -> RouterRole | None:
    """A router, or a gate with one value for each token."""
    weight = module._parameters.get("weight")
    kind = type(module).__name__.lower()
    is_gate = type(module) is nn.Linear and "gate" in last and module.out_features == 1
    if not (is_gate or kind.endswith("router")) or [*module.children()] or weight is None:
        return None
    if weight.dim() != 2 or weight.shape[1] != width:
        return None
    key = (*key_of(module, width, router_of), "router")
    return RouterRole(width) if once(key, lambda: _draws_no_numbers(module, width)) else None


def _draws_no_numbers(module: nn.Module, width: int) -> bool:
    """Ranks would draw different ones, and choose different experts."""
    generator = torch.Generator().manual_seed(0)
    draw = functools.partial(torch.randn, generator=generator)
    parameters = {name: draw(p.shape) for name, p in module.named_parameters()}
    x, number = draw((_TOKENS, width)), module._parameters["weight"].shape[0]
    training = module.training
    for arguments in ((x,), (x, draw((number,)))):
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad(), on_cpu(module):
                before = torch.get_rng_state()
                functional_call(module.train(), parameters, arguments)
                return torch.equal(torch.get_rng_state(), before)
        except Exception:
            continue
        finally:
            module.train(training)
    return False


def experts_of(name: str, module: nn.Module, width: int, unknown: Any) -> ExpertsRole | None:
    """The role of a module with the matrices of all experts, or None if it is none.

    Raises:
        ValueError: it is one, but its parts do not compute what the whole does.
    """
    parameters = {n: p for n, p in module._parameters.items() if p is not None}
    down = parameters.get("down_proj")
    matrices = [p for p in parameters.values() if p.dim() == 3]
    if down is None or down.dim() != 3 or len(matrices) < 2:
        return None
    if any(True for child in module.children() for _ in child.parameters()):
        raise unknown(name, module, "it has parameters besides the experts' matrices")
    for inner, axes in _guesses(parameters, down, width):
        role = ExpertsRole(width, inner, axes)
        key = (*key_of(module, width, experts_of), inner, axes)
        if once(key, lambda role=role: _falls_apart(module, role)):
            return role
    raise unknown(name, module, "a part of each expert does not compute a part of its result")


def _guesses(parameters: dict, down: torch.Tensor, width: int) -> Iterator[tuple[int, tuple]]:
    """The inner width, and along which axis each parameter has it, once or as two halves."""
    for axis in (2, 1):
        if down.shape[3 - axis] != width:
            continue
        inner = down.shape[axis]
        choices = []
        for name, p in parameters.items():
            if name == "down_proj":
                choices.append([(name, (axis, 1))])
                continue
            found: list[tuple] = []
            for other in range(1, p.dim()):
                if p.shape[other] == 2 * inner:
                    found += [(name, (other, 2)), (name, (other, 1))]
                elif p.shape[other] == inner:
                    found.append((name, (other, 1)))
            if p.dim() == 2 and p.shape[1] == width:
                found.append((name, None))
            choices.append(found)
        yield from ((inner, axes) for axes in itertools.product(*choices))


def _narrow(experts: Any, inner: int, shares: int) -> None:
    for name in _INNER:
        if vars(experts).get(name) == inner:
            setattr(experts, name, inner // shares)


def _falls_apart(module: Any, role: ExpertsRole, shares: int = 2) -> bool:
    """Whether the sum of what two halves of each expert compute is what the experts compute."""
    if role.inner % shares:
        return False
    generator = torch.Generator().manual_seed(0)
    draw = functools.partial(torch.randn, generator=generator)
    experts: Any = copy.copy(module)
    if hasattr(experts, "config"):
        experts.config = copy.copy(experts.config)
        experts.config._experts_implementation = "eager"
    number = module.get_parameter("down_proj").shape[0]
    chosen = torch.stack([torch.arange(_TOKENS) % number, (torch.arange(_TOKENS) + 1) % number], 1)
    weights, x = draw((_TOKENS, _CHOSEN)), draw((_TOKENS, role.width))
    whole = {name: 0.3 * draw(p.shape) for name, p in module.named_parameters()}
    part: Any = copy.copy(experts)
    _narrow(part, role.inner, shares)
    for arguments in ((x, chosen, weights), (x, weights, chosen)):
        try:
            with in_evaluation(experts), on_cpu(experts):
                wanted = functional_call(experts, whole, arguments)
                parts = [
                    functional_call(part, _taken(whole, role, i, shares), arguments)
                    for i in range(shares)
                ]
        except Exception:
            continue
        return torch.allclose(sum(parts), wanted, 1e-3, 1e-4)
    return False


def _taken(whole: dict, role: ExpertsRole, share: int, shares: int) -> dict:
    taken = {}
    for name, axis in role.axes:
        if axis is None:
            taken[name] = whole[name] / shares
            continue
        halves = whole[name].chunk(axis[1], axis[0])
        taken[name] = torch.cat([half.chunk(shares, axis[0])[share] for half in halves], axis[0])
    return taken
