"""Wrappers for data parallelism are refused over ranks that hold different pieces."""

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from atp.tensor_parallel import full_state_dict, init_mesh, parallelize

from .lookalikes import Llama, make


class Classifier(nn.Module):
    """A parallelized model inside another one."""

    def __init__(self, model):
        super().__init__()
        self.model, self.last = model, nn.Linear(2, 2)


def of_all_ranks(model, _mesh):
    return DistributedDataParallel(model)


def of_a_row(model, mesh):
    return DistributedDataParallel(model, process_group=mesh.second.group)


def of_a_part(model, _mesh):
    return DistributedDataParallel(model.layers[0].attention)


def of_a_whole_with_pieces(model, _mesh):
    return DistributedDataParallel(Classifier(model))


def by_device_mesh(model, mesh):
    return DistributedDataParallel(model, device_mesh=mesh.device_mesh["tp1"])


def of_shards(model, _mesh):
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"))


WRONG = [of_all_ranks, of_a_row, of_a_part, of_a_whole_with_pieces, by_device_mesh, of_shards]


@pytest.mark.parametrize("wrap", WRONG)
def test_a_wrapper_over_ranks_with_other_pieces_is_refused(gloo_ranks, wrap):
    def body(_rank):
        mesh = init_mesh(2, 2)
        model = parallelize(make(Llama), mesh)
        with pytest.raises(ValueError) as error:
            wrap(model, mesh)
        same = wrap is of_shards or all(
            torch.equal(value, make(Llama).state_dict()[name])
            for name, value in full_state_dict(model).items()
        )
        return str(error.value), same

    for rank, (text, same) in enumerate(gloo_ranks.run(4, body, backend="gloo")):
        assert "found a process group of ranks" in text
        assert f"expected rank {rank}: on Mesh(2, 2)" in text
        assert "mesh.data.group" in text and "the Trainer of transformers" in text
        assert same


def test_over_the_replicas_it_is_not(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(2, 1, data_parallel=2)
        wrapped = DistributedDataParallel(
            parallelize(make(Llama), mesh), process_group=mesh.data.group
        )
        of_dimension = DistributedDataParallel(
            parallelize(make(Llama), mesh), device_mesh=mesh.device_mesh["data"]
        )
        plain = DistributedDataParallel(make(Llama))  # a model without pieces, over all ranks
        tokens = torch.arange(8).view(2, 4)
        results = [each(tokens) for each in (wrapped, of_dimension, plain)]
        return all(torch.allclose(each, results[2]) for each in results)

    assert all(gloo_ranks.run(4, body, backend="gloo"))


def test_parallelize_refuses_a_model_that_is_wrapped_already(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(2, 1)
        with pytest.raises(ValueError) as error:
            parallelize(DistributedDataParallel(make(Llama)), mesh)
        return str(error.value)

    for text in gloo_ranks.run(2, body, backend="gloo"):
        assert "found a DistributedDataParallel, expected the model itself" in text
