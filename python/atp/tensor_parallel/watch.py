"""Checks what a model computes between the modules that have roles, the first time it runs.

There a hidden state is a rank's piece, [..., h/d2]. Element-wise operations are right on a piece,
too; operations that need all of a token's values (a norm in the model's own code, a mean, a
product) would be silently wrong. So they are an error that names the module whose code does it.

Inside blocks whose tokens the rows share, a piece is [..., s/d1, h/d2]. There operations along the
tokens are errors as well, and so is a hidden state that did not pass the first block's entrance or
the last one's exit.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle
from torch.utils.weak import WeakIdKeyDictionary

from atp.tensor_parallel.experts import ATPRouter
from atp.tensor_parallel.head import ATPHead
from atp.tensor_parallel.mesh import Mesh

__all__ = ["watch_first_runs"]


def watch_first_runs(
    model: nn.Module,
    names: Iterable[str],
    mesh: Mesh,
    blocks: str | None = None,
    ends: Sequence[str] = (),
    has_inner: bool = False,
) -> None:
    """Checks the model's first run in training and its first run in evaluation.

    Args:
        names: the names of the modules that have roles. The first result of each is a piece of a
            hidden state, except that of the head, which runs last.
        blocks: the name of the list of blocks whose tokens the rows share, if they do.
        ends: the names of the modules that split the tokens before that list and gather them after.
        has_inner: whether a rank has pieces between two layers even if d2 = 1.

    Raises:
        ValueError: from those runs, for the errors described above; raised on every rank.
    """
    places = {name: _place(name, blocks) for name in names} | dict(
        zip(ends, (_ENTRANCE, _EXIT), strict=False)
    )
    waiting, splits_features = {True, False}, mesh.second.size > 1 or has_inner
    watches: list[_Watch] = []

    def begin(module: nn.Module, _inputs: Any) -> None:
        if module.training in waiting and not watches:
            watches.append(_Watch(module, places, splits_features))
            watches[-1].__enter__()

    def end(module: nn.Module, _inputs: Any, outputs: Any) -> None:
        if watches:
            watches.pop().__exit__(None, None, None)
            if outputs is not None:  # it did not fail
                waiting.discard(module.training)

    model.register_forward_pre_hook(begin)
    model.register_forward_hook(end, always_call=True)


# The axes of a hidden state that are split, counted from its end.
_FEATURES, _TOKENS_AND_FEATURES = 1, 2


@dataclasses.dataclass(frozen=True)
class _Place:
    """How a module's hidden state is split before it and after it."""

    before: int
    after: int


_ENTRANCE = _Place(_FEATURES, _TOKENS_AND_FEATURES)
_EXIT = _Place(_TOKENS_AND_FEATURES, _FEATURES)


def _place(name: str, blocks: str | None) -> _Place:
    is_inside = blocks is not None and name.startswith(f"{blocks}.")
    split = _TOKENS_AND_FEATURES if is_inside else _FEATURES
    return _Place(split, split)


# These return a view, which must keep the last axes.
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


def _is_of_each_value(
    func: Any, args: Any, kwargs: Any, pieces: list, others: list, split: int
) -> bool:
    """Whether func is right on pieces whose last axes are split: element-wise, or along others."""
    packet = func.overloadpacket
    if packet in _VIEW or packet in _COPY or packet in _MAKE_NEW:
        return True
    if torch.Tag.pointwise in func.tags:
        same = len({piece.shape[-split:] for piece in pieces}) == 1
        return same and all(set(x.shape[-split:]) <= {1} for x in others)
    axes = range(pieces[0].dim())
    if packet is _aten.index:
        return set(_indexed(args[1])).isdisjoint(axes[-split:])
    if packet in _OVER_AN_AXIS:
        if packet is _aten.stack:  # its result has one more
            axes = range(len(axes) + 1)
        over = args[1] if len(args) > 1 else kwargs.get("dim", _OVER_AN_AXIS[packet])
        over = [over] if isinstance(over, int) else over
        alone = bool(over) and not others
        return alone and {axis % len(axes) for axis in over}.isdisjoint(axes[-split:])
    return False


