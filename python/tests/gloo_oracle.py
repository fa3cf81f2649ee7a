"""For tests: the result or the refusal of a call over a Gloo group of the same ranks."""

import torch
import torch.distributed as dist

import atp.torch


def outcome(function, group):
    """The result of function(group), a mark that it was refused, or the type of its exception."""
    try:
        return function(group)
    except Exception as error:
        # Which of these Gloo raises does not matter.
        is_refusal = type(error) in (TypeError, ValueError, RuntimeError)
        return "refused" if is_refusal else type(error).__name__


def same(ours, theirs) -> bool:
    if isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor):
        return ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs


def all_reduce_of(tensor, op):
    def function(group):
        mine = tensor.clone()
        dist.all_reduce(mine, op=op, group=group)
        return mine

    return function


def check_like_gloo(ranks, world_size, cases):
    """cases(rank) yields (name, function); each result must equal Gloo's, without the network."""
    for by_us in check_equals_gloo(ranks, world_size, cases):
        assert by_us == {}


def check_equals_gloo(ranks, world_size, cases):
    """Checks only that results equal Gloo's; returns what the network has reduced, by rank."""

    def body(rank):
        gloo = dist.new_group(backend="gloo")
        differing = []
        for name, function in cases(rank):
            ours, theirs = outcome(function, None), outcome(function, gloo)
            if not same(ours, theirs):
                differing.append(f"{name}: {ours} instead of {theirs}")
        return differing, atp.torch.stats()["innetwork"]

    results = ranks.run(world_size, body)
    for differing, _ in results:
        assert not differing, differing
    return [by_us for _, by_us in results]
