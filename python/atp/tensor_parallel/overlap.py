"""Chunk-based overlap (paper §4.1): while one chunk of the batch communicates, another computes.

A module that communicates has `steps(x)`, a generator that yields while a collective is in progress
and returns the module's result. `run` runs it to the end at once; `run_chunks` alternates between
the chunks of a batch. Autograd runs the same order backwards, so the backward pass overlaps, too.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch

__all__ = ["Steps", "apply", "once_a_batch", "run", "run_chunks"]

Steps = Generator[None, None, Any]

# Values shared by the chunks of each batch that is running.
_shared: list[dict[torch.Tensor, torch.Tensor]] = []


def run(steps: Steps) -> Any:
    """Runs all steps, and returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def apply(module: Any, *inputs: Any) -> Steps:
    """The steps of a module; a module without steps returns its result at once."""
    if hasattr(module, "steps"):
        return (yield from module.steps(*inputs))
    return module(*inputs)


def run_chunks(module: torch.nn.Module, batch: Sequence[torch.Tensor], chunks: int) -> list[Any]:
    """The module's results for each of `chunks` equal parts of the batch.

    Args:
        module: has `steps`.
        batch: the module's inputs; the first axis of each is the batch.
        chunks: the number of parts; must divide the batch.

    Raises:
        ValueError: `chunks` does not divide the batch, or the module has no steps.
    """
    if not hasattr(module, "steps"):
        raise ValueError(
            f"{type(module).__name__} has no steps(), so its chunks cannot be interleaved: write "
            "its forward as a generator that yields while a collective is in progress, or use "
            "chunks=1"
        )
    size = batch[0].shape[0]
    if chunks < 1 or size % chunks:
        raise ValueError(f"{chunks} chunks do not divide the batch of {size} sequences")
    parts = zip(*(tensor.chunk(chunks) for tensor in batch), strict=True)
    _shared.append({})
    try:
        return _take_turns([module.steps(*part) for part in parts])
    finally:
        _shared.pop()


def once_a_batch(
    parameter: torch.Tensor, make: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """The result of `make` on a parameter: the same for all chunks of a batch, so that it gets
    the sum of their gradients."""
    if not _shared:
        return make(parameter)
    if parameter not in _shared[-1]:
        _shared[-1][parameter] = make(parameter)
    return _shared[-1][parameter]


def _take_turns(waiting: list[Steps]) -> list[Any]:
    results: list[Any] = [None] * len(waiting)
    alive = dict(enumerate(waiting))
    while alive:
        for number, steps in list(alive.items()):
            try:
                next(steps)
            except StopIteration as end:
                results[number] = end.value
                del alive[number]
    return results
