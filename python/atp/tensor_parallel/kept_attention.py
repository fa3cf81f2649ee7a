"""An attention block that keeps its own forward pass; only its layers are replaced.

A model of another library brings its own masks, rotations, kernels and cache. All of them treat
heads alike, so the block runs unchanged on the heads of one rank: its first layers give it the
queries, keys and values of these heads only, and its last layer gathers the results.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.attention import gather_hop, scatter_hop
from atp.tensor_parallel.block_tokens import BlockTokens, change_hidden_state
from atp.tensor_parallel.conjugates import Hop, arrive, depart
from atp.tensor_parallel.copies import sum_over_ranks
from atp.tensor_parallel.dropout import ATPDropout
from atp.tensor_parallel.head_layout import HeadLayout
from atp.tensor_parallel.head_norms import NormOverHeads, OnOwnHeads
from atp.tensor_parallel.heads_alike import set_counts
from atp.tensor_parallel.likeness import formula_of_norm
from atp.tensor_parallel.linear import ATPLinear, column_steps, cut_parameter, require_piece
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.moves import Heads
from atp.tensor_parallel.overlap import run
from atp.tensor_parallel.precision import as_autocast_does
from atp.tensor_parallel.probe import Probe, Share, copy_of
from atp.tensor_parallel.sharding import Cut, Part, adopt

__all__ = ["keep_attention"]


def keep_attention(
    module: nn.Module,
    inputs: Mapping[str, nn.Module],
    output: tuple[str, nn.Module],
    layout: HeadLayout,
    dropout: str | None,
    mesh: Mesh,
    site: str,
) -> nn.Module:
    """The block as it runs on this rank; the given block is left unchanged.

    Args:
        inputs, output: its layers, as in `ATPAttention`.
        dropout: the name of the nn.Dropout on the block's output.

    Raises:
        ValueError: the mesh cannot share its heads equally.
    """
    layout.check(mesh, site)
    kept = copy_of(module)
    layers = [
        _Input.from_linear(
            linear, "column", mesh, layout.parts(name, mesh.first.size), f"{site}.{name}"
        )
        for name, linear in inputs.items()
    ]
    heads = _HeadsOfRank(layers, layout, site)
    for name, layer in zip(inputs, layers, strict=True):
        layer.heads = heads
        kept._modules[name] = layer
    last = _Output.from_linear(output[1], "row", mesh, site=f"{site}.{output[0]}")
    last.slicing, last.heads = layout.core_slicing(mesh), heads
    kept._modules[output[0]] = last
    if dropout is not None:
        leaving = _OutputDropout(module._modules[dropout].p, mesh)
        leaving.heads = heads
        kept._modules[dropout] = leaving
    _cut_its_own(kept, layout, mesh, site)
    set_counts(kept, layout, mesh.first.size * mesh.second.size)
    kept.atp_heads = heads
    heads.probe = _probe_of(module, output[0], layout, layout.slicing(mesh), mesh, site)
    _run_on_the_heads_of_a_rank(kept, mesh)
    return kept


def _cut_its_own(kept: Any, layout: HeadLayout, mesh: Mesh, site: str) -> None:
    """Norms of queries and keys, and parameters of the block itself."""
    by_module: dict[str, dict[str, Cut]] = {}
    for name, section in layout.own.items():
        owner, _, leaf = name.rpartition(".")
        by_module.setdefault(owner, {})[leaf] = layout.cut(section, mesh)
    for name, cuts in by_module.items():
        if not name:
            kept.mesh = mesh
            for leaf, cut in cuts.items():
                adopt(kept, leaf, cut_parameter(kept._parameters[leaf], cut, mesh), cut)
            continue
        module = kept._modules[name]
        if name in layout.over_heads:
            formula, (cut, *_) = formula_of_norm(module), cuts.values()
            kept._modules[name] = NormOverHeads(module, formula, cut, mesh, f"{site}.{name}")
        else:
            kept._modules[name] = OnOwnHeads(module, cuts, mesh)


def _probe_of(
    module: nn.Module, output: str, layout: HeadLayout, slicing: Heads, mesh: Mesh, site: str
) -> Probe | None:
    """None for a block with a norm over all heads, whose sums other ranks take part in; it ran on
    random numbers before it got its role."""
    if layout.over_heads:
        return None
    rows, row, column = mesh.first.size, mesh.row, mesh.column
    layers = layout.inputs
    parts = [part for name in layers for part in layout.parts(name, rows)]
    widths = tuple(part.size for part in parts)

    def own(values: torch.Tensor) -> torch.Tensor:
        each = zip(values.split(widths, -1), parts, strict=True)
        of_row = torch.cat([x.narrow(-1, *part.of(row, rows)) for x, part in each], -1)
        return slicing.bias(of_row, column)

    def own_output(made: torch.Tensor) -> torch.Tensor:
        of_row = made.narrow(-1, *Part(made.shape[-1], rows).of(row, rows))
        return layout.core_slicing(mesh).bias(of_row, column)

    share = Share(widths, tuple(slicing.shares()), layout.counts.width, own, own_output)
    return Probe(module, (*layers, output), share, mesh, site)


def _run_on_the_heads_of_a_rank(kept: nn.Module, mesh: Mesh) -> None:
    """No other rank has these heads' probabilities, so their dropout is this rank's own, too."""
    drawing = contextlib.ExitStack()

    def begin(module: Any, inputs: Any, named: Any) -> Any:
        heads, arrived = module.atp_heads, None
        if mesh.splits_tokens:
            inputs, named, arrived = heads.gather_tokens(inputs, named)
        if heads.probe is not None:
            heads.probe.check(module, inputs, named)
        given = [x for x in (*inputs, *named.values()) if isinstance(x, torch.Tensor)]
        heads.begin(given, arrived)
        for name in module.__dict__.get("atp_cuts", {}):
            drawing.callback(module._parameters.__setitem__, name, module._parameters[name])
            module._parameters[name] = sum_over_ranks(module, name)
        if module.training and given:
            drawing.enter_context(mesh.randomness.of_rank(given[0].device))
        return inputs, named

    def end(module: Any, _inputs: Any, outputs: Any) -> None:
        drawing.close()
        module.atp_heads.end(outputs)

    kept.register_forward_pre_hook(begin, with_kwargs=True)
    kept.register_forward_hook(end, always_call=True)


class _HeadsOfRank:
    """A block's run, from its first layers to its last.

    The block calls one layer after the other. The first call computes all outputs, in one product
    and one sum; each is returned once.

    Raises:
        ValueError: the block computes something itself before its first layers or after its last,
            where a rank has only a piece of the hidden size: a norm, say, or a dropout.
    """

    def __init__(self, layers: Sequence["_Input"], layout: HeadLayout, site: str):
        self._layers, self._site = layers, site
        self._slicing = layout.slicing(layers[0].mesh)
        shares = iter(self._slicing.shares())
        self._widths = [sum(next(shares) for _ in each) for each in layout.inputs.values()]
        self.tokens = BlockTokens(layers[0].mesh)  # share_tokens() gives all blocks the same
        self.probe: Probe | None = None
        self.begin([])

    def gather_tokens(self, inputs: tuple, named: Mapping[str, Any]) -> tuple[tuple, dict, Hop]:
        """The block's arguments with the tokens of all rows, and the collective they come from."""
        hops = []

        def gather(x: torch.Tensor) -> torch.Tensor:
            (narrow,) = as_autocast_does(x)
            whole, hop = self.tokens.gather(narrow)
            hops.append(hop)
            return whole

        inputs, named = change_hidden_state(inputs, named, gather, self._site)
        return inputs, named, hops[0]

    def begin(self, given: Sequence[torch.Tensor], arrived: Hop | None = None) -> None:
        """given: the block's inputs. arrived: the collective that its hidden state comes from."""
        self._given, self._arrived = given, arrived
        self._x: torch.Tensor | None = None
        self._ready: dict[int, torch.Tensor] = {}
        self._made: torch.Tensor | None = None

    def __getstate__(self) -> dict[str, Any]:
        no_run = {"_given": [], "_arrived": None, "_x": None, "_ready": {}, "_made": None}
        return vars(self) | no_run

    def queries_keys_or_values(self, layer: "_Input", x: torch.Tensor) -> torch.Tensor:
        number = next(i for i, each in enumerate(self._layers) if each is layer)
        require_piece(layer.site, x, layer.in_features, layer.mesh)
        if not any(x is given for given in self._given):
            raise ValueError(
                f"{self._site}: it calls {layer.site} with something other than its own input, of "
                "which a rank has only a piece; give the block a role with plan={name: role}"
            )
        if x is not self._x or number not in self._ready:
            self._compute(x)
        return self._ready.pop(number)

    def _compute(self, x: torch.Tensor) -> None:
        mesh = self._layers[0].mesh
        if mesh.splits_tokens and self._arrived is None:
            raise ValueError(
                f"{self._site}: it calls {self._layers[0].site} twice on its input, whose gradient "
                "sequence parallelism sums once; use init_mesh() without sequence_parallel"
            )
        hop = scatter_hop(mesh.second, self._slicing)
        outputs = run(column_steps(self._layers, x, hop, self._arrived))
        self._arrived = None
        self._x, self._ready = x, dict(enumerate(outputs.split(self._widths, -1)))

    def leave(self, made: torch.Tensor) -> torch.Tensor:
        self._made = made
        return made

    def end(self, outputs: Any) -> None:
        """outputs: the block's; None if it failed, or stopped early, as checkpointing does."""
        made = self._made
        self.begin([])
        result = outputs[0] if isinstance(outputs, tuple) and outputs else outputs
        if result is not None and result is not made:
            raise ValueError(
                f"{self._site}: its first result is not the output of its last layer, of which a "
                "rank has only a piece; give the block a role with plan={name: role}"
            )


class _Input(ATPLinear):
    """A layer that computes queries, keys or values, or all three, for this rank's heads."""

    heads: _HeadsOfRank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads.queries_keys_or_values(self, x)


class _Output(ATPLinear):
    """W_O, applied to the core's output for this rank's heads."""

    heads: _HeadsOfRank
    slicing: Heads

    def _outward_hop(self) -> Hop:
        if self.mesh.splits_tokens:
            return self.heads.tokens.scatter_hop()
        return super()._outward_hop()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        second = self.mesh.second
        expected = self.slicing.shares()[0]
        if x.shape[-1] != expected:
            raise ValueError(
                f"{self.site}: found {x.shape[-1]} values, expected {expected} for a rank's heads"
            )
        hop = gather_hop(second, self.slicing)
        whole = arrive(depart(x, hop), hop)
        return self.heads.leave(run(self.steps(whole, hop)))


class _OutputDropout(ATPDropout):
    heads: _HeadsOfRank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads.leave(super().forward(x))
