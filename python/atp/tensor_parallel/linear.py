"""The linear layer, column-first or row-first (paper §3.2, Fig. 9)."""

import itertools
import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import nn

from atp.tensor_parallel.conjugates import (
    Hop,
    arrive,
    depart,
    depart_product,
    enter,
    gather_tokens_hop,
    reduce_hop,
    scatter_tokens_hop,
)
from atp.tensor_parallel.copies import sum_copies
from atp.tensor_parallel.dimension import Dimension
from atp.tensor_parallel.likeness import features_of, is_conv1d
from atp.tensor_parallel.mesh import Mesh, current_mesh
from atp.tensor_parallel.moves import AllReduce, Keep
from atp.tensor_parallel.overlap import Steps, run
from atp.tensor_parallel.precision import as_autocast_does
from atp.tensor_parallel.sharding import Cut, Part, adopt, local, piece

__all__ = [
    "ATPLinear",
    "column_steps",
    "cut_parameter",
    "piece_of",
    "require_divides",
    "require_piece",
]

_numbers = itertools.count()


class ATPLinear(nn.Module):
    """A linear layer split over both dimensions of the mesh.

    style="column": [..., in/d2] -> [..., out/d1]; the weight is [Shard(0), Shard(1)] in torch's
        [out, in]. Forward a sum over dimension 2 (f1 or f3), backward one over dimension 1.
    style="row": [..., in/d1] -> [..., out/d2]; the weight is [Shard(1), Shard(0)]. Forward a sum
        over dimension 1 (f2 or f4), backward one over dimension 2.

    transposed: the weight is and stays [in, out], as in transformers' Conv1D.

    On a mesh with sequence parallelism, [..., s, h/d2] above is this rank's s/d1 tokens: forward
    "column" gathers them on dimension 1 and "row" scatters its sum, backward the other way round.

    The output of either style is the input of the other, with only element-wise operations in
    between. The weights start like nn.Linear's, from the seed of the mesh's rank 0, the same on
    every mesh.

    Args:
        in_features, out_features: the whole layer's.
        bias: added once, after the sum.
        mesh: default: the one that init_mesh() made last.
        parts: with "column", the parts of out_features that are split separately, e.g. query,
            key and value.
        site: the layer's name, in messages and for the seed; default: its number.

    Raises:
        ValueError: a dimension of the mesh does not divide the features.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        style: str,
        *,
        bias: bool = True,
        mesh: Mesh | None = None,
        parts: Sequence[Part] = (),
        site: str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.transposed = False
        self._configure(in_features, out_features, style, mesh or current_mesh(), parts, site)
        full = torch.empty(out_features, in_features, dtype=dtype)
        generator = self.mesh.generator(self.site)
        bound = 1 / math.sqrt(in_features)
        nn.init.uniform_(full, -bound, bound, generator=generator)
        of_bias = torch.empty(out_features, dtype=dtype) if bias else None
        if of_bias is not None:
            nn.init.uniform_(of_bias, -bound, bound, generator=generator)
        self._adopt(full, of_bias)

    @classmethod
    def from_linear(
        cls, linear: nn.Module, style: str, mesh: Mesh, parts: Sequence[Part] = (), site: str = ""
    ) -> Self:
        """Takes the rank's pieces of a layer that it holds whole: an nn.Linear, or a Conv1D."""
        self = cls.__new__(cls)
        nn.Module.__init__(self)
        self.transposed = is_conv1d(linear)
        outputs, inputs = features_of(linear)
        self._configure(inputs, outputs, style, mesh, parts, site)
        self._adopt(linear.weight, linear.bias)
        return self

    def _configure(self, in_features, out_features, style, mesh, parts, site) -> None:
        if style not in ("column", "row"):
            raise ValueError(f"style: found {style!r}, expected 'column' or 'row'")
        self.in_features, self.out_features, self.style = in_features, out_features, style
        self.mesh, self.parts = mesh, tuple(parts)
        self.site = site or f"linear{next(_numbers)}"
        if not parts:
            require_divides(self.output_dimension, self.site, "outputs", out_features)
        require_divides(self.input_dimension, self.site, "inputs", in_features)

    def _adopt(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        column = self.style == "column"
        out, inwards = (1, 0) if self.transposed else (0, 1)
        cut = Cut(out, inwards, self.parts) if column else Cut(inwards, out)
        adopt(self, "weight", cut_parameter(weight, cut, self.mesh), cut)
        of_bias = Cut(0, None, self.parts) if column else Cut(None, 0)
        adopt(self, "bias", cut_parameter(bias, of_bias, self.mesh), of_bias)

    def operand(self, name: str) -> torch.Tensor | None:
        """The weight, [outputs, inputs], or the bias, in the form that a product uses."""
        parameter = sum_copies(self, name)
        return parameter.mT if name == "weight" and self.transposed else parameter

    @property
    def outputs_here(self) -> int:
        """The number of outputs that this rank has a part of."""
        return piece(self, "weight").shape[1 if self.transposed else 0]

    @property
    def output_dimension(self) -> Dimension:
        """The dimension that the outputs are split over."""
        return self.mesh.first if self.style == "column" else self.mesh.second

    @property
    def input_dimension(self) -> Dimension:
        """The dimension over which the inputs are split and the products summed."""
        return self.mesh.second if self.style == "column" else self.mesh.first

    def steps(self, x: torch.Tensor, arrived: Hop | None = None) -> Steps:
        """Like forward. arrived: the collective that x comes from, if that is done already."""
        weight, bias = self.operand("weight"), self.operand("bias")
        inwards, outwards = arrived or self._inward_hop(), self._outward_hop()
        return (yield from _product_steps(x, weight, bias, inwards, outwards, arrived is not None))

    def _inward_hop(self) -> Hop:
        if self.style == "column" and self.mesh.splits_tokens:
            return gather_tokens_hop(self.mesh.first)
        return Hop(Keep(), AllReduce(self.output_dimension))

    def _outward_hop(self) -> Hop:
        if self.style == "row" and self.mesh.splits_tokens:
            return scatter_tokens_hop(self.mesh.first)
        return reduce_hop(self.input_dimension)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return run(self.steps(x))

    def extra_repr(self) -> str:
        return (
            f"{self.in_features} -> {self.out_features}, {self.style}-first on {self.mesh.shape}, "
            f"here {tuple(local(self.weight).shape)}"
        )


def column_steps(
    linears: Sequence[ATPLinear],
    x: torch.Tensor,
    hop: Hop | None = None,
    arrived: Hop | None = None,
) -> Steps:
    """The outputs of column-first layers of one input, concatenated, in one product and one sum.

    hop: the collective on the products; default: a sum over dimension 2.
    arrived: the collective that x comes from, if that is done already.
    """
    first = linears[0]
    hop = hop or reduce_hop(first.input_dimension)
    inwards = arrived or first._inward_hop()
    weight = _side_by_side([linear.operand("weight") for linear in linears])
    bias = _side_by_side(_biases(linears))
    return (yield from _product_steps(x, weight, bias, inwards, hop, arrived is not None))


def _product_steps(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    inwards: Hop,
    outwards: Hop,
    has_arrived: bool,
) -> Steps:
    x, weight, bias = as_autocast_does(x, weight, bias)
    if not has_arrived:
        x = yield from _entering(x, inwards)
    token = depart_product(x, weight, bias, inwards, outwards)
    yield
    return arrive(token, outwards)


def _entering(x: torch.Tensor, inwards: Hop) -> Steps:
    """x as a product needs it; backward the product starts the hop's collective."""
    if isinstance(inwards.forward, Keep):
        x = enter(x, inwards)
        yield
        return x
    token = depart(x, inwards)
    yield
    return arrive(token, inwards)


def _biases(linears: Sequence[ATPLinear]) -> list[torch.Tensor]:
    """All layers' biases, [] if none has one; if only some have one, the others' are zero."""
    if all(linear.bias is None for linear in linears):
        return []
    return [
        piece(linear, "weight").new_zeros(linear.outputs_here)
        if linear.bias is None
        else linear.operand("bias")
        for linear in linears
    ]


def _side_by_side(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    if len(tensors) <= 1:
        return tensors[0] if tensors else None
    return torch.cat(list(tensors))


def piece_of(full: torch.Tensor, cut: Cut, mesh: Mesh) -> torch.Tensor:
    """This rank's piece of a tensor, in separate memory."""
    return cut.take(full, mesh.shape, mesh.row, mesh.column).clone(
        memory_format=torch.contiguous_format
    )


def cut_parameter(full: torch.Tensor | None, cut: Cut, mesh: Mesh) -> nn.Parameter | None:
    """This rank's piece of a parameter, if there is one."""
    if full is None:
        return None
    trained = full.requires_grad or not isinstance(full, nn.Parameter)
    return nn.Parameter(piece_of(full.detach(), cut, mesh), requires_grad=trained)


def require_divides(dimension: Dimension, site: str, what: str, number: int) -> None:
    """Raises ValueError if the dimension's ranks cannot have equal shares."""
    if number % dimension.size:
        raise ValueError(
            f"{site}: d{dimension.number} = {dimension.size} does not divide its {number} {what}; "
            "choose another mesh"
        )


def require_piece(site: str, x: torch.Tensor, width: int, mesh: Mesh) -> None:
    """Raises ValueError if x is not a rank's piece of [..., width] but, say, a whole tensor."""
    if x.shape[-1] * mesh.second.size != width:
        raise ValueError(
            f"{site}: found {x.shape[-1]} features, expected {width // mesh.second.size}, this "
            f"rank's piece of {width} on {mesh}"
        )
