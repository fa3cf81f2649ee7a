"""torch's own tools for DTensors work on the parameters that `dtensors=True` makes."""

import copy
import dataclasses

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard

from atp.tensor_parallel import (
    Transformer,
    TransformerConfig,
    clip_grad_norm_,
    full_state_dict,
    init_mesh,
    load,
    parallelize,
    save,
    vocabulary_parallel_cross_entropy,
)

from .lookalikes import Llama

LLAMA = TransformerConfig(
    hidden=32,
    heads=8,
    kv_heads=4,
    layers=2,
    ffn=48,
    vocabulary=37,
    gated=True,
    rms_norm=True,
    rotary=True,
    fused_qkv=False,
    tied_head=True,
)
MESHES = [(4, 1), (2, 2), (1, 4)]
STEPS, LARGEST_NORM = 4, 0.5


def make(config=LLAMA):
    torch.manual_seed(1)
    return Transformer(config).double()


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def batch(step, size=4):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(LLAMA.vocabulary, (size, 7), generator=generator)


def train(model, optimizer, steps, loss_of, clip=nn.utils.clip_grad_norm_, part=slice(None)):
    """The loss and the gradients' norm of each step."""
    said = []
    for step in steps:
        tokens = batch(step)[part]
        loss = loss_of(model(tokens[:, :-1]), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        norm = clip(model.parameters(), LARGEST_NORM)
        optimizer.step()
        said.append(
            [loss.item(), (norm.full_tensor() if isinstance(norm, DTensor) else norm).item()]
        )
    return torch.tensor(said)


def of_whole(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def of_mesh(mesh):
    return lambda logits, targets: vocabulary_parallel_cross_entropy(
        logits, targets, mesh, vocabulary=LLAMA.vocabulary
    )


def whole_training(steps=STEPS):
    model = make()
    optimizer = adam(model)
    return model, optimizer, train(model, optimizer, range(steps), of_whole)


def full(state):
    return {k: v.full_tensor() if isinstance(v, DTensor) else v for k, v in state.items()}


def far(found, expected):
    """The largest difference between two states, or two tensors."""
    if isinstance(found, torch.Tensor):
        return float((found - expected).abs().max())
    assert found.keys() == expected.keys()
    return max(far(found[name], expected[name]) for name in found)


def test_torchs_optimizers_norms_and_state_dicts_accept_them(gloo_ranks):
    def body(_rank):
        whole, _, expected = whole_training()
        errors = {}
        for shape in MESHES:
            mesh = init_mesh(*shape)
            model = parallelize(make(), mesh=mesh, dtensors=True)
            assert all(isinstance(parameter, DTensor) for parameter in model.parameters())
            assert model.head.weight is model.tokens.weight
            model = copy.deepcopy(model)
            found = train(model, adam(model), range(STEPS), of_mesh(mesh))
            wholes = full(model.state_dict()), full_state_dict(model)
            errors[shape] = [far(found, expected)]
            errors[shape] += [far(each, whole.state_dict()) for each in wholes]
            mesh.close()
        return errors

    for errors in gloo_ranks.run(4, body, backend="gloo"):
        for shape, each in errors.items():
            assert max(each) < 1e-9, shape


def test_placements_match_the_document(gloo_ranks):
    def body(_rank):
        model = parallelize(make(), mesh=init_mesh(2, 2), dtensors=True)
        return {name: tuple(p.placements) for name, p in model.named_parameters()}

    column, row = (Shard(0), Shard(1)), (Shard(1), Shard(0))
    of_hidden, of_rows = (Replicate(), Shard(0)), (Shard(0), Replicate())
    for found in gloo_ranks.run(4, body, backend="gloo"):
        assert found["tokens.weight"] == column
        assert found["norm.weight"] == of_hidden
        block = {k.removeprefix("blocks.1."): v for k, v in found.items() if "blocks.1." in k}
        for name in ("attention.q", "attention.k", "feed_forward.gate", "feed_forward.up"):
            assert block[f"{name}.weight"] == column
            assert block[f"{name}.bias"] == of_rows
        for name in ("attention.out", "feed_forward.down"):
            assert block[f"{name}.weight"] == row
            assert block[f"{name}.bias"] == of_hidden


def test_a_checkpoint_of_torch_continues_on_another_mesh_and_unsharded(gloo_ranks, tmp_path):
    def restored(model, optimizer):
        """The state that dcp.load filled."""
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optimizer": optimizer_state}
        dcp.load(state, checkpoint_id=tmp_path / "checkpoint")
        set_state_dict(
            model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )

    def body(_rank):
        whole, _, expected = whole_training(2 * STEPS)
        mesh = init_mesh(4, 1)
        model = parallelize(make(), mesh=mesh, dtensors=True)
        optimizer = adam(model)
        train(model, optimizer, range(STEPS), of_mesh(mesh))
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optimizer": optimizer_state}
        dcp.save(state, checkpoint_id=tmp_path / "checkpoint")
        mesh.close()

        errors, rest = [], range(STEPS, 2 * STEPS)
        mesh = init_mesh(2, 2)
        model = parallelize(make(), mesh=mesh, dtensors=True)
        optimizer = adam(model)
        restored(model, optimizer)
        errors.append(far(train(model, optimizer, rest, of_mesh(mesh)), expected[STEPS:]))
        errors.append(far(full(model.state_dict()), whole.state_dict()))
        mesh.close()

        model = make()
        optimizer = adam(model)
        restored(model, optimizer)
        errors.append(far(train(model, optimizer, rest, of_whole), expected[STEPS:]))
        return errors

    for errors in gloo_ranks.run(4, body, backend="gloo"):
        assert max(errors) < 1e-9


def test_our_checkpoint_is_the_same_with_and_without_dtensors(gloo_ranks, tmp_path):
    def body(_rank):
        whole, _, expected = whole_training(3 * STEPS)
        errors = []
        first = None
        for number, (shape, dtensors) in enumerate(
            (((2, 2), True), ((4, 1), False), ((1, 4), True))
        ):
            mesh = init_mesh(*shape)
            model = parallelize(make(), mesh=mesh, dtensors=dtensors)
            optimizer = adam(model)
            if first is not None:
                load(model, tmp_path / "checkpoint", optimizer=optimizer)
            first = range(number * STEPS, (number + 1) * STEPS)

            def clip(_parameters, largest, model=model):
                return clip_grad_norm_(model, largest)

            found = train(model, optimizer, first, of_mesh(mesh), clip)
            errors.append(far(found, expected[number * STEPS : (number + 1) * STEPS]))
            save(model, tmp_path / "checkpoint", optimizer=optimizer)
            mesh.close()
        return errors

    for errors in gloo_ranks.run(4, body, backend="gloo"):
        assert max(errors) < 1e-9


def whole_llama():
    torch.manual_seed(1)
    return Llama().double()


SHARDED = {
    "a Transformer as a whole": (make, lambda model: [], of_mesh),
    "the blocks of a Llama": (whole_llama, lambda model: model.layers, lambda mesh: of_whole),
}


@pytest.mark.parametrize("splits", [False, True], ids=["whole sequences", "split sequences"])
@pytest.mark.parametrize("what", SHARDED)
def test_fully_shard_shards_them_among_the_replicas(gloo_ranks, what, splits):
    make_model, blocks, loss_on = SHARDED[what]

    def body(_rank):
        whole = make_model()
        train(whole, adam(whole), range(STEPS), of_whole)
        errors = []
        for shape in ((2, 1), (1, 2)):
            mesh = init_mesh(*shape, data_parallel=2, sequence_parallel=splits)
            model = parallelize(make_model(), mesh=mesh, dtensors=True)
            for block in (*blocks(model), model):
                fully_shard(block, mesh=mesh.device_mesh["data"])
            part = slice(2 * mesh.data.index, 2 * mesh.data.index + 2)
            train(model, adam(model), range(STEPS), loss_on(mesh), part=part)
            assert all(p.device_mesh.ndim == 3 for p in model.parameters())
            errors.append(far(full(model.state_dict()), whole.state_dict()))
            with pytest.raises(ValueError, match="save and load it with torch.distributed.check"):
                full_state_dict(model)
            model(batch(0)[:, :-1]).sum().backward()
            with pytest.raises(ValueError, match="torch.nn.utils.clip_grad_norm_, which is"):
                clip_grad_norm_(model, 1.0)
            mesh.close()
        return errors

    for errors in gloo_ranks.run(4, body, backend="gloo"):
        assert max(errors) < 1e-9


def test_fully_shard_of_a_single_layer_is_an_error(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(1, 1, data_parallel=2)
        model = parallelize(make(), mesh=mesh, dtensors=True)
        fully_shard(model.blocks[1].attention.q, mesh=mesh.device_mesh["data"])
        with pytest.raises(ValueError, match=r"blocks.1.attention.q.weight: fully_shard\(\) has"):
            model(batch(0))

    gloo_ranks.run(2, body, backend="gloo")


NO_PLACEMENT = {
    "one layer for queries, keys and values": (
        {"fused_qkv": True},
        "blocks.0.attention.qkv.weight: it has 3 parts",
    ),
    "key-value heads that rows share": (
        {"kv_heads": 1},
        "blocks.0.attention.k.weight: some of the d1 = 2 rows hold copies",
    ),
}


@pytest.mark.parametrize("case", NO_PLACEMENT)
def test_parameters_without_a_placement_are_named_before_anything_is_changed(gloo_ranks, case):
    changes, expected = NO_PLACEMENT[case]

    def body(_rank):
        model = make(dataclasses.replace(LLAMA, **changes))
        with pytest.raises(ValueError) as error:
            parallelize(model, mesh=init_mesh(2, 1), dtensors=True)
        assert not hasattr(model, "atp_mesh") and type(model.head) is nn.Linear
        parallelize(model, mesh=init_mesh(1, 2), dtensors=True)
        return str(error.value)

    for text in gloo_ranks.run(2, body, backend="gloo"):
        assert expected in text


def test_a_mesh_is_the_processors_where_torch_has_cuda_and_the_machine_no_gpu(gloo_ranks):
    def accelerator(check_available=False):
        return None if check_available else torch.device("cuda")

    def body(_rank):
        torch.accelerator.current_accelerator = accelerator
        return init_mesh(1, 1).device_mesh.device_type

    assert gloo_ranks.run(1, body, backend="gloo") == ["cpu"]