def _indexed(indices: Sequence[torch.Tensor | None]) -> Iterator[int]:
    """The axes that are indexed; a mask takes as many as it has itself."""
    axis = 0
    for index in indices:
        width = index.dim() if index is not None and index.dtype == torch.bool else 1
        if index is not None:
            yield from range(axis, axis + width)
        axis += width


def _keeps_the_last_axes(
    func: Any, piece: torch.Tensor, results: list[torch.Tensor], split: int
) -> bool:
    if func.overloadpacket not in _VIEW:
        return True
    return all(_last_axes(x, split) == _last_axes(piece, split) for x in results)


def _last_axes(x: torch.Tensor, split: int) -> list[tuple[int, int]]:
    """Their lengths and strides."""
    lengths, strides = x.shape[-split:], x.stride()[-split:]
    return [(n, step if n > 1 else 0) for n, step in zip(lengths, strides, strict=True)]


class _Watch(TorchDispatchMode):
    def __init__(self, model: nn.Module, places: Mapping[str, _Place], splits_features: bool):
        super().__init__()
        self._least = _FEATURES if splits_features else _TOKENS_AND_FEATURES
        self._pieces = WeakIdKeyDictionary()  # hidden states, and how many axes of them are split
        self._shares_tokens = _ENTRANCE in places.values()
        self._running: list[str] = []
        self._inside = 0  # depth inside modules that have roles
        self._handles: list[RemovableHandle] = []
        for name, module in model.named_modules():
            if module is not model:
                self._hook(name, module, places.get(name))

    def _hook(self, name: str, module: nn.Module, place: _Place | None) -> None:
        def begin(_module: nn.Module, inputs: Any, named: Any) -> None:
            self._running.append(name)
            if place is not None and self._shares_tokens and not self._inside:
                self._check_tokens(name, place, (*inputs, *named.values()))
            self._inside += place is not None

        def end(module: nn.Module, _inputs: Any, outputs: Any) -> None:
            self._running.pop()
            self._inside -= place is not None
            piece = outputs[0] if isinstance(outputs, tuple) else outputs
            is_piece = isinstance(piece, torch.Tensor) and not isinstance(
                module, (ATPHead, ATPRouter)
            )
            if place is None or not is_piece or self._inside:
                return
            if place.after >= self._least:
                self._pieces[piece] = place.after

        # Before a module's own hooks, which may communicate.
        self._handles.append(
            module.register_forward_pre_hook(begin, with_kwargs=True, prepend=True)
        )
        self._handles.append(module.register_forward_hook(end, always_call=True))

    def _check_tokens(self, name: str, place: _Place, given: Iterable[Any]) -> None:
        """A hidden state is whole outside the blocks, and only a row's tokens inside."""
        split = {self._pieces.get(x) for x in given if isinstance(x, torch.Tensor)}
        if place.before == _TOKENS_AND_FEATURES and _TOKENS_AND_FEATURES not in split:
            raise ValueError(
                f"{name}: its input did not come through the first block, where sequence "
                "parallelism splits the tokens; use init_mesh() without sequence_parallel"
            )
        if place.before == _FEATURES and _TOKENS_AND_FEATURES in split:
            raise ValueError(
                f"{name}: its input did not come through the last block, where sequence "
                "parallelism gathers the tokens; use init_mesh() without sequence_parallel"
            )

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
        split = max(self._pieces[x] for x in pieces)
        if not _is_of_each_value(func, args, kwargs, pieces, others, split):
            raise self._error(func)
        returned = func(*args, **kwargs)
        results = [x for x in tree_leaves(returned) if isinstance(x, torch.Tensor)]
        if not _keeps_the_last_axes(func, pieces[0], results, split):
            raise self._error(func)
        last = pieces[0].shape[-split:]
        for result in results:
            if result.shape[-split:] == last:
                self._pieces[result] = split
        return returned

    def _error(self, func: Any) -> ValueError:
        where = self._running[-1] if self._running else ""
        return ValueError(
            f"{where or 'the model'}: its forward() computes {func} of a hidden state, which may "
            "need all of it, but a rank has only a piece; make it a module that parallelize() "
            "supports, or give the model's modules roles with plan={name: role}"
        )
