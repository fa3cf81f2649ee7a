"""Each group gets the bytes that the planner predicts, exactly, counted where they are sent."""

import collections
import dataclasses
import math

import pytest
import torch
import torch.distributed as dist

from atp.planner import plan
from atp.tensor_parallel import (
    Transformer,
    TransformerConfig,
    init_mesh,
    parallelize,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.transformer import Block

from .comparing import BATCH, COLUMNS, GPT, HIDDEN, SEQUENCE, inputs, step_bytes

TOKENS = BATCH * SEQUENCE
LLAMA = TransformerConfig(
    hidden=HIDDEN, heads=8, kv_heads=4, ffn=48, gated=True, rms_norm=True, rotary=True, bias=False
)
MODEL_FILES = {
    "GPT": {"model_type": "gpt2", "n_embd": HIDDEN, "n_head": 8, "n_layer": 1, "vocab_size": 256},
    "Llama": {"model_type": "llama", "hidden_size": HIDDEN, "num_attention_heads": 8,
              "num_key_value_heads": 4, "num_hidden_layers": 1, "intermediate_size": 48,
              "vocab_size": 256},
}  # fmt: skip
CONFIGS = {"GPT": GPT, "Llama": LLAMA}
MESHES = [(8, 1), (4, 2), (2, 4), (1, 8)]


class Scale:
    """Replaces torch's collectives, and counts the bytes of whole tensors by group and size."""

    def __init__(self):
        self.bytes = collections.Counter()
        self.wrap("all_reduce", lambda tensor: tensor)
        self.wrap("all_gather_single", lambda whole, own: whole)
        self.wrap("reduce_scatter_single", lambda own, whole: whole)

    def wrap(self, name, whole_of):
        real = getattr(dist, name)

        def counting(*tensors, group=None, **options):
            whole = whole_of(*tensors)
            if whole.dtype == torch.uint8:  # what ranks tell each other in checks
                return real(*tensors, group=group, **options)
            kind = "norm" if whole.numel() in (TOKENS, 2 * TOKENS) else "layer"
            self.bytes[group.group_name, kind] += whole.numel() * whole.element_size()
            return real(*tensors, group=group, **options)

        setattr(dist, name, counting)


def predicted(name, shape, fused) -> tuple[float, float]:
    """The bytes of a layer on dimensions 1 and 2, over all ranks of a flat network."""
    size = math.prod(shape)
    host = {"name": "host", "count": size, "kind": "switch", "bandwidth": "1 Gbit/s per direction"}
    answer = plan({"levels": [host]}, MODEL_FILES[name], size, batch=BATCH, sequence=SEQUENCE,
                  element_bytes=8, collectives=["ring"], fused=fused)  # fmt: skip
    found = {candidate.mesh: candidate for candidate in (answer, *answer.runners_up)}
    return tuple(dimension.bytes for dimension in found[shape].dimensions)


@pytest.mark.parametrize("fused", [False, True])
def test_a_layer_sends_what_the_planner_predicts(gloo_ranks, fused):
    def body(_rank):
        scale, counts = Scale(), {}
        for name, shape in ((name, shape) for name in CONFIGS for shape in MESHES):
            mesh = init_mesh(*shape, fused=fused)
            torch.manual_seed(0)
            block = parallelize(Block(CONFIGS[name]).double())
            x = COLUMNS.take(inputs(torch.float64)[0], shape, 0, mesh.column)
            scale.bytes.clear()
            block(x.requires_grad_()).sum().backward()
            first, second = mesh.first.group.group_name, mesh.second.group.group_name
            sent = {n: scale.bytes[n, "layer"] for n in (first, second)}
            assert (
                sum(scale.bytes.values())
                == mesh.first.traffic.total() + mesh.second.traffic.total()
            )
            counts[name, shape] = sent[first], sent[second], scale.bytes[second, "norm"]
        return counts

    for counts in gloo_ranks.run(8, body, backend="gloo"):
        for (name, shape), (first, second, norm) in counts.items():
            assert (first, second) == predicted(name, shape, fused), (name, shape)
            statistics = 1 if name == "Llama" else 2
            assert norm == (4 * statistics * TOKENS * 8 if shape[1] > 1 else 0)


@pytest.mark.parametrize("fused", [False, True])
def test_key_value_heads_that_ranks_of_a_row_share_are_sent_as_planned(gloo_ranks, fused):
    """A row of (2,2) has two heads, one key-value head, and three sequences, which d2 does not
    divide."""
    config = dataclasses.replace(LLAMA, heads=4, kv_heads=2)
    model = MODEL_FILES["Llama"] | {"num_attention_heads": 4, "num_key_value_heads": 2}
    host = {"name": "host", "count": 4, "kind": "switch", "bandwidth": "1 Gbit/s per direction"}
    answer = plan({"levels": [host]}, model, 4, batch=3, sequence=SEQUENCE, element_bytes=8,
                  collectives=["ring"], fused=fused)  # fmt: skip
    found = {candidate.mesh: candidate for candidate in (answer, *answer.runners_up)}
    planned = [dimension.bytes for dimension in found[2, 2].dimensions]
    norms = 4 * 3 * SEQUENCE * 8

    def body(_rank):
        mesh = init_mesh(2, 2, fused=fused)
        torch.manual_seed(0)
        block = parallelize(Block(config).double())
        x = COLUMNS.take(inputs(torch.float64)[0][:3], (2, 2), 0, mesh.column)
        block(x.requires_grad_()).sum().backward()
        return [mesh.first.traffic.total(), mesh.second.traffic.total() - norms]

    assert gloo_ranks.run(4, body, backend="gloo") == [planned] * 4


@pytest.mark.parametrize("collective", ["gloo", "innetwork"])
def test_half_precision_sends_what_the_planner_predicts(gloo_ranks, collective):
    """Sums have four bytes per value, whatever sums them, and gathers two."""
    host = {"name": "host", "count": 4, "kind": "switch", "bandwidth": "1 Gbit/s per direction",
            "aggregation": {"wire_bytes_per_value": 4}}  # fmt: skip
    answer = plan({"levels": [host]}, MODEL_FILES["Llama"], 4, batch=BATCH, sequence=SEQUENCE,
                  element_bytes=2, collectives=[collective], runtime=True)  # fmt: skip
    planned = {
        one.mesh: [dimension.bytes for dimension in one.dimensions]
        for one in (answer, *answer.runners_up)
    }
    assert set(planned) == {(4, 1), (2, 2), (1, 4)}

    def body(_rank):
        sent = {}
        for shape in planned:
            mesh = init_mesh(*shape, fused=False)
            torch.manual_seed(0)
            block = parallelize(Block(LLAMA).bfloat16())
            x = COLUMNS.take(inputs(torch.bfloat16)[0], shape, 0, mesh.column)
            block(x.requires_grad_()).sum().backward()
            norms = 4 * TOKENS * 4 if shape[1] > 1 else 0
            sent[shape] = [mesh.first.traffic.total(), mesh.second.traffic.total() - norms]
            mesh.close()
        return sent

    assert gloo_ranks.run(4, body, backend="gloo") == [planned] * 4


@pytest.mark.parametrize("vocabulary", [256, 29])  # the last of four rows has 5 of these
def test_a_step_sends_what_the_planner_predicts(gloo_ranks, vocabulary):
    """Embedding, two layers, last norm, head and loss, forward and backward."""
    config = dataclasses.replace(GPT, layers=2, vocabulary=vocabulary)
    model = MODEL_FILES["GPT"] | {"n_layer": 2, "vocab_size": vocabulary}
    host = {"name": "host", "count": 8, "kind": "switch", "bandwidth": "1 Gbit/s per direction"}
    answer = plan({"levels": [host]}, model, 8, batch=BATCH, sequence=SEQUENCE, element_bytes=8,
                  collectives=["ring"])  # fmt: skip
    planned = step_bytes(answer)
    assert set(planned) == set(MESHES)

    def body(_rank):
        counts = {}
        for shape in MESHES:
            mesh = init_mesh(*shape, fused=False)
            torch.manual_seed(0)
            whole = parallelize(Transformer(config).double())
            tokens = torch.arange(TOKENS).view(BATCH, SEQUENCE) % vocabulary
            logits = whole(tokens)
            vocabulary_parallel_cross_entropy(logits, tokens, vocabulary=vocabulary).backward()
            # Four norms and the last; each sends two values per token, twice.
            norms = 5 * 4 * TOKENS * 8 if shape[1] > 1 else 0
            counts[shape] = (
                mesh.first.traffic.total(),
                mesh.second.traffic.total() - norms,
            )
            mesh.close()
        return counts

    found = gloo_ranks.run(8, body, backend="gloo")
    for shape in MESHES:  # the first rows have the longest share of the vocabulary
        assert max(counts[shape] for counts in found) == planned[shape], shape


def test_chunks_send_the_same_bytes(gloo_ranks):
    def body(_rank):
        same = []
        for config in (GPT, dataclasses.replace(LLAMA, kv_heads=1)):  # rows hold copies of it
            sent = []
            for chunks in (1, 2, 4):
                mesh = init_mesh(2, 2)
                torch.manual_seed(0)
                block = parallelize(Block(config).double(), chunks=chunks)
                x = COLUMNS.take(inputs(torch.float64)[0], (2, 2), 0, mesh.column)
                block(x.requires_grad_()).sum().backward()
                sent.append((dict(mesh.first.traffic.bytes), dict(mesh.second.traffic.bytes)))
            same.append(sent[0] == sent[1] == sent[2])
        return same

    assert gloo_ranks.run(4, body, backend="gloo") == [[True, True]] * 4
