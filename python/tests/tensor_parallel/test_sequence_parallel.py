"""Sequence parallelism: between the blocks the ranks of a column share the tokens, and everything
that is computed equals the unsharded model's."""

import itertools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import atp.torch  # noqa: F401 (the ring)
from atp.planner import plan
from atp.tensor_parallel import (
    ATPLinear,
    clip_grad_norm_,
    init_mesh,
    parallelize,
    plan_of,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.sharding import Cut, cuts_of

from . import test_models
from .comparing import (
    CONFIGS,
    HIDDEN,
    MESHES,
    Outcome,
    assert_copies_are_equal,
    make_block,
    outcome_of,
    pieces_of_run,
    step_bytes,
)
from .lookalikes import Llama
from .test_blocks import asked_and_sent
from .test_in_network import SMALL
from .test_randomness import dropped_by, dropping

BATCH, SEQUENCE = 4, 8
TOKENS = Cut(1, 2)  # the split of activations [b, s, h]
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5}
# (algorithm, chunks, fused, dtype)
WAYS = [
    ("gloo", 1, None, torch.float64),
    ("ring", 1, None, torch.float64),
    ("ring", 2, None, torch.float64),
    ("ring", 4, False, torch.float32),
]
BLOCKS = list(itertools.product(MESHES, CONFIGS, WAYS))


def inputs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    shape = (BATCH, SEQUENCE, HIDDEN)
    return tuple(torch.randn(shape, generator=generator).to(dtype) for _ in range(2))


def here(whole: torch.Tensor, mesh) -> torch.Tensor:
    return TOKENS.take(whole, mesh.shape, mesh.row, mesh.column).clone()


def of_block(mesh, name: str, dtype: torch.dtype, chunks: int, whole: dict) -> Outcome:
    block = parallelize(make_block(CONFIGS[name], dtype), mesh=mesh, chunks=chunks)
    pieces = pieces_of_run(block, *(here(tensor, mesh) for tensor in inputs(dtype)))
    cuts = {"output": TOKENS, "input's gradient": TOKENS} | cuts_of(block)
    return outcome_of(pieces, cuts, whole, mesh)


def all_blocks(_rank):
    """{case: outcome} and {ring case: bytes requested and sent}, from one set of processes."""
    outcomes, sent = {}, {}
    expected = {
        (name, dtype): pieces_of_run(make_block(config, dtype), *inputs(dtype))
        for name, config in CONFIGS.items()
        for dtype in BOUNDS
    }
    for shape, way in itertools.product(MESHES, WAYS):
        algorithm, chunks, fused, dtype = way
        replicas = 8 // (shape[0] * shape[1])
        mesh = init_mesh(*shape, data_parallel=replicas, algorithm=algorithm, fused=fused,
                         sequence_parallel=True)  # fmt: skip
        for name in CONFIGS:
            whole = expected[name, dtype]
            before = asked_and_sent(mesh) if algorithm == "ring" else None
            outcomes[shape, name, way] = of_block(mesh, name, dtype, chunks, whole)
            if before is not None and dtype == torch.float64:
                sent[shape, name, way] = asked_and_sent(mesh) - before
        mesh.close()
    return outcomes, sent


@pytest.fixture(scope="module")
def blocks(gloo_ranks):
    return gloo_ranks.run(8, all_blocks, backend="gloo")


@pytest.mark.parametrize(
    "case", BLOCKS, ids=lambda c: f"{c[1]} on {c[0]} over {c[2][0]}, {c[2][1]} chunks, {c[2][2:]}"
)
def test_a_block_computes_the_same_as_unsharded(blocks, case):
    of_ranks = [outcomes[case] for outcomes, _ in blocks]
    for rank, outcome in enumerate(of_ranks):
        assert outcome.error <= BOUNDS[case[2][3]], f"rank {rank}: {outcome.tensor}"
    assert_copies_are_equal(of_ranks)


def test_a_ring_sends_what_is_asked_of_it(blocks):
    """Reduce-scatters and all-gathers, at the sockets: each moves half of an all-reduce."""
    cases = blocks[0][1].keys()
    assert len(cases) == 2 * len(MESHES) * len(CONFIGS)
    for case in cases:
        for asked, found in sum(sent[case] for _, sent in blocks).tolist():
            assert found == round(asked), case


