"""Ranks that do not train one model are an error that names them."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from atp.tensor_parallel import (
    Transformer,
    TransformerConfig,
    init_mesh,
    parallelize,
    save,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.checks import EVERY, FIRST

from .lookalikes import GPT2, VOCABULARY, Llama, make

CONFIG = TransformerConfig(hidden=32, heads=8, vocabulary=64, positions=16)


def tokens(seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (4, 8), generator=draw)


def whole(mesh):
    torch.manual_seed(1)
    return parallelize(Transformer(CONFIG), mesh=mesh)


def texts_of(ranks, size, body):
    """What each rank's ValueError says."""

    def caught(rank):
        with pytest.raises(ValueError) as error:
            body(rank)
        return str(error.value)

    return ranks.run(size, caught, backend="gloo")


@pytest.mark.parametrize("run", [0, FIRST - 1, EVERY])
def test_a_rank_with_another_batch_is_named(gloo_ranks, run):
    def body(rank):
        model = parallelize(make(Llama), init_mesh(2, 2))
        for _ in range(run):
            model(tokens())
        model(tokens(seed=int(rank == 3)))

    for text in texts_of(gloo_ranks, 4, body):
        assert "Llama: the ranks run different batches: ranks 0, 1, 2: argument 1 [4, 8]" in text
        assert "; rank 3: argument 1 [4, 8] with checksum " in text


def test_between_checks_nothing_is_sent(gloo_ranks):
    def body(rank):
        mesh = init_mesh(1, 2)
        model = parallelize(make(Llama), mesh)
        for _ in range(FIRST):
            model(tokens())
        model(tokens(seed=rank))  # d1 = 1: no rank looks up other tokens

    gloo_ranks.run(2, body, backend="gloo")


def test_a_rank_with_other_targets_is_named(gloo_ranks):
    def body(rank):
        mesh = init_mesh(2, 2)
        logits = whole(mesh)(tokens())
        vocabulary_parallel_cross_entropy(logits, tokens(seed=1 + (rank == 2)))

    for text in texts_of(gloo_ranks, 4, body):
        assert "targets: the ranks run different batches: ranks 0, 1, 3: [4, 8] with" in text
        assert "; rank 2: [4, 8] with checksum " in text


@pytest.mark.parametrize("shape", [(2, 1), (1, 2)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_rank_that_computes_another_loss_is_named(gloo_ranks, shape, kind):
    """Only one target differs."""

    def body(rank):
        model = parallelize(make(Llama).to(kind), init_mesh(*shape))
        targets = tokens(seed=1)
        targets[0, 0] = 5 + rank
        logits = model(tokens())
        nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten()).backward()

    for text in texts_of(gloo_ranks, 2, body):
        assert "lm_head: the ranks compute different losses from their logits: rank 0" in text


def test_replicas_run_different_batches(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(2, 1, data_parallel=2)
        model = DistributedDataParallel(
            parallelize(make(Llama), mesh), process_group=mesh.data.group
        )
        for step in range(3):
            own = tokens(seed=2 * step + mesh.data.index)
            logits = model(own)
            nn.functional.cross_entropy(logits.flatten(0, -2), own.flatten()).backward()

    gloo_ranks.run(4, body, backend="gloo")


def changed(model, name, by):
    with torch.no_grad():
        model.get_parameter(name).flatten()[-1] += by


# A parameter, and which ranks of (4, 1), (2, 2) hold copies of the piece of the last rank.
COPIES = {
    "a norm": (Llama, (2, 2), "layers.1.norm2.weight", "rank 1: ", "rank 3: "),
    "a bias of a column-first layer": (
        GPT2, (2, 2), "h.0.feed_forward.c_fc.bias", "rank 2: ", "rank 3: ",
    ),
    "key-value heads that two rows share": (
        Llama, (4, 1), "layers.0.attention.v_proj.weight", "rank 2: ", "rank 3: ",
    ),
    "positions": (GPT2, (4, 1), "wpe.weight", "ranks 0, 1, 2: ", "rank 3: "),
}  # fmt: skip


@pytest.mark.parametrize("what", COPIES)
def test_a_copy_that_differs_is_named_with_its_ranks(gloo_ranks, tmp_path, what):
    kind, shape, name, *ranks = COPIES[what]

    def body(rank):
        model = parallelize(make(kind), init_mesh(*shape))
        changed(model, name, float(rank == 3))
        texts = []
        for use in (lambda: model(tokens()), lambda: save(model, tmp_path / "checkpoint")):
            with pytest.raises(ValueError) as error:
                use()
            texts.append(str(error.value))
        return texts

    for texts in gloo_ranks.run(4, body, backend="gloo"):
        for text in texts:
            assert text.startswith(f"{name}: its copies differ (checksums of {ranks[0]}")
            assert f"; {ranks[1]}" in text
    assert not (tmp_path / "checkpoint").exists()


def test_replicas_that_drift_apart_are_named(gloo_ranks):
    """DistributedDataParallel was forgotten."""

    def body(_rank):
        mesh = init_mesh(1, 2, data_parallel=2)
        model = parallelize(make(Llama), mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(2):
            own = tokens(seed=2 * step + mesh.data.index)
            logits = model(own)
            nn.functional.cross_entropy(logits.flatten(0, -2), own.flatten()).backward()
            optimizer.step()

    for text in texts_of(gloo_ranks, 4, body):
        assert text.startswith("embed_tokens.weight: its copies differ (checksums of rank ")
        assert "DistributedDataParallel(model, process_group=mesh.data.group)" in text
