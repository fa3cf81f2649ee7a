"""The plan of an unchanged model of transformers: GPT-2, Llama, and models built like them.

Modules are recognized by their parts and, if these are not enough, by what they compute;
transformers is never imported. A module that is not recognized is an error that names it.
"""

from typing import Any

from torch import nn

from atp.tensor_parallel.known_attention import attention_of
from atp.tensor_parallel.known_experts import experts_of, router_of
from atp.tensor_parallel.known_feed_forward import PAIRS, acts_on_each_value, feed_forward_of
from atp.tensor_parallel.likeness import (
    formula_of_norm,
    is_linear,
    looks_up_columns,
    scale_of_embedding,
    width_of_norm,
)
from atp.tensor_parallel.roles import (
    ColumnsRole,
    EmbeddingRole,
    Head,
    Inner,
    Norm,
    Plan,
    PositionsRole,
    Role,
    Row,
)

__all__ = ["is_like_transformers", "plan_of_unchanged"]

_TOKENS = ("wte", "embed_tokens")
_POSITIONS = ("wpe", "embed_positions", "position_embeddings")
_HEAD = "lm_head"
# Allowed besides modules with children or a role: those with nothing to split, or to be replaced.
_WITHOUT_ROLE = (nn.Dropout, nn.Identity, nn.ModuleList, nn.Sequential)


def is_like_transformers(model: nn.Module) -> bool:
    """Whether its modules are named as in transformers."""
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    named = not names.isdisjoint((*_TOKENS, *_POSITIONS, _HEAD))
    return named or hasattr(model, "get_input_embeddings")


def plan_of_unchanged(model: nn.Module) -> Plan:
    """The roles of all its modules.

    Raises:
        ValueError: a module cannot be split, or is unknown; the message names it.
    """
    return _Plan(model).roles()


class _Plan:
    def __init__(self, model: nn.Module):
        self._model, self._kind = model, type(model).__name__
        self._tokens = self._said("get_input_embeddings", _TOKENS)
        self._head = self._said("get_output_embeddings", (_HEAD,))
        self._found: dict[str, Role] = {}

    def _said(self, ask: str, names: tuple[str, ...]) -> nn.Module | None:
        """The module that the model itself names, or the only one with one of these names."""
        said = getattr(self._model, ask, lambda: None)()
        if said is not None:
            return said
        named = self._model.named_modules()
        found = [module for name, module in named if name.rpartition(".")[2] in names]
        return found[0] if len(found) == 1 else None

    def roles(self) -> Plan:
        if self._head is None:
            raise ValueError(
                f"{self._kind} has no {_HEAD}, so it would return only a rank's piece;"
                " give parallelize() the model that has it (…ForCausalLM, …LMHeadModel)"
            )
        for name, child in self._model.named_children():
            self._walk(name, child)
        kinds = {type(role) for role in self._found.values()}
        if not kinds >= {Head, EmbeddingRole}:
            raise ValueError(
                f"{self._kind} needs an nn.Linear {_HEAD} and an nn.Embedding named "
                f"{' or '.join(_TOKENS)}"
            )
        self._check_widths()
        if any(parameter is not None for parameter in self._model._parameters.values()):
            raise ValueError(f"{self._kind} has parameters of its own, which have no role")
        return self._found

    def _walk(self, name: str, module: nn.Module) -> None:
        role = self._role_of(name, module)
        if role is not None:
            self._found[name] = role
            return
        children = dict(module.named_children())
        is_leaf = not children and not isinstance(module, _WITHOUT_ROLE)
        if module._parameters or (is_leaf and not _is_harmless(module)):
            raise _unknown(name, module, "parallelize() does not support it")
        for first, second in PAIRS:
            if is_linear(children.get(first)) and is_linear(children.get(second)):
                self._found |= {f"{name}.{first}": Inner(), f"{name}.{second}": Row()}
                children = {k: v for k, v in children.items() if k not in (first, second)}
        for child_name, child in children.items():
            self._walk(f"{name}.{child_name}", child)

    def _role_of(self, name: str, module: nn.Module) -> Role | None:
        if isinstance(module, nn.Embedding):
            return self._of_embedding(name, module)
        if module is self._head:
            return Head() if type(module) is nn.Linear else None
        width = None if width_of_norm(module) else getattr(self._tokens, "embedding_dim", None)
        if formula_of_norm(module, width) is not None:
            return Norm(width)
        hidden, last = getattr(self._tokens, "embedding_dim", 0), name.rpartition(".")[2]
        return (
            router_of(module, last, hidden)
            or experts_of(name, module, hidden, _unknown)
            or attention_of(name, module, _unknown)
            or feed_forward_of(name, module, _unknown)
        )

    def _of_embedding(self, name: str, module: nn.Embedding) -> Role | None:
        if module is self._tokens:
            scale = scale_of_embedding(module)
            return None if scale is None else EmbeddingRole(scale)
        if name.rpartition(".")[2] not in _POSITIONS:
            return None
        if type(module) is nn.Embedding:
            return PositionsRole()
        return ColumnsRole() if looks_up_columns(module) else None

    def _check_widths(self) -> None:
        """A norm whose width differs from the tokens' is not over the hidden size."""
        hidden = self._tokens.embedding_dim
        for name, role in self._found.items():
            module = self._model.get_submodule(name)
            found = width_of_norm(module) if isinstance(role, Norm) else None
            if found is not None and found != hidden:
                raise _unknown(name, module, f"it has {found} values, not the {hidden} of a token")


def _unknown(name: str, module: nn.Module, why: str) -> ValueError:
    return ValueError(
        f"{name}: {type(module).__name__} cannot be split: {why}; give the model's modules roles "
        "with plan={name: role}"
    )


def _is_harmless(module: Any) -> bool:
    """It computes angles from positions, of which every rank has all, or is an activation."""
    if type(module).__name__.endswith(("RotaryEmbedding", "RotaryEmbeddings")):
        return True
    try:
        return acts_on_each_value(module)
    except Exception:
        return False
