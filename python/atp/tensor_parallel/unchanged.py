"""The plan of an unchanged model of transformers: GPT-2, Llama, and models built like them.

Modules are recognized by their parts and, if these are not enough, by what they compute;
transformers is never imported. A module that is not recognized is an error that names it.
"""

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.kept_attention import COUNTS_OF_HEADS
from atp.tensor_parallel.likeness import (
    behaves_as,
    features_of,
    is_conv1d,
    is_rms_norm,
    keeps_heads_apart,
)
from atp.tensor_parallel.roles import (
    EmbeddingRole,
    FeedForwardRole,
    Head,
    KeptAttentionRole,
    Norm,
    Plan,
    PositionsRole,
    Role,
)

__all__ = ["is_like_transformers", "plan_of_unchanged"]

_TOKENS = ("wte", "embed_tokens")
_POSITIONS = ("wpe",)
_HEAD = "lm_head"
# Allowed besides modules with children or a role: those with nothing to split, or to be replaced.
_WITHOUT_ROLE = (nn.Dropout, nn.Identity, nn.ModuleList, nn.Sequential)


def is_like_transformers(model: nn.Module) -> bool:
    """Whether its modules are named as in transformers."""
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    return not names.isdisjoint((*_TOKENS, *_POSITIONS, _HEAD))


def plan_of_unchanged(model: nn.Module) -> Plan:
    """The roles of all its modules.

    Raises:
        ValueError: a module cannot be split, or is unknown; the message names it.
    """
    if not hasattr(model, _HEAD):
        raise ValueError(
            f"{type(model).__name__} has no {_HEAD}, so it would return only a rank's piece;"
            " give parallelize() the model that has it (…ForCausalLM, …LMHeadModel)"
        )
    plan: dict[str, Role] = {}
    for name, child in model.named_children():
        _walk(name, child, plan)
    if type(getattr(model, _HEAD)) is not nn.Linear or not _has(plan, EmbeddingRole):
        raise ValueError(
            f"{type(model).__name__} needs an nn.Linear {_HEAD} and an nn.Embedding named "
            f"{' or '.join(_TOKENS)}"
        )
    _check_widths(model, plan)
    if any(parameter is not None for parameter in model._parameters.values()):
        raise ValueError(f"{type(model).__name__} has parameters of its own, which have no role")
    return plan


def _has(plan: Plan, kind: type) -> bool:
    return any(isinstance(role, kind) for role in plan.values())


def _walk(name: str, module: nn.Module, plan: dict[str, Role]) -> None:
    role = _role_of(name, module)
    if role is not None:
        plan[name] = role
        return
    children = list(module.named_children())
    is_leaf = not children and not isinstance(module, _WITHOUT_ROLE)
    if module._parameters or (is_leaf and not _is_rotary(module)):
        raise _unknown(name, module, "parallelize() does not support it")
    for child_name, child in children:
        _walk(f"{name}.{child_name}", child, plan)


def _unknown(name: str, module: nn.Module, why: str) -> ValueError:
    return ValueError(
        f"{name}: {type(module).__name__} cannot be split: {why}; give the model's modules roles "
        "with plan={name: role}"
    )


def _role_of(name: str, module: nn.Module) -> Role | None:
    last = name.rpartition(".")[2]
    if type(module) is nn.Embedding:
        if last in _TOKENS:
            return EmbeddingRole()
        return PositionsRole() if last in _POSITIONS else None
    if type(module) in (nn.LayerNorm, nn.RMSNorm) or is_rms_norm(module):
        return Norm()
    if last == _HEAD:
        return Head() if type(module) is nn.Linear else None
    for recognize in (_attention, _feed_forward):
        role = recognize(name, module)
        if role is not None:
            return role
    return None


def _is_rotary(module: nn.Module) -> bool:
    """It computes angles from positions, of which every rank has all."""
    return type(module).__name__.endswith("RotaryEmbedding")


def _is_linear(module: nn.Module | None) -> bool:
    return module is not None and (type(module) is nn.Linear or is_conv1d(module))


