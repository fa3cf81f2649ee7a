"""Tests of the numbers: every sum is right to the last bit, whatever its magnitudes and history."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from . import numbers_cases as cases
from . import numbers_judge as judge
from . import numbers_oracle as oracle
from .network import PROGRAM

W = 4


def judged(results, calls):
    """Fails if a call's result differs from the oracle's, or is outside the bound.

    results: one list per rank, with an array per call. calls: each call's inputs by rank, and the
    lengths of its tensors.
    """
    for number, (inputs_of, lengths) in enumerate(calls):
        inputs = [np.concatenate([t.numpy() for t in inputs_of(rank)]) for rank in range(W)]
        wanted = np.array(oracle.float_sum(inputs, lengths, "int32", False)).astype(np.float32)
        for rank in range(W):
            got = results[rank][number]
            assert got.tobytes() == wanted.tobytes(), f"call {number}, rank {rank}: {got[:9]}"
            assert not oracle.outside_bound(got, inputs, lengths, "int32", False), number


def sums(calls):
    """A body that makes the calls, each with a list of tensors; several are coalesced."""

    def body(rank):
        results = []
        for inputs_of, _ in calls:
            tensors = [tensor.clone() for tensor in inputs_of(rank)]
            if len(tensors) == 1:
                dist.all_reduce(tensors[0])
            else:
                dist.all_reduce_coalesced(tensors)
            results.append(torch.cat(tensors).numpy())
        return results

    return body


def same(*values):
    """A call with one tensor, the same on all ranks."""
    return lambda _: [torch.tensor(values)], [len(values)]


def randn(size, factor=1.0, seed=0):
    def inputs(rank):
        generator = torch.Generator().manual_seed(1000 * seed + rank)
        return [torch.randn(size, generator=generator) * factor]

    return inputs, [size]


LAYERS = [10.0**-power for power in range(9)]


def layers(lengths, coalesced):
    """One bucket of nine layers, each with a tenth of the previous one's values."""

    def inputs(rank):
        generator = torch.Generator().manual_seed(rank)
        own = [
            torch.randn(length, generator=generator) * factor
            for length, factor in zip(lengths, LAYERS, strict=True)
        ]
        return own if coalesced else [torch.cat(own)]

    return inputs, lengths if coalesced else [sum(lengths)]


UNEQUAL = [1000, 300, 7, 2049, 64, 513, 1, 700, 90]
PROBE = {
    "a scalar of a million and then one of a ten-thousandth": [same(1e6)] + [same(1e-4)] * 5,
    "a million and a ten-thousandth in one pair": [same(1e6, 1e-4)],
    "seven values of 1e-10 as the first sum": [same(*[1e-10] * 7)],
    "a hundred thousand values of 1e-9 as the first sum": [randn(100_003, 1e-9)],
    "a bucket of nine layers of equal lengths": [layers([1024] * 9, False)] * 2,
    "a bucket of nine layers of unequal lengths": [layers(UNEQUAL, False)] * 2,
    "nine layers of unequal lengths in one coalesced call": [layers(UNEQUAL, True)] * 2,
    "a magnitude that falls a thousandfold a step": [
        randn(5000, 1e3**-step, step) for step in range(10)
    ],
    "a spike of 1e10 and the steps after it": [
        randn(5000, factor, 7) for factor in (1.0, 1e10, 1.0, 1.0)
    ],
}


@pytest.mark.parametrize("row", PROBE)
def test_the_sum_is_right(ranks, row):
    judged(ranks.run(W, sums(PROBE[row])), PROBE[row])


def test_each_layer_of_a_coalesced_call_is_as_precise_as_alone(ranks):
    calls = [layers(UNEQUAL, True)]
    (result,) = ranks.run(W, sums(calls))[0]
    begin = 0
    for number, length in enumerate(UNEQUAL):
        inputs = [calls[0][0](rank)[number].double() for rank in range(W)]
        most = max(one.abs().max().item() for one in inputs)
        error = np.abs(result[begin : begin + length] - sum(inputs).numpy()).max()
        # W/2 units of a block whose largest value is the layer's, and half an ulp.
        assert error <= W * 2.0**2 * 2.0**-30 * most + W * most * 2.0**-25, f"layer {number}"
        begin += length


# Each world runs over a different network, or none: the results must not depend on it.
WORLDS = {
    1: ("--no-switch",),
    2: ("--no-switch", "--values", "350"),
    3: ("--servers", "2"),
    4: ("--switch",),
    6: (),  # the host's memory
    8: ("--values", "350"),
}
SEED, COUNT = 15_000, 90


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Runs the cases of a world once; returns {rank: its file}."""
    folders = {}

    def run(world_size):
        if world_size not in folders:
            folder = folders[world_size] = tmp_path_factory.mktemp(f"numbers{world_size}")
            rank = Path(__file__).with_name("numbers_rank.py")
            done = subprocess.run(
                [PROGRAM, "run", "-n", str(world_size), *WORLDS[world_size], "--",
                 sys.executable, rank, folder, str(SEED), str(COUNT)],
                capture_output=True, text=True, timeout=200,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-3000:]
        found = [np.load(folders[world_size] / f"{rank}.npz") for rank in range(world_size)]
        todo = cases.drawn(SEED, world_size, COUNT) + cases.a_thousandfold_a_step(world_size)
        return todo, found

    return run


@pytest.mark.parametrize("world_size", WORLDS)
def test_every_drawn_sum_has_the_bits_of_the_oracle_and_is_within_the_bound(drawn, world_size):
    todo, found = drawn(world_size)
    complaints = [judge.complaint(case, found[0][f"arr_{n}"]) for n, case in enumerate(todo)]
    assert not any(complaints), "\n".join(filter(None, complaints))


@pytest.mark.parametrize("world_size", WORLDS)
def test_all_ranks_have_the_same_bits_of_every_drawn_sum(drawn, world_size):
    todo, found = drawn(world_size)
    for number, case in enumerate(todo):
        different = {one[f"arr_{number}"].tobytes() for one in found}
        assert len(different) == 1, str(case)


@pytest.mark.parametrize("world_size", WORLDS)
def test_the_bits_are_the_same_after_other_sums_and_with_others_in_flight(drawn, world_size):
    todo, found = drawn(world_size)
    for rank, own in enumerate(found):
        assert not [str(todo[number]) for number in own["differ"]], f"rank {rank}"
