"""The digest of a group's results, which ranks and runs can compare."""

import re

import pytest
import torch
import torch.distributed as dist

import atp.torch

DIGEST = atp.torch.Options(digest=True)


def work_of(rank, step):
    generator = torch.Generator().manual_seed(100 * step + rank)
    works = []
    for length in (3, 5000, 100):
        tensor = torch.randn(length, generator=generator)
        works.append(dist.all_reduce(tensor, async_op=True))
    dist.all_reduce(torch.full((10,), rank), op=dist.ReduceOp.MAX)
    return works


def test_a_digest_is_equal_at_all_ranks_and_in_every_run(ranks):
    def body(rank):
        digests = []
        for step in range(3):
            work_of(rank, step)  # some are still in progress
            digests.append(atp.torch.digest())
        return digests, atp.torch.stats()["digest"]

    first, again = (ranks.run(3, body, pg_options=DIGEST) for _ in range(2))
    digests, of_stats = first[0]
    assert first == [first[0]] * 3 == again
    assert len(set(digests)) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", digest) for digest in digests)
    assert of_stats == {"operations": 9, "value": digests[-1]}


def test_a_resumed_run_has_the_digest_of_an_uninterrupted_runs_last_part(ranks):
    def whole(rank):
        for step in range(2):
            work_of(rank, step)
        before = atp.torch.digest(restart=True)
        for step in range(2, 4):
            work_of(rank, step)
        return before, atp.torch.digest()

    def resumed(rank):
        for step in range(2, 4):
            work_of(rank, step)
        return atp.torch.digest()

    (before, after), _ = ranks.run(2, whole, pg_options=DIGEST)
    assert ranks.run(2, resumed, pg_options=DIGEST) == [after] * 2
    assert before != after


def test_each_group_keeps_its_own_digest(ranks):
    def body(rank):
        pair = dist.new_group([0, 1], pg_options=DIGEST)
        if rank < 2:
            dist.all_reduce(torch.ones(10), group=pair)
            assert atp.torch.stats(pair)["digest"]["operations"] == 1
        return atp.torch.digest()

    assert ranks.run(3, body, pg_options=DIGEST) == ["0" * 32] * 3


def test_a_group_without_a_digest_says_how_to_get_one(ranks):
    def body(rank):
        ring = dist.new_group([0, 1], pg_options=atp.torch.Options(algorithm="ring"))
        with pytest.raises(ValueError, match=r"Options\(digest=True\).*ATP_DIGEST=1"):
            atp.torch.digest()
        with pytest.raises(ValueError, match="algorithm='ring' keeps no digest"):
            atp.torch.digest(ring)
        alone = [dist.new_group([r], pg_options=DIGEST) for r in range(2)][rank]
        return atp.torch.stats()["digest"], atp.torch.digest(alone)

    assert ranks.run(2, body) == [(None, "0" * 32)] * 2


def test_comparing_digests_disturbs_nothing(ranks):
    def body(rank):
        gloo = dist.new_group(backend="gloo")
        tensors = [torch.full((50 * i + 1,), float(rank)) for i in range(30)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        dist.all_reduce(torch.ones(3), group=gloo)
        for work in works:
            work.wait()
        stats = atp.torch.stats()
        assert stats["digest"]["operations"] == 30
        assert stats["innetwork"]["all_reduce"]["float32"]["calls"] == 30
        return [tensor.sum().item() for tensor in tensors]

    expected = [3.0 * (50 * i + 1) for i in range(30)]
    options = atp.torch.Options(digest_every=4)
    assert ranks.run(3, body, pg_options=options) == [expected] * 3


def test_ranks_that_compare_digests_at_different_times_are_an_error(ranks):
    def body(rank):
        with pytest.raises(ValueError, match="digest_every.*ATP_DIGEST_EVERY"):
            dist.new_group([0, 1], pg_options=atp.torch.Options(digest_every=2 + rank))

    ranks.run(2, body)
