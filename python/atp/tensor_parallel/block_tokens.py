"""Sequence parallelism of a model that keeps its own forward pass: the rows of the mesh share the
tokens only inside the model's blocks.

Outside the blocks such a model works with whole sequences: it counts the tokens of a hidden state
to make positions and masks, and picks the tokens whose logits it wants. So there all rows hold all
tokens, as without sequence parallelism. Before its first block each row takes its tokens, which
sends nothing, and after the last one all rows get them all; backward it is the other way round.

Inside, norms, residuals and dropouts work on a row's tokens. A feed-forward block gathers its input
and scatters its output, like atp's own. An attention block looks at whole sequences in its own
code, so its input is gathered before that code begins.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.conjugates import (
    Hop,
    arrive,
    depart,
    gather_tokens_hop,
    scatter_tokens_hop,
)
from atp.tensor_parallel.embedding import require_tokens_divide
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.moves import Gather, Slice, Tokens

__all__ = ["BlockTokens", "change_hidden_state", "name_of_blocks", "share_tokens"]

ENTRANCE = "atp_entrance"
EXIT = "atp_exit"


class BlockTokens:
    """How the rows share the tokens of a run's sequences.

    Sequences whose length d1 does not divide are padded where no gradients are computed, as in
    generation, where any length may occur. In training they are refused: checkpointing runs a block
    again long after its run has ended, when the number of its tokens is no longer known.
    """

    def __init__(self, mesh: Mesh):
        self._mesh, self._padding = mesh, 0

    def enter(self, site: str, x: torch.Tensor) -> torch.Tensor:
        """[b, s, h/d2] -> this row's tokens; backward, the gradients of all tokens."""
        first = self._mesh.first
        if torch.is_grad_enabled() or x.requires_grad:
            require_tokens_divide(site, self._mesh, x.shape[-2])
        self._padding = -x.shape[-2] % first.size
        tokens = Tokens(first.size, self._padding)
        return _moved(x, Hop(Slice(first, tokens), Gather(first, tokens)))

    def leave(self, x: torch.Tensor) -> torch.Tensor:
        """The opposite of enter()."""
        first = self._mesh.first
        tokens = Tokens(first.size, self._now())
        return _moved(x, Hop(Gather(first, tokens), Slice(first, tokens)))

    def gather(self, x: torch.Tensor) -> tuple[torch.Tensor, Hop]:
        """The input of a block that needs whole sequences, and the hop that brings it. Only a
        product may use the input, and it must be given the hop, which sums the gradients."""
        hop = gather_tokens_hop(self._mesh.first, self._now())
        return _moved(x, hop), hop

    def scatter_hop(self) -> Hop:
        """For the sum that completes such a block's output."""
        return scatter_tokens_hop(self._mesh.first, self._now())

    def _now(self) -> int:
        """The padding now: none for a block that is run again, because it computes gradients."""
        return 0 if torch.is_grad_enabled() else self._padding


def _moved(x: torch.Tensor, hop: Hop) -> torch.Tensor:
    return arrive(depart(x, hop), hop)


def name_of_blocks(model: nn.Module, attention: list[str]) -> str:
    """The name of the list of a model's blocks, which contains all of its attention blocks.

    Raises:
        ValueError: there is none, so it is unknown where the rows could share the tokens.
    """
    lists = {_outermost_list(model, name) for name in attention}
    if len(lists) != 1 or None in lists:
        raise ValueError(
            f"the attention blocks of {type(model).__name__} are not in one nn.ModuleList, "
            "between whose ends sequence parallelism could split the tokens; use init_mesh() "
            "without sequence_parallel"
        )
    return lists.pop()


def _outermost_list(model: nn.Module, name: str) -> str | None:
    parts = name.split(".")
    prefixes = (".".join(parts[:i]) for i in range(1, len(parts)))
    return next((p for p in prefixes if isinstance(model.get_submodule(p), nn.ModuleList)), None)


def share_tokens(model: nn.Module, blocks: str, mesh: Mesh) -> list[str]:
    """Splits the tokens before the first of the blocks, and gathers them after the last.

    Returns:
        The names of the two modules that do so, for the watch.
    """
    tokens = BlockTokens(mesh)
    inside: Any = model.get_submodule(blocks)
    for module in inside.modules():
        if hasattr(module, "atp_heads"):
            module.atp_heads.tokens = tokens
    first, last = inside[0], inside[-1]
    first.add_module(ENTRANCE, _Entrance(tokens, f"{blocks}.0"))
    first.register_forward_pre_hook(_enter, with_kwargs=True)
    last.add_module(EXIT, _Exit(tokens))
    last.register_forward_hook(_leave)
    return [f"{blocks}.0.{ENTRANCE}", f"{blocks}.{len(inside) - 1}.{EXIT}"]


class _Entrance(nn.Module):
    def __init__(self, tokens: BlockTokens, site: str):
        super().__init__()
        self._tokens, self.site = tokens, site

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._tokens.enter(self.site, x)


class _Exit(nn.Module):
    def __init__(self, tokens: BlockTokens):
        super().__init__()
        self._tokens = tokens

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._tokens.leave(x)


# The hooks find their modules in the block they run on, which may be a copy of the first one.
def _enter(block: Any, inputs: tuple, named: Mapping[str, Any]) -> tuple[tuple, dict]:
    entrance = getattr(block, ENTRANCE)
    return change_hidden_state(inputs, named, entrance, entrance.site)


def _leave(block: Any, _inputs: Any, outputs: Any) -> Any:
    leave = getattr(block, EXIT)
    if isinstance(outputs, tuple):
        return (leave(outputs[0]), *outputs[1:])
    return leave(outputs)


def change_hidden_state(
    inputs: tuple,
    named: Mapping[str, Any],
    change: Callable[[torch.Tensor], torch.Tensor],
    site: str,
) -> tuple[tuple, dict]:
    """A block's arguments with its hidden state changed.

    Raises:
        ValueError: it is neither the first argument nor called hidden_states.
    """
    if inputs and isinstance(inputs[0], torch.Tensor):
        return (change(inputs[0]), *inputs[1:]), dict(named)
    if isinstance(named.get("hidden_states"), torch.Tensor):
        return inputs, {**named, "hidden_states": change(named["hidden_states"])}
    raise ValueError(
        f"{site}: sequence parallelism expects its hidden state as its first argument or as "
        f"hidden_states=..., found {len(inputs)} arguments and {', '.join(named) or 'no names'}; "
        "use init_mesh() without sequence_parallel"
    )
