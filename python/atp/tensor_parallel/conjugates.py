"""The conjugate collectives f1 to f4 (paper §3.2.1, Fig. 6) and the products between them.

With X [Replicate, Shard(1)] and A [Shard(1), Shard(0)], XA is a partial sum over dimension 2, so f1
and f3 sum on dimension 2 and f2 and f4 on dimension 1 (Fig. 6 of the paper swaps them; its
equation 2 is right):

    where                  forward                        backward
    QKV's input            -                              all-reduce dim 1 of dX
    f1, QKV's output       all-reduce dim 2, slice        all-gather dim 2
    before W_O             all-gather dim 2               all-reduce dim 2, slice
    f2, W_O's output       all-reduce dim 1               -
    A's input              -                              all-reduce dim 1 of dX
    f3, A's output         all-reduce dim 2               all-reduce dim 2 (of the input of B)
    f4, B's output         all-reduce dim 1               -

With sequence parallelism each all-reduce on dimension 1 is split in two. Between the blocks a rank
has only some of the tokens, so the sum becomes a reduce-scatter, and the next block's input an
all-gather:

    QKV's, A's input       all-gather dim 1               reduce-scatter dim 1 of dX
    f2, f4                 reduce-scatter dim 1           all-gather dim 1

Each is a `Hop`, in two halves: `depart` starts the collective, `arrive` waits for it. Autograd runs
the halves in reverse order in the backward pass, so a computation between the two overlaps with
the collective forward, and its gradient with the conjugate collective backward.
"""

from typing import Any

import torch
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.dimension import Dimension
from atp.tensor_parallel.moves import (
    AllReduce,
    Gather,
    Keep,
    Landing,
    Move,
    ReduceSlice,
    Slicing,
    Tokens,
)
from atp.tensor_parallel.precision import is_half, product_in_float32

__all__ = [
    "Hop",
    "arrive",
    "depart",
    "depart_product",
    "enter",
    "f1",
    "f2",
    "f3",
    "f4",
    "gather",
    "gather_tokens_hop",
    "reduce_hop",
    "scatter_tokens_hop",
]


# x times the transpose of a weight, and a bias. `replay`, which has no half precision, substitutes
# something that costs nothing.
_multiply = torch.nn.functional.linear


# The gradient of the weight of such a product; `replay` substitutes it, too.
def _gradient_of_weight(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient.flatten(0, -2).mT @ x.flatten(0, -2)


class Hop:
    """One call's collective forward and its conjugate backward.

    forward, backward: the collectives.
    bias: `slicing` takes this rank's slice of it, which is added to the result.
    dtype: of the tensors on both ends; a partial product may have more bits on its way.
    """

    def __init__(
        self,
        forward: Move,
        backward: Move,
        slicing: tuple[Slicing, int] | None = None,
    ):
        self.forward = forward
        self.backward = backward
        self.slicing = slicing
        self.going: Landing | None = None
        self.returning: Landing | None = None
        self.bias: torch.Tensor | None = None
        self.dtype: torch.dtype | None = None

    def send_back(self, gradient: torch.Tensor) -> None:
        self.returning = self.backward.start(gradient)

    def take_returned(self) -> torch.Tensor:
        assert self.returning is not None, "backward ran twice over one collective"
        landing, self.returning = self.returning, None
        return landing.land().to(self.dtype)

    def take_arrived(self) -> torch.Tensor:
        assert self.going is not None
        landing, self.going = self.going, None
        result = landing.land().detach()  # the input has an autograd history; this gets its own
        if self.bias is not None:
            bias, self.bias = self.bias, None
            result.add_(self.slicing[0].bias(bias, self.slicing[1]) if self.slicing else bias)
        return result.to(self.dtype)


class _Depart(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, hop: Hop) -> torch.Tensor:
        ctx.hop, hop.dtype = hop, x.dtype
        hop.going = hop.forward.start(x)
        return x.new_empty(0)  # stands for the result until it arrives

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: torch.Tensor):
        return ctx.hop.take_returned(), None


class _Arrive(Function):
    @staticmethod
    def forward(ctx: Any, token: torch.Tensor, hop: Hop) -> torch.Tensor:
        ctx.hop = hop
        return hop.take_arrived()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        if ctx.hop.returning is None:  # else the product has started it
            # Others may also hold this gradient, and the collective overwrites it.
            own = gradient if isinstance(ctx.hop.backward, Keep) else gradient.clone()
            ctx.hop.send_back(own)
        return gradient.new_empty(0), None


class _Enter(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, hop: Hop) -> torch.Tensor:
        ctx.hop, hop.dtype = hop, x.dtype
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: torch.Tensor):
        return ctx.hop.take_returned(), None  # started by the product