def _attention(name: str, module: Any) -> Role | None:
    children = dict(module.named_children())
    for inputs, output, dropout, in_core in (
        (("q_proj", "k_proj", "v_proj"), "o_proj", None, ()),
        (("c_attn",), "c_proj", "resid_dropout", ("attn_dropout",)),
    ):
        if not children.keys() >= {*inputs, output}:
            continue
        _check_children(name, module, (*inputs, output), (dropout, *in_core))
        if "forward" in vars(module):
            raise _unknown(name, module, "its forward() has been replaced")
        width = getattr(module, "head_dim", None)
        if not isinstance(width, int):
            raise _unknown(name, module, "it has no head_dim")
        made = features_of(children[output])[1]
        total = sum(features_of(children[each])[0] for each in inputs)
        if len(inputs) == 1 and (
            total != 3 * made
            or not keeps_heads_apart(module, *inputs, output, made // width, width)
        ):
            why = f"{inputs[0]} does not compute all queries, then all keys, then all values"
            raise _unknown(name, module, why)
        # A count under another name would still be of all heads, and split the values wrongly.
        for each, value in vars(module).items():
            if type(value) is int and "head" in each and each not in {*COUNTS_OF_HEADS, "head_dim"}:
                raise _unknown(
                    name, module, f"it is not known what its {each} = {value} should be on a rank"
                )
        return KeptAttentionRole(
            inputs, output, made // width, (total - made) // (2 * width), dropout, in_core
        )
    return None


def _check_children(name: str, module: nn.Module, layers: tuple, others: tuple) -> None:
    """Raises ValueError if they are not linear layers and Dropouts, or if there are others."""
    for child_name, child in module.named_children():
        if child_name in layers:
            if not _is_linear(child):
                raise _unknown(f"{name}.{child_name}", child, "it is not a linear layer")
        elif child_name not in others or type(child) is not nn.Dropout:
            known = ", ".join(layers)
            raise _unknown(name, module, f"it has {child_name} besides {known}")
    own = [*module._parameters, *module._buffers]
    if own:
        raise _unknown(name, module, f"it has {', '.join(own)} of its own")


def _feed_forward(name: str, module: Any) -> Role | None:
    children = dict(module.named_children())
    for inputs, output, activation, dropout in (
        (("gate_proj", "up_proj"), "down_proj", "act_fn", None),
        (("c_fc",), "c_proj", "act", "dropout"),
    ):
        layers = (*inputs, output)
        if not children.keys() >= {*layers}:
            continue
        act = getattr(module, activation, None)
        known = {*layers, activation, dropout}
        if not callable(act) or not children.keys() <= known or _has_tensors(act):
            raise _unknown(name, module, f"it consists of {', '.join(children)}")
        if own := [*module._parameters, *module._buffers]:
            raise _unknown(name, module, f"it has {', '.join(own)} of its own")
        for each in layers:
            if not _is_linear(children[each]):
                raise _unknown(f"{name}.{each}", children[each], "it is not a linear layer")
        between = _Gated(act) if len(inputs) == 2 else act
        expected = functools.partial(_feed_forward_of, _Layers(children, layers), between)
        width = features_of(children[output])[0]
        if not behaves_as(module, width, expected) or not _acts_on_each_value(act):
            raise _unknown(name, module, "it does not compute what it appears to")
        return FeedForwardRole(inputs, output, between, dropout if dropout in children else None)
    return None


def _has_tensors(module: Any) -> bool:
    return isinstance(module, nn.Module) and (
        any(True for _ in module.parameters()) or any(True for _ in module.buffers())
    )


class _Gated:
    def __init__(self, act: Any):
        self._act = act

    def __call__(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return self._act(gate) * up


class _Layers:
    """The layers' formulas, with the given parameters."""

    def __init__(self, children: Mapping[str, nn.Module], names: tuple[str, ...]):
        self.inputs, self.output = names[:-1], names[-1]
        self._transposed = {name: is_conv1d(children[name]) for name in names}

    def apply(self, name: str, x: torch.Tensor, parameters: dict) -> torch.Tensor:
        weight, bias = parameters[f"{name}.weight"], parameters.get(f"{name}.bias")
        return nn.functional.linear(x, weight.mT if self._transposed[name] else weight, bias)


def _feed_forward_of(layers: _Layers, between: Any, x: torch.Tensor, parameters: dict):
    active = between(*(layers.apply(name, x, parameters) for name in layers.inputs))
    return layers.apply(layers.output, active, parameters)


def _acts_on_each_value(act: Any) -> bool:
    """Whether it is element-wise: a row of the mesh has only some of a token's values."""
    x = torch.randn(2, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return torch.allclose(act(x), torch.cat([act(part) for part in x.split(16, -1)], -1))


def _check_widths(model: nn.Module, plan: Plan) -> None:
    """A norm whose width differs from the tokens' is not over the hidden size."""
    tokens = next(name for name, role in plan.items() if isinstance(role, EmbeddingRole))
    hidden = model.get_submodule(tokens).embedding_dim
    for name, role in plan.items():
        module = model.get_submodule(name)
        if isinstance(role, Norm) and module.weight is not None:
            found = module.weight.numel()
            if found != hidden:
                raise _unknown(name, module, f"it has {found} values, not the {hidden} of a token")
