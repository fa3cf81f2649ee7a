"""Wrong input is refused on every rank, soon and with a clear message."""

import dataclasses
import datetime

import pytest
import torch
import torch.distributed as dist
from torch import nn

import atp.torch
from atp.tensor_parallel import (
    ATPLinear,
    Column,
    Row,
    Transformer,
    clip_grad_norm_,
    init_mesh,
    parallelize,
    run_chunks,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.agreement import agree
from atp.tensor_parallel.transformer import Block

from .test_models import GPT, make

SOON = datetime.timedelta(seconds=2)


def errors(gloo_ranks, size, body) -> list[str]:
    """The error that body raised on each rank."""

    def raising(rank):
        with pytest.raises((ValueError, TimeoutError)) as error:
            body(rank)
        return f"{type(error.value).__name__}: {error.value}"

    outcomes = gloo_ranks.outcomes(size, raising, backend="gloo", limit_s=30)
    assert all(outcome.error is None for outcome in outcomes), outcomes
    assert all(outcome.seconds < 20 for outcome in outcomes)
    return [outcome.value for outcome in outcomes]


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)


def chunked(model, chunks=2, **batch):
    return run_chunks(model, [torch.zeros(4, 2, 8)], chunks)


def with_dropout(where):
    block = Block(GPT)
    block.get_submodule(where).drop = nn.Dropout(0.9)
    return block


def parametrized(model):
    nn.utils.parametrize.register_parametrization(
        model.blocks[0].norm1, "weight", nn.Identity(), unsafe=True
    )
    return model


