"""Checkpoints move between meshes, and from and to an unsharded state dict."""

import dataclasses
import datetime
import os
import signal

import pytest
import torch

from atp.tensor_parallel import (
    Transformer,
    checkpoint,
    full_state_dict,
    init_mesh,
    load,
    load_full_state_dict,
    parallelize,
    save,
    vocabulary_parallel_cross_entropy,
)

from .test_models import GPT, LLAMA, batch, make, whole_loss

SOON = datetime.timedelta(seconds=20)

ROUTE = [(8, 1), (2, 4), (1, 2), (4, 2)]  # (1, 2) with four replicas


def equal(state, expected) -> bool:
    return state.keys() == expected.keys() and all(
        torch.equal(state[n], expected[n]) for n in state
    )


@pytest.mark.parametrize("config", [GPT, LLAMA], ids=["GPT", "Llama"])
def test_a_model_moves_from_mesh_to_mesh(gloo_ranks, tmp_path, config):
    """Each mesh starts with different weights, loads the previous one's checkpoint, and saves."""

    def body(_rank):
        expected = make(config, seed=1).state_dict()
        before, same = None, []
        for i, shape in enumerate(ROUTE):
            mesh = init_mesh(*shape, data_parallel=8 // (shape[0] * shape[1]))
            model = parallelize(make(config, seed=1 if before is None else 9))
            if before is not None:
                load(model, before)
            same.append(equal(full_state_dict(model), expected))
            before = tmp_path / str(i)
            save(model, before)
            mesh.close()
        return same

    assert gloo_ranks.run(8, body, backend="gloo") == [[True] * len(ROUTE)] * 8


def test_an_unsharded_state_dict_can_be_loaded(gloo_ranks):
    def body(_rank):
        init_mesh(2, 2)
        model = parallelize(make(LLAMA, seed=1))
        load_full_state_dict(model, make(LLAMA, seed=2).state_dict())
        return equal(full_state_dict(model), make(LLAMA, seed=2).state_dict())

    assert gloo_ranks.run(4, body, backend="gloo") == [True] * 4


def test_another_models_checkpoint_is_refused_at_every_rank_and_changes_nothing(
    gloo_ranks, tmp_path
):
    def body(rank):
        init_mesh(2, 1)
        wide = parallelize(make(dataclasses.replace(GPT, hidden=64)))
        save(wide, tmp_path / "wide")
        model = parallelize(make(GPT))
        said = []
        for loading in (
            lambda: load(model, tmp_path / "wide"),
            lambda: load(model, tmp_path / "nothing"),
            # At rank 1 only: rank 0 must not continue.
            lambda: load_full_state_dict(model, {} if rank else Transformer(GPT).state_dict()),
        ):
            with pytest.raises(ValueError) as error:
                loading()
            said.append(str(error.value))
        return said, equal(full_state_dict(model), make(GPT).state_dict())

    for said, unchanged in gloo_ranks.run(2, body, backend="gloo"):
        assert unchanged
        assert "another model: blocks.0.attention.out.bias is (64,), expected (32,)" in said[0]
        assert "nothing cannot be loaded: " in said[1]
        assert "the state dict belongs to another model" in said[2]


NO_STATE = b'{"format": "atp tensor parallel checkpoint 2", "mesh": [1, 1], "pieces": "x"}'
DAMAGES = {
    "a manifest without a state": (
        "checkpoint.json",
        lambda file: file.write_bytes(NO_STATE),
        "it has no 'state'",
    ),
    "a manifest that is cut short": (
        "checkpoint.json",
        lambda file: file.write_bytes(file.read_bytes()[:40]),
        "Unterminated string",
    ),
    "a manifest that is gone": ("checkpoint.json", lambda file: file.unlink(), "No such file"),
    "a piece that is cut short": (
        "shard-0-0-*.pt",
        lambda file: file.write_bytes(file.read_bytes()[:1000]),
        "it is truncated, or was not written by save()",
    ),
    "a file that is not a piece": (
        "shard-1-0-*.pt",
        lambda file: file.write_bytes(b"PK"),
        "it is truncated, or was not written by save()",
    ),
    "a piece that lacks a tensor": (
        "shard-1-0-*.pt",
        lambda file: torch.save({"model": {}}, file),
        "it has no 'tokens.weight'",
    ),
    "a piece that is gone": (
        "shard-1-0-*.pt",
        lambda file: file.unlink(),
        "missing from mesh (2,1): ",
    ),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_checkpoint_is_refused_at_every_rank(gloo_ranks, tmp_path, how):
    """At rank 1 only, as when each host has a copy: rank 0 must not continue."""
    name, damage, expected = DAMAGES[how]

    def body(rank):
        init_mesh(2, 1)
        model = parallelize(make(GPT))
        for copy in range(2):
            save(model, tmp_path / str(copy))
        if rank == 1:
            (file,) = (tmp_path / "1").glob(name)
            damage(file)
        with pytest.raises(ValueError) as error:
            load(model, tmp_path / str(rank))
        return str(error.value), equal(full_state_dict(model), make(GPT).state_dict())

    for said, unchanged in gloo_ranks.run(2, body, backend="gloo"):
        _, _, what = said.partition("1 cannot be loaded: ")
        assert name.partition("-*")[0] in what and expected in what and "\n" not in said
        assert unchanged


@pytest.mark.parametrize("obstacle", ["checkpoint.json", "shard-1-0-new.pt"])
def test_every_rank_reports_a_folder_that_cannot_be_written(
    gloo_ranks, tmp_path, monkeypatch, obstacle
):
    monkeypatch.setattr(checkpoint.secrets, "token_hex", lambda _size: "new")
    (tmp_path / obstacle).mkdir()

    def body(rank):
        init_mesh(2, 1)
        model = parallelize(make(GPT))
        with pytest.raises((OSError, ValueError)) as error:
            save(model, tmp_path)
        return str(error.value)

    for said in gloo_ranks.run(2, body, backend="gloo"):
        assert obstacle in said
    assert [path.name for path in tmp_path.iterdir() if path.name != obstacle] == []


@pytest.mark.parametrize("where", ["pieces", "manifest"])
def test_a_job_that_dies_while_it_saves_leaves_the_earlier_checkpoint(
    gloo_ranks, tmp_path, monkeypatch, where
):
    """A signal kills rank 1 with its piece half written, or rank 0 with the manifest."""

    def dying(rank):
        init_mesh(2, 1)
        save(parallelize(make(GPT, seed=1)), tmp_path)
        if rank == ("manifest", "pieces").index(where):
            step = "_write" if where == "pieces" else "_manifest"
            monkeypatch.setattr(checkpoint, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        save(parallelize(make(GPT, seed=2)), tmp_path, patience=SOON)

    outcomes = gloo_ranks.outcomes(2, dying, backend="gloo", limit_s=60)
    assert -signal.SIGKILL in [outcome.exit_code for outcome in outcomes]

    def body(_rank):
        init_mesh(2, 1)
        model = parallelize(make(GPT, seed=3))
        load(model, tmp_path)
        return equal(full_state_dict(model), make(GPT, seed=1).state_dict())

    assert gloo_ranks.run(2, body, backend="gloo") == [True] * 2


def test_a_value_that_is_not_a_state_dict_is_refused_soon_at_every_rank(gloo_ranks):
    def body(rank):
        init_mesh(2, 1)
        model = parallelize(make(GPT))
        state = make(GPT).state_dict()
        with pytest.raises(ValueError) as error:
            load_full_state_dict(model, None if rank else state, patience=SOON)
        return str(error.value)

    for said in gloo_ranks.run(2, body, backend="gloo"):
        assert "found NoneType, expected a state dict" in said


SMALL = dataclasses.replace(LLAMA, kv_heads=2, vocabulary=63)  # 63: rows have unequal shares


def steps_of(model, loss_of, first: int, last: int, optimizer) -> list[float]:
    losses = []
    for step in range(first, last):
        tokens, targets = (tensor % 63 for tensor in batch(step))
        loss = loss_of(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=3e-3)


@pytest.mark.parametrize("config", [GPT, SMALL], ids=["GPT", "Llama"])
def test_training_continues_on_another_mesh_and_unsharded(gloo_ranks, tmp_path, config):
    """Three steps on (4,1), then two on (2,2) and the same two in one process: as if training had
    never stopped, with Adam's moments and settings."""
    whole = make(config)
    optimizer = adam(whole)
    optimizer.param_groups[0]["lr"] = 1e-2
    expected = steps_of(whole, whole_loss, 0, 5, optimizer)

    def sharded(logits, targets):
        return vocabulary_parallel_cross_entropy(logits, targets, vocabulary=config.vocabulary)

    def body(_rank):
        init_mesh(4, 1)
        model = parallelize(make(config))
        optimizer = adam(model)
        optimizer.param_groups[0]["lr"] = 1e-2
        losses = steps_of(model, sharded, 0, 3, optimizer)
        save(model, tmp_path, optimizer=optimizer, extra={"step": 3})
        init_mesh(2, 2)
        model = parallelize(make(config, seed=5))
        optimizer = adam(model)
        step = load(model, tmp_path, optimizer=optimizer)["step"]
        return losses + steps_of(model, sharded, step, 5, optimizer)

    for losses in gloo_ranks.run(4, body, backend="gloo"):
        assert losses == pytest.approx(expected, rel=1e-9)
    alone = make(config, seed=6)
    optimizer = adam(alone)
    assert load(alone, tmp_path, optimizer=optimizer) == {"step": 3}
    assert steps_of(alone, whole_loss, 3, 5, optimizer) == pytest.approx(expected[3:], rel=1e-9)
