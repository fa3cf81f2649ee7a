"""Checks what a model computes between the modules that have roles, the first time it runs.

There a hidden state is a rank's piece, [..., h/d2]. Element-wise operations are right on a piece,
too; operations that need all of a token's values (a norm in the model's own code, a mean, a
product) would be silently wrong. So they are an error that names the module whose code does it.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle
from torch.utils.weak import WeakIdKeyDictionary

from atp.tensor_parallel.head import ATPHead

__all__ = ["watch_first_runs"]


def watch_first_runs(model: nn.Module, names: Iterable[str]) -> None:
    """Checks the model's first run in training and its first run in evaluation.

    Args:
        names: the names of the modules that have roles. Each returns a piece of a hidden state, as
            the first of several results; except the head, which runs last.

    Raises:
        ValueError: in those runs, as above; raised on every rank.
    """
    with_roles, waiting = frozenset(names), {True, False}
    watches: list[_Watch] = []

    def begin(module: nn.Module, _inputs: Any) -> None:
        if module.training in waiting and not watches:
            watches.append(_Watch(module, with_roles))
            watches[-1].__enter__()

    def end(module: nn.Module, _inputs: Any, outputs: Any) -> None:
        if watches:
            watches.pop().__exit__(None, None, None)
            if outputs is not None:  # it did not fail
                waiting.discard(module.training)

    model.register_forward_pre_hook(begin)
    model.register_forward_hook(end, always_call=True)


# These return a view, which must keep the last axis.
_aten = torch.ops.aten
_VIEW = {
    _aten.view, _aten._unsafe_view, _aten.reshape, _aten.expand, _aten.slice, _aten.select,
    _aten.unsqueeze, _aten.squeeze, _aten.transpose, _aten.permute, _aten.t, _aten.split,
    _aten.split_with_sizes, _aten.unbind, _aten.alias, _aten.detach,
}  # fmt: skip
_COPY = {
    _aten.clone, _aten._to_copy, _aten.copy_, _aten.native_dropout, _aten.bernoulli,
    _aten.bernoulli_,
}  # fmt: skip
_MAKE_NEW = {
    _aten.new_empty, _aten.new_zeros, _aten.new_ones, _aten.new_full, _aten.empty_like,
    _aten.zeros_like, _aten.ones_like, _aten.full_like, _aten.rand_like,
}  # fmt: skip
_OVER_AN_AXIS = {
    _aten.cat: 0, _aten.stack: 0, _aten.index_select: None, _aten.mean: None, _aten.sum: None,
    _aten.amax: None, _aten.cumsum: None,
}  # fmt: skip
"""The axis they use by default."""


def _is_of_each_value(func: Any, args: Any, kwargs: Any, pieces: list, others: list) -> bool:
    """Whether it is right on a piece: element-wise, or along other axes than the last."""
    packet = func.overloadpacket
    if packet in _VIEW or packet in _COPY or packet in _MAKE_NEW:
        return True
    if torch.Tag.pointwise in func.tags:
        same = len({piece.shape[-1] for piece in pieces}) == 1
        return same and all(x.dim() == 0 or x.shape[-1] == 1 for x in others)
    if packet is _aten.index:
        return len(args[1]) < args[0].dim() or args[1][-1] is None
    if packet in _OVER_AN_AXIS:
        axes = args[1] if len(args) > 1 else kwargs.get("dim", _OVER_AN_AXIS[packet])
        axes = [axes] if isinstance(axes, int) else axes
        last = pieces[0].dim() - (packet is not _aten.stack)  # the result of stack has one more
        return bool(axes) and not others and all(axis not in (-1, last) for axis in axes)
    return False


def _keeps_the_last_axis(func: Any, piece: torch.Tensor, results: list[torch.Tensor]) -> bool:
    if func.overloadpacket not in _VIEW:
        return True
    last = piece.shape[-1], piece.stride(-1)
    return all(x.dim() > 0 and (x.shape[-1], x.stride(-1)) == last for x in results)


class _Watch(TorchDispatchMode):
    def __init__(self, model: nn.Module, with_roles: frozenset[str]):
        super().__init__()
        self._pieces = WeakIdKeyDictionary()
        self._running: list[str] = []
        self._inside = 0  # depth inside modules that have roles
        self._handles: list[RemovableHandle] = []
        for name, module in model.named_modules():
            if module is not model:
                self._hook(name, module, name in with_roles)

    def _hook(self, name: str, module: nn.Module, has_role: bool) -> None:
        def begin(_module: nn.Module, _inputs: Any) -> None:
            self._running.append(name)
            self._inside += has_role

        def end(module: nn.Module, _inputs: Any, outputs: Any) -> None:
            self._running.pop()
            self._inside -= has_role
            piece = outputs[0] if isinstance(outputs, tuple) else outputs
            is_piece = isinstance(piece, torch.Tensor) and not isinstance(module, ATPHead)
            if has_role and is_piece and not self._inside:
                self._pieces[piece] = True

        self._handles.append(module.register_forward_pre_hook(begin))
        self._handles.append(module.register_forward_hook(end, always_call=True))

    def __exit__(self, *error: Any) -> Any:
        for handle in self._handles:
            handle.remove()
        return super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._inside:
            return func(*args, **kwargs)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        pieces = [x for x in given if x in self._pieces]
        if not pieces:
            return func(*args, **kwargs)
        others = [x for x in given if x not in self._pieces]
        if not _is_of_each_value(func, args, kwargs, pieces, others):
            raise self._error(func)
        returned = func(*args, **kwargs)
        results = [x for x in tree_leaves(returned) if isinstance(x, torch.Tensor)]
        if not _keeps_the_last_axis(func, pieces[0], results):
            raise self._error(func)
        for result in results:
            if result.dim() and result.shape[-1] == pieces[0].shape[-1]:
                self._pieces[result] = True
        return returned

    def _error(self, func: Any) -> ValueError:
        where = self._running[-1] if self._running else ""
        return ValueError(
            f"{where or 'the model'}: its forward() computes {func} of a hidden state, of which a "
            "rank has only a piece, but may need the whole; make it a module that parallelize() "
            "supports, or give the model's modules roles with plan={name: role}"
        )