class _DepartProduct(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        inwards: Hop,
        outwards: Hop,
    ) -> torch.Tensor:
        ctx.inwards, ctx.outwards, outwards.dtype = inwards, outwards, x.dtype
        ctx.save_for_backward(x, weight)
        if outwards.forward.sums:
            outwards.bias = bias
            partial = _partial_product(x, weight)
        else:
            partial = _multiply(x, weight, bias)
        outwards.going = outwards.forward.start(partial)
        return x.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: torch.Tensor):
        x, weight = ctx.saved_tensors
        gradient = ctx.outwards.take_returned()
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            multiply = _partial_product if ctx.inwards.backward.sums else _multiply
            # In flight while the weight's gradient is computed (§4.2).
            ctx.inwards.send_back(multiply(gradient, weight.mT))
            of_x = x.new_zeros(()).expand_as(x)  # the hop has the gradient
        if ctx.needs_input_grad[1]:
            of_weight = _gradient_of_weight(gradient, x)
        if ctx.needs_input_grad[2]:
            # The conjugate has completed the gradient, so the bias's is the same along dimension 2.
            of_bias = gradient.flatten(0, -2).sum(0)
        return of_x, of_weight, of_bias, None, None


def _partial_product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A product that is summed over ranks: rounded to half precision only after the sum."""
    return (product_in_float32 if is_half(x) else _multiply)(x, weight)


def depart(x: torch.Tensor, hop: Hop) -> torch.Tensor:
    """Starts the hop's collective on `x`, which it may overwrite; returns a placeholder."""
    return _Depart.apply(x, hop)


def depart_product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, inwards: Hop, outwards: Hop
) -> torch.Tensor:
    """Starts the hop `outwards` on x times the transpose of `weight`; returns a placeholder.

    Backward it starts `inwards`. With that hop, `x` must come from `enter`, or directly from
    `arrive`.
    """
    return _DepartProduct.apply(x, weight, bias, inwards, outwards)


def arrive(token: torch.Tensor, hop: Hop) -> torch.Tensor:
    """Waits for the collective's result; adds the bias, if it is a product's."""
    return _Arrive.apply(token, hop)


def enter(x: torch.Tensor, hop: Hop) -> torch.Tensor:
    """`x` itself; backward, the sum of its gradients, which `depart_product` has started."""
    return _Enter.apply(x, hop)


def reduce_hop(dimension: Dimension) -> Hop:
    """f2, f4 and the forward half of f3: a sum on `dimension` forward, nothing backward."""
    return Hop(AllReduce(dimension), Keep())


def gather_tokens_hop(first: Dimension, padding: int = 0) -> Hop:
    """This rank's tokens -> those of all rows; backward, its tokens of the sum over dimension 1."""
    tokens = Tokens(first.size, padding)
    return Hop(Gather(first, tokens), ReduceSlice(first, tokens))


def scatter_tokens_hop(first: Dimension, padding: int = 0) -> Hop:
    """f2 and f4, but this rank keeps only its tokens; backward, the gradients of all tokens."""
    tokens = Tokens(first.size, padding)
    return Hop(ReduceSlice(first, tokens), Gather(first, tokens))


def _go(x: torch.Tensor, hop: Hop) -> torch.Tensor:
    return arrive(depart(x.clone(), hop), hop)


def f1(x: torch.Tensor, second: Dimension, slicing: Slicing) -> torch.Tensor:
    """[b, s, 3h/d1] -> this rank's slice of the sum over dimension 2; backward, all slices'
    gradients. `slicing` is how the ranks of dimension 2 share it: Heads or Sequences."""
    return _go(x, Hop(ReduceSlice(second, slicing), Gather(second, slicing)))


def gather(x: torch.Tensor, second: Dimension, slicing: Slicing) -> torch.Tensor:
    """A slice -> [b, s, h/d1], all ranks' slices concatenated; backward, this rank's slice of the
    sum of the gradients over dimension 2."""
    return _go(x, Hop(Gather(second, slicing), ReduceSlice(second, slicing)))


def f2(x: torch.Tensor, first: Dimension) -> torch.Tensor:
    """[..., h/d2] -> the sum over dimension 1; backward, the gradient itself."""
    return _go(x, reduce_hop(first))


def f3(x: torch.Tensor, second: Dimension) -> torch.Tensor:
    """[..., 4h/d1] -> the sum over dimension 2; backward, the sum of the gradients over it."""
    return _go(x, Hop(AllReduce(second), AllReduce(second)))


def f4(x: torch.Tensor, first: Dimension) -> torch.Tensor:
    """[..., h/d2] -> the sum over dimension 1; backward, the gradient itself."""
    return f2(x, first)
