"""The replicas of a mesh send the bytes that the planner predicts, counted at the sockets."""

import dataclasses

import pytest
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import atp.torch
from atp.planner import plan
from atp.tensor_parallel import init_mesh, parallelize, vocabulary_parallel_cross_entropy
from atp.tensor_parallel.checks import FIRST

from . import test_models

REPLICAS = 2
MESHES = [(2, 1), (1, 2)]
FLAT = {"levels": [{"name": "host", "count": 4, "kind": "switch",
                    "bandwidth": "1 Gbit/s per direction"}]}  # fmt: skip
MODELS = {
    "GPT": (
        dataclasses.replace(test_models.GPT, fused_qkv=False),
        {"model_type": "gpt2", "n_embd": 32, "n_head": 8, "n_layer": 2, "vocab_size": 64,
         "n_positions": 16},
    ),
    "Llama": (
        dataclasses.replace(test_models.LLAMA, fused_qkv=False),
        {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 8,
         "num_key_value_heads": 4, "num_hidden_layers": 2, "intermediate_size": 48,
         "vocab_size": 64},
    ),
}  # fmt: skip


def of_ddp(model, mesh):
    return DistributedDataParallel(model, process_group=mesh.data.group)


def of_fsdp(model, mesh):
    return fully_shard(model, mesh=mesh.device_mesh["data"], reshard_after_forward=True)


HOW = {"DistributedDataParallel": (of_ddp, False), "fully_shard": (of_fsdp, True)}


def sent_in_a_step(mesh, replica) -> int:
    """Bytes from this rank to other replicas; earlier steps connect, order the buckets, and
    are checked."""
    tokens, targets = test_models.batch(0)
    own = slice(4 * mesh.data.index, 4 * mesh.data.index + 4)
    for _ in range(FIRST + 1):
        before = atp.torch.stats(mesh.data.group)["bytes_sent"]
        logits = replica(tokens[own])
        vocabulary_parallel_cross_entropy(logits, targets[own], mesh=mesh).backward()
    return atp.torch.stats(mesh.data.group)["bytes_sent"] - before


def sent_everywhere(_rank):
    sent = {}
    for name, (config, _) in MODELS.items():
        for shape in MESHES:
            for how, (wrap, shards) in HOW.items():
                mesh = init_mesh(*shape, data_parallel=REPLICAS, data_algorithm="ring")
                model = parallelize(test_models.make(config), mesh=mesh, dtensors=shards)
                sent[name, shape, how] = sent_in_a_step(mesh, wrap(model, mesh))
                mesh.close()
    return sent


@pytest.fixture(scope="module")
def sent(gloo_ranks):
    return gloo_ranks.run(4, sent_everywhere, backend="gloo")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", MESHES)
def test_replicas_send_the_planned_bytes(sent, shape, how, name):
    """An all-reduce of all gradients; or a reduce-scatter of them and two all-gathers of all
    weights, each of which moves half as much. With two replicas an all-reduce sends each byte
    once."""
    shards = HOW[how][1]
    answer = plan(FLAT, MODELS[name][1], 4, batch=8, sequence=8, element_bytes=8,
                  collectives=["ring"], data_collectives=["ring"], data_parallel=REPLICAS,
                  fully_shard=shards)  # fmt: skip
    planned = {one.mesh: one.data.bytes for one in (answer, *answer.runners_up)}[shape]
    assert planned > 0
    for of_rank in sent:
        assert of_rank[name, shape, how] == planned / (2 if shards else 1)
