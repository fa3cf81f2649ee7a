"""Checkpoints move between meshes, and from and to an unsharded state dict."""

import dataclasses

import pytest
import torch

from atp.tensor_parallel import (
    Transformer,
    full_state_dict,
    init_mesh,
    load,
    load_full_state_dict,
    parallelize,
    save,
)

from .test_models import GPT, LLAMA, make

ROUTE = [(8, 1), (2, 4), (1, 2), (4, 2)]  # (1, 2) with four replicas


def equal(state, expected) -> bool:
    return state.keys() == expected.keys() and all(
        torch.equal(state[n], expected[n]) for n in state
    )


@pytest.mark.parametrize("config", [GPT, LLAMA], ids=["GPT", "Llama"])
def test_a_model_moves_from_mesh_to_mesh(gloo_ranks, tmp_path, config):
    """Each mesh begins with other weights, loads what the one before it saved, and saves."""

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
            # At rank 1 only: rank 0 must not go on.
            lambda: load_full_state_dict(model, {} if rank else Transformer(GPT).state_dict()),
        ):
            with pytest.raises(ValueError) as error:
                loading()
            said.append(str(error.value))
        return said, equal(full_state_dict(model), make(GPT).state_dict())

    for said, unchanged in gloo_ranks.run(2, body, backend="gloo"):
        assert unchanged
        assert (
            "is of another model: blocks.0.attention.out.bias is (64,), expected (32,)" in said[0]
        )
        assert "nothing cannot be loaded: " in said[1]
        assert "the state dict is of another model" in said[2]


NO_STATE = b'{"format": "atp tensor parallel checkpoint 1", "mesh": [1, 1]}'
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
        "shard-0-0.pt",
        lambda file: file.write_bytes(file.read_bytes()[:1000]),
        "it is cut short, or none that save() wrote",
    ),
    "a piece that is no piece": (
        "shard-1-0.pt",
        lambda file: file.write_bytes(b"PK"),
        "it is cut short, or none that save() wrote",
    ),
    "a piece that lacks a tensor": (
        "shard-1-0.pt",
        lambda file: torch.save({}, file),
        "it has no 'tokens.weight'",
    ),
    "a piece that is gone": ("shard-1-0.pt", lambda file: file.unlink(), " of mesh (2,1) is"),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_checkpoint_is_refused_at_every_rank(gloo_ranks, tmp_path, how):
    """At rank 1 alone, as where each host has a copy: rank 0 must not go on."""
    name, damage, expected = DAMAGES[how]

    def body(rank):
        init_mesh(2, 1)
        model = parallelize(make(GPT))
        for copy in range(2):
            save(model, tmp_path / str(copy))
        if rank == 1:
            damage(tmp_path / "1" / name)
        with pytest.raises(ValueError) as error:
            load(model, tmp_path / str(rank))
        return str(error.value), equal(full_state_dict(model), make(GPT).state_dict())

    for said, unchanged in gloo_ranks.run(2, body, backend="gloo"):
        _, _, what = said.partition("1 cannot be loaded: ")
        assert name in what and expected in what and "\n" not in said
        assert unchanged


@pytest.mark.parametrize("obstacle", ["checkpoint.json", "shard-1-0.pt"])
def test_a_folder_that_cannot_be_written_is_told_to_every_rank(gloo_ranks, tmp_path, obstacle):
    (tmp_path / obstacle).mkdir()

    def body(rank):
        init_mesh(2, 1)
        model = parallelize(make(GPT))
        with pytest.raises((OSError, ValueError)) as error:
            save(model, tmp_path)
        return str(error.value)

    for said in gloo_ranks.run(2, body, backend="gloo"):
        assert obstacle in said


def test_a_checkpoint_that_is_replaced_halfway_is_none(gloo_ranks, tmp_path):
    def body(rank):
        init_mesh(2, 1)
        save(parallelize(make(GPT, seed=1)), tmp_path)
        if rank == 1:
            (tmp_path / "shard-1-0.pt").unlink()
            (tmp_path / "shard-1-0.pt").mkdir()
        model = parallelize(make(GPT, seed=2))
        with pytest.raises((OSError, ValueError)):
            save(model, tmp_path)  # rank 0's piece is new, rank 1's is not
        if rank == 1:
            (tmp_path / "shard-1-0.pt").rmdir()
            torch.save({}, tmp_path / "shard-1-0.pt")
        with pytest.raises(ValueError) as error:
            load(model, tmp_path)
        return str(error.value)

    for said in gloo_ranks.run(2, body, backend="gloo"):
        assert "checkpoint.json" in said
