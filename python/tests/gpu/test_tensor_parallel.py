"""Models on a GPU, on a mesh: they compute what the whole model computes on the CPU."""

import pytest
import torch
from torch import nn

from atp.tensor_parallel import init_mesh, load, parallelize, save
from atp.tensor_parallel.sharding import cuts_of

from ..conftest import Ranks
from ..tensor_parallel.comparing import assert_copies_are_equal, outcome_of
from ..tensor_parallel.lookalikes import MODELS, VOCABULARY, make
from ..tensor_parallel.test_randomness import dropped_by, dropping

MESHES = [(4, 1), (2, 2), (1, 4)]
TOKENS = torch.randint(VOCABULARY, (3, 7), generator=torch.Generator().manual_seed(2))


@pytest.fixture
def gloo_ranks(tmp_path) -> Ranks:
    return Ranks(tmp_path, route="")


def results(model, device):
    tokens = TOKENS.to(device)
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    said = {"logits": logits.detach(), "loss": loss.detach().reshape(1)}
    found = said | {name: p.grad for name, p in model.named_parameters()}
    assert all(tensor.device.type == device for tensor in found.values())
    return {name: tensor.cpu() for name, tensor in found.items()}


@pytest.mark.parametrize("algorithm", ["gloo", "ring"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_loss_and_gradients_match_the_whole_model(gloo_ranks, name, algorithm):
    def body(_rank):
        whole = results(make(MODELS[name]), "cpu")
        outcomes = {}
        for shape in MESHES:
            mesh = init_mesh(*shape, algorithm=algorithm)
            assert mesh.device_mesh.device_type == "cuda"
            model = parallelize(make(MODELS[name]).cuda(), mesh)
            cuts = cuts_of(model)
            everywhere = dict.fromkeys(("logits", "loss"), type(cuts["lm_head.weight"])())
            outcomes[shape] = outcome_of(results(model, "cuda"), everywhere | cuts, whole, mesh)
            mesh.close()
        return outcomes

    found = gloo_ranks.run(4, body, backend="gloo")
    for shape in MESHES:
        for outcomes in found:
            assert outcomes[shape].error < 1e-9, (shape, outcomes[shape].tensor)
        assert_copies_are_equal([outcomes[shape] for outcomes in found])


def test_dropout_is_the_same_in_a_column_and_leaves_the_users_numbers_alone(gloo_ranks):
    def body(rank):
        mesh = init_mesh(2, 2)
        model = dropping(mesh).cuda()
        torch.manual_seed(100 + rank)
        dropped = dropped_by(model.drop)
        before = torch.cuda.get_rng_state()
        model(torch.ones(8, 3, 16, dtype=torch.float64, device="cuda"))
        assert torch.equal(torch.cuda.get_rng_state(), before)
        return mesh.column, dropped[0]

    columns = {}
    for column, dropped in gloo_ranks.run(4, body, backend="gloo"):
        assert columns.setdefault(column, dropped) == dropped
    assert columns[0] != columns[1]


def test_a_checkpoint_from_a_gpu_continues_on_another_mesh_and_on_the_cpu(gloo_ranks, tmp_path):
    def trained(mesh, device, path=None):
        model = parallelize(make(MODELS["Llama"]).to(device), mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        if path is not None:
            load(model, path, optimizer=optimizer)
        results(model, device)
        optimizer.step()
        return model, optimizer

    def body(_rank):
        first = init_mesh(4, 1)
        model, optimizer = trained(first, "cuda")
        save(model, tmp_path / "saved", optimizer=optimizer)
        first.close()
        losses = []
        for shape, device in (((4, 1), "cuda"), ((2, 2), "cuda"), ((2, 2), "cpu")):
            mesh = init_mesh(*shape)
            continued, _ = trained(mesh, device, tmp_path / "saved")
            losses.append(float(results(continued, device)["loss"]))
            mesh.close()
        return losses

    for losses in gloo_ranks.run(4, body, backend="gloo"):
        assert losses == pytest.approx([losses[0]] * 3, rel=1e-9)