CONFIG = dataclasses.replace(GPT, hidden=24, heads=6, ffn=30)
REFUSED_EVERYWHERE = {
    "a mesh of too many ranks": (
        lambda rank: init_mesh(3, 2),
        "mesh (3, 2) with 1 replica has 6 ranks, but the job has 4",
    ),
    "a mesh of no ranks": (lambda rank: init_mesh(0, 4), "d1: found 0, expected at least 1"),
    "a mesh of half ranks": (lambda rank: init_mesh(1.5, 2), "d1: found 1.5, expected a whole"),
    "an unknown algorithm": (
        lambda rank: init_mesh(4, 1, algorithm="nccl"),
        "found 'nccl', expected one of gloo, ring, innetwork",
    ),
    "an unknown algorithm between replicas": (
        lambda rank: init_mesh(4, 1, data_algorithm="nccl"),
        "data_algorithm: found 'nccl', expected one of gloo, ring, innetwork",
    ),
    "an option that does not exist": (
        lambda rank: init_mesh(4, 1, algoritm="ring"),
        "init_mesh() has no option algoritm",
    ),
    "a type by its name": (
        lambda rank: init_mesh("auto", cluster="t", model="m", dtype="bfloat16"),
        "dtype: found 'bfloat16', expected a torch.dtype, e.g. torch.bfloat16",
    ),
    "patience as a number": (
        lambda rank: init_mesh(4, 1, patience=3),
        "patience: found 3, expected a datetime.timedelta",
    ),
    "what is not a model": (
        lambda rank: parallelize("GPT", mesh=init_mesh(4, 1)),
        "model: found 'GPT', expected a torch.nn.Module",
    ),
    "auto without a cluster": (lambda rank: init_mesh("auto"), "needs cluster=... and model="),
    "heads that d1 does not divide": (
        lambda rank: parallelize(Transformer(CONFIG), mesh=init_mesh(4, 1)),
        "d1 = 4 does not divide its 6 heads",
    ),
    "a hidden size that d2 does not divide": (
        lambda rank: parallelize(Block(dataclasses.replace(CONFIG, hidden=30)),
                                 mesh=init_mesh(1, 4)),
        "d2 = 4 does not divide its 30 features",
    ),
    "key-value heads that fit no rows": (
        lambda rank: parallelize(Block(dataclasses.replace(GPT, heads=12, hidden=48, kv_heads=3)),
                                 mesh=init_mesh(4, 1)),
        "does not divide its 3 key-value heads and is not a multiple",
    ),
    "a model that is parallelized already": (
        lambda rank: parallelize(parallelize(make(GPT), mesh=init_mesh(4, 1))),
        "this Transformer is already parallelized, on Mesh(4, 1) over gloo/gloo",
    ),
    "a model without a plan": (
        lambda rank: parallelize(Odd(), mesh=init_mesh(4, 1)),
        "there is no plan for Odd",
    ),
    "a plan that names no module": (
        lambda rank: parallelize(Odd(), {"c": Column()}, init_mesh(4, 1)),
        "the model has no module 'c'",
    ),
    "a plan that leaves parameters out": (
        lambda rank: parallelize(Odd(), {"a": Column()}, init_mesh(4, 1)),
        "no role says how to split b.weight, b.bias",
    ),
    "a role of another kind of module": (
        lambda rank: parallelize(Block(GPT), {"norm1": Column()}, init_mesh(4, 1)),
        "norm1: found LayerNorm, expected Linear",
    ),
    "chunks of a model without steps": (
        lambda rank: parallelize(Odd(), {"a": Column(), "b": Column()}, init_mesh(4, 1), chunks=2),
        "Odd has no steps()",
    ),
    "chunks that do not divide the batch": (
        lambda rank: parallelize(make(GPT), mesh=init_mesh(4, 1), chunks=3)(
            torch.zeros(4, 2).long()),
        "3 chunks do not divide the batch of 4",
    ),
    "tokens beyond the vocabulary": (
        lambda rank: parallelize(make(GPT), mesh=init_mesh(4, 1))(torch.full((1, 2), 1000)),
        f"tokens: found numbers from 1000 to 1000, expected 0 to {GPT.vocabulary - 1}",
    ),
    "a sequence beyond the positions": (
        lambda rank: parallelize(make(GPT), mesh=init_mesh(2, 2))(torch.zeros(1, 20).long()),
        f"positions: found 20 tokens, but the model has {GPT.positions} positions",
    ),
    "targets that stand for nothing": (
        lambda rank: vocabulary_parallel_cross_entropy(
            torch.zeros(1, 2, 8), torch.tensor([[0, -1]]), init_mesh(2, 2)),
        "targets: found numbers from -1 to 0, expected 0 to 15",
    ),
    "a vocabulary too small for the rows": (
        lambda rank: parallelize(make(dataclasses.replace(GPT, vocabulary=5)),
                                 mesh=init_mesh(4, 1)),
        "tokens: a vocabulary of 5 tokens leaves a row of d1 = 4 without any",
    ),
    "ranks that start with different values": (
        lambda rank: parallelize(make(GPT, seed=rank // 3), mesh=init_mesh(2, 2)),
        "They differ first in tokens.weight: [64, 32] of float64, checksum ",
    ),
    "a dropout that a role does not mention": (
        lambda rank: parallelize(with_dropout("feed_forward"), mesh=init_mesh(2, 2)),
        "feed_forward: its role does not mention its Dropout drop",
    ),
    "a dropout of whole channels": (
        lambda rank: parallelize(
            nn.Sequential(nn.Linear(8, 8), nn.Dropout1d()), {"0": Column()}, init_mesh(2, 2)),
        "1: Dropout1d cannot be split",
    ),
    "a parameter that replaced another": (
        lambda rank: clip_grad_norm_(parametrized(parallelize(make(GPT), mesh=init_mesh(2, 2))), 1),
        "blocks.0.norm1.parametrizations.weight.original is a parameter that parallelize() has not",
    ),
    "a layer without a mesh": (lambda rank: ATPLinear(8, 8, "column"), "there is no mesh"),
    "ranks that request different meshes": (
        lambda rank: init_mesh(*((4, 1) if rank < 3 else (2, 2))),
        "ranks 0, 1, 2 say: init_mesh: 1 x (4,1) over gloo/gloo/gloo; "
        "rank 3 says: init_mesh: 1 x (2,2)",
    ),
    "ranks that scatter sums differently": (
        lambda rank: init_mesh(2, 2, fused=rank == 0),
        "over gloo/gloo/gloo, fused=True; ranks 1, 2, 3 say: init_mesh: 1 x (2,2) over "
        "gloo/gloo/gloo, fused=False",
    ),
    "ranks that cut their models differently": (
        lambda rank: parallelize(make(GPT), mesh=init_mesh(4, 1), chunks=1 + rank // 2),
        "2 chunks, Mesh(4, 1) over gloo/gloo. All must do the same",
    ),
    "ranks with other roles for a module": (
        lambda rank: parallelize(
            Odd(), {"a": Column(), "b": Column() if rank < 3 else Row()}, init_mesh(4, 1)),
        "They differ first in b: Column on ranks 0, 1, 2, Row on rank 3. All must",
    ),
    "ranks with other modules": (
        lambda rank: parallelize(
            nn.Sequential(*[nn.Linear(8, 8) for _ in range(1 + rank % 2)]), {"*": Column()},
            init_mesh(4, 1)),
        "They differ first in 1: nothing on ranks 0, 2, Column on ranks 1, 3. All must",
    ),
    "ranks with other widths": (
        lambda rank: parallelize(
            nn.Sequential(nn.Linear(8, 8 if rank else 16)), {"0": Column()}, init_mesh(4, 1)),
        "0.weight: [16, 8] of float32, checksum ",
    ),
    "a rank whose model is wrong": (
        lambda rank: parallelize(make(GPT) if rank else Odd(), mesh=init_mesh(4, 1)),
        "there is no plan for Odd",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED_EVERYWHERE)
def test_it_is_refused_at_every_rank(gloo_ranks, what):
    body, expected = REFUSED_EVERYWHERE[what]
    for error in errors(gloo_ranks, 4, body):
        assert expected in error


def test_a_rank_that_stays_away_is_named(gloo_ranks):
    def body(rank):
        if rank == 2:
            raise ValueError("it stays away")
        init_mesh(3, 1, patience=SOON)

    said = errors(gloo_ranks, 3, body)
    assert all("rank 2 of 3 did not arrive within 2 s" in said[rank] for rank in (0, 1))


def test_a_missing_rank_does_not_hide_another_ranks_error(gloo_ranks):
    def body(rank):
        if rank == 2:
            raise ValueError("it stays away")
        init_mesh(3 if rank else 0, 1, patience=SOON)

    said = errors(gloo_ranks, 3, body)
    assert "d1: found 0, expected at least 1" in said[0]
    assert "rank 2 of 3 did not arrive" in said[1]


def test_a_store_that_outlives_the_group_does_not_repeat_old_texts(gloo_ranks, tmp_path):
    """Like torchrun, whose store serves all groups that its ranks make one after the other."""

    def body(rank):
        dist.destroy_process_group()
        store = dist.FileStore(str(tmp_path / "store"), 2)
        options = atp.torch.Options(algorithm="ring")
        gifts = []
        for number in range(2):
            dist.init_process_group("atp", store=store, rank=rank, world_size=2, pg_options=options)
            gifts.append(agree("the same", f"gift {number} of rank {rank}"))
            dist.destroy_process_group()
        return gifts

    expected = ["gift 0 of rank 0", "gift 1 of rank 0"]
    assert gloo_ranks.run(2, body, backend="gloo") == [expected] * 2