def test_over_switches_a_block_is_as_precise_as_float32(ranks):
    """They sum the whole tensor, of which a rank keeps its tokens."""
    names = ["a GPT's block", "a Llama's block with grouped queries"]
    x, gradient = inputs(torch.float64)
    expected = {
        name: pieces_of_run(make_block(CONFIGS[name], torch.float64), x.clone(), gradient * SMALL)
        for name in names
    }

    def body(_rank):
        mesh = init_mesh(2, 2, algorithm="innetwork", sequence_parallel=True)
        outcomes = []
        for name in names:
            block = parallelize(make_block(CONFIGS[name], torch.float32), mesh=mesh, chunks=2)
            own, of_output = (here(tensor, mesh) for tensor in inputs(torch.float32))
            pieces = pieces_of_run(block, own, of_output * SMALL)
            cuts = {"output": TOKENS, "input's gradient": TOKENS} | cuts_of(block)
            outcomes.append(outcome_of(pieces, cuts, expected[name], mesh))
        calls = dict(mesh.first.traffic.calls)
        mesh.close()
        return outcomes, calls

    found = ranks.run(4, body, backend="gloo")
    for outcomes, calls in found:
        assert max(outcome.error for outcome in outcomes) <= 1e-6, outcomes
        assert calls.keys() == {"all_reduce", "all_gather"}
    for i in range(len(names)):
        assert_copies_are_equal([outcomes[i] for outcomes, _ in found])


PLANNED = {  # layers, statistics per norm, and the model as the planner reads it
    "GPT": (test_models.GPT, 2, {"model_type": "gpt2", "n_embd": 32, "n_head": 8, "n_layer": 2,
                                 "vocab_size": 64, "n_positions": 16}),
    "Llama": (test_models.LLAMA, 1,
              {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 8,
               "num_key_value_heads": 4, "num_hidden_layers": 2, "intermediate_size": 48,
               "vocab_size": 64}),
}  # fmt: skip
FLAT = {"levels": [{"name": "host", "count": 8, "kind": "switch",
                    "bandwidth": "1 Gbit/s per direction"}]}  # fmt: skip


def planned_bytes(
    name: str, fused: bool, chunks: int
) -> dict[tuple[int, int], tuple[float, float]]:
    answer = plan(FLAT, PLANNED[name][2], 8, batch=8, sequence=8, element_bytes=8,
                  collectives=["ring"], fused=fused, chunks=chunks,
                  sequence_parallel=True)  # fmt: skip
    return step_bytes(answer)


def counted_bytes(_rank):
    counts = {}
    for (name, (config, statistics, _)), shape, (fused, chunks) in itertools.product(
        PLANNED.items(), test_models.MESHES, ((True, 1), (False, 1), (True, 2))
    ):
        mesh = init_mesh(*shape, fused=fused, sequence_parallel=True)
        model = parallelize(test_models.make(config), mesh=mesh, chunks=chunks)
        results(model, vocabulary_parallel_cross_entropy)
        # Five norms, of this row's tokens, forward and backward.
        norms = 5 * 2 * statistics * (8 * 8 // shape[0]) * 8 if shape[1] > 1 else 0
        counts[name, shape, fused, chunks] = (
            mesh.first.traffic.total(),
            mesh.second.traffic.total() - norms,
        )
        mesh.close()
    return counts


def test_a_step_sends_what_the_planner_predicts(gloo_ranks):
    """Embedding, positions, two layers, last norm, head and loss, forward and backward."""
    for found in gloo_ranks.run(8, counted_bytes, backend="gloo"):
        for (name, shape, fused, chunks), counted in found.items():
            assert counted == planned_bytes(name, fused, chunks)[shape], (
                name,
                shape,
                fused,
                chunks,
            )


def test_the_planner_chooses_among_the_meshes_that_can_share_tokens(gloo_ranks):
    answer = plan(FLAT, PLANNED["GPT"][2], 8, batch=8, sequence=6, sequence_parallel=True)
    refused = {one.mesh: one.reasons for one in answer.rejected}
    for d1 in (8, 4):
        assert refused[d1, 8 // d1] == (
            f"d1 = {d1} does not divide the number of tokens per sequence 6",
        )

    def body(_rank):
        mesh = init_mesh("auto", cluster=FLAT, model=PLANNED["GPT"][2], batch=8, sequence=12,
                         collectives=["ring"], sequence_parallel=True)  # fmt: skip
        model = parallelize(test_models.make(test_models.GPT), mesh=mesh)
        tokens = torch.arange(96).view(8, 12) % 64
        return mesh.sequence_parallel, mesh.shape, list(model(tokens).shape)

    found = gloo_ranks.run(8, body, backend="gloo")
    shape = found[0][1]
    assert shape in [(4, 2), (2, 4), (1, 8)]
    assert found == [(True, shape, [8, 12, 64 // shape[0]])] * 8


def results(model, loss_of) -> dict[str, torch.Tensor]:
    tokens, targets = test_models.batch(0)
    loss = loss_of(model(tokens), targets)
    loss.backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    return found | {"loss": loss.detach().reshape(1)}


def all_models(_rank):
    outcomes = {}
    for name, config in test_models.CONFIGS.items():
        whole = test_models.make(config)
        expected = results(whole, test_models.whole_loss)
        norm = float(nn.utils.clip_grad_norm_(whole.parameters(), 1e9))
        for shape, (algorithm, chunks) in itertools.product(
            MESHES, (("gloo", 1), ("ring", 1), ("ring", 2))
        ):
            replicas = 8 // (shape[0] * shape[1])
            mesh = init_mesh(*shape, data_parallel=replicas, algorithm=algorithm,
                             sequence_parallel=True)  # fmt: skip
            model = parallelize(test_models.make(config), mesh=mesh, chunks=chunks)
            found = results(model, vocabulary_parallel_cross_entropy)
            outcome = outcome_of(found, cuts_of(model) | {"loss": Cut()}, expected, mesh)
            difference = abs(float(clip_grad_norm_(model, 1e9)) / norm - 1)
            outcomes[name, shape, algorithm, chunks] = outcome, difference
            mesh.close()
    return outcomes


def test_a_models_loss_and_all_gradients_equal_the_unsharded_ones(gloo_ranks):
    of_ranks = gloo_ranks.run(8, all_models, backend="gloo")
    assert len(of_ranks[0]) == 2 * len(MESHES) * 3
    for case in of_ranks[0]:
        for rank, found in enumerate(of_ranks):
            outcome, difference = found[case]
            assert outcome.error < 1e-12, f"{case}, rank {rank}: {outcome.tensor}"
            assert difference < 1e-12, f"{case}, rank {rank}: the gradients' norm"
        assert_copies_are_equal([found[case][0] for found in of_ranks])


def test_training_with_dtensors_matches_the_unsharded_model(gloo_ranks):
    config = test_models.dataclasses.replace(test_models.LLAMA, fused_qkv=False)
    expected, state = test_models.train_whole(config)

    def body(_rank):
        mesh = init_mesh(2, 2, algorithm="ring", sequence_parallel=True)
        model = parallelize(test_models.make(config), mesh=mesh, dtensors=True, chunks=2)
        losses = test_models.train(model, vocabulary_parallel_cross_entropy)
        whole = {name: tensor.full_tensor() for name, tensor in model.state_dict().items()}
        worst = max(float((whole[name] - state[name]).abs().max()) for name in state)
        return test_models.relative_difference(losses, expected), worst

    for of_losses, of_weights in gloo_ranks.run(4, body, backend="gloo"):
        assert of_losses < 1e-10
        assert of_weights < 1e-8


def test_dropouts_differ_on_all_ranks_and_a_checkpointed_block_repeats_them(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(2, 2, sequence_parallel=True)
        model = dropping(mesh)
        masks = dropped_by(
            model.block.attention.dropout, model.block.feed_forward.dropout, model.drop
        )
        x = here(torch.ones(BATCH, SEQUENCE, HIDDEN, dtype=torch.float64), mesh)
        gradients = []
        for run in (model.block, lambda x: checkpoint(model.block, x, use_reentrant=False)):
            model.zero_grad()
            mesh.randomness.batches = 7
            own = x.clone().requires_grad_()
            with mesh.randomness.batch():
                model.drop(run(own)).square().sum().backward()
            gradients.append([own.grad, *(p.grad.clone() for p in model.parameters())])
        same = all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
        return str(masks[:3]), float(gradients[0][0].abs().sum()) > 0 and same

    found = gloo_ranks.run(4, body, backend="gloo")
    assert len({masks for masks, _ in found}) == 4
    assert all(masks.count("True") > 100 and same for masks, same in found)


def test_what_cannot_share_its_tokens_is_refused(gloo_ranks):
    def refused(call) -> str:
        with pytest.raises(ValueError) as error:
            call()
        return str(error.value)

    def body(_rank):
        mesh = init_mesh(4, 1, sequence_parallel=True)
        model = parallelize(test_models.make(test_models.GPT), mesh=mesh)
        seven = refused(lambda: model(torch.zeros(2, 7, dtype=torch.long)))
        theirs = Llama().double()
        whole_logits = refused(lambda: parallelize(theirs, plan_of(theirs), mesh))
        mesh.close()
        alone = init_mesh(1, 4, sequence_parallel=True)  # one row: nothing to share
        parallelize(test_models.make(test_models.GPT), mesh=alone)(torch.zeros(2, 7).long())
        return str(mesh), seven, whole_logits

    for name, seven, whole_logits in gloo_ranks.run(4, body, backend="gloo"):
        assert name == "Mesh(4, 1) over gloo/gloo, sequence parallel"
        assert seven == (
            "tokens: sequence parallelism needs equal parts of a sequence, but d1 = 4 does not "
            "divide its 7 tokens; pad the sequences, or choose another mesh"
        )
        assert whole_logits == (
            "lm_head: it needs all tokens of a sequence, of which a rank has only some on Mesh(4, "
            "1) over gloo/gloo, sequence parallel; give it the role Column, or use init_mesh() "
            "without sequence_parallel"
        )


def test_layers_of_ones_own_gather_and_scatter_tokens(gloo_ranks):
    """ATPLinear without parallelize, on [s, h] without a batch."""

    def body(_rank):
        init_mesh(2, 1, sequence_parallel=True)
        up = ATPLinear(8, 16, "column", dtype=torch.float64)
        down = ATPLinear(16, 8, "row", dtype=torch.float64)
        x = torch.ones(2, 8, dtype=torch.float64)  # two of four tokens
        return [*up(x).shape], [*down(up(x)).shape]

    assert gloo_ranks.run(2, body, backend="gloo") == [([4, 8], [2, 8])] * 2


def test_a_rank_stores_what_the_norms_need_for_its_tokens_only(gloo_ranks):
    """As the planner counts it: the inputs of the column-first products are stored as gathered."""

    # With four rows no other tensor of this block is as wide as the hidden size.
    config = CONFIGS["a gated block with grouped queries, biases and one projection"]

    def stored(block, x) -> list[int]:
        found = {}

        def note(tensor):
            found[tensor.untyped_storage().data_ptr()] = tensor  # kept, so that none is reused
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            output = block(x)
        del output
        return [tensor.shape[1] for tensor in found.values() if tensor.shape[2:] == (HIDDEN,)]

    def body(_rank):
        lengths = []
        for tokens in (False, True):
            mesh = init_mesh(4, 1, sequence_parallel=tokens)
            block = parallelize(make_block(config, torch.float64), mesh=mesh)
            x = inputs(torch.float64)[0]
            lengths.append(sorted(stored(block, (here(x, mesh) if tokens else x).requires_grad_())))
            mesh.close()
        return lengths

    part = SEQUENCE // 4
    for whole, split in gloo_ranks.run(4, body, backend="gloo"):
        assert whole == [SEQUENCE] * 4
        assert split == [part, part, SEQUENCE, SEQUENCE]
