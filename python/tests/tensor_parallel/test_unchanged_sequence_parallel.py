"""Sequence parallelism of unmodified models: its bytes and memory, sequences of any length, and
what is refused."""

import itertools
import types

import pytest
import torch
from torch import nn

from atp.planner import plan
from atp.tensor_parallel import init_mesh, parallelize

from .comparing import step_bytes
from .lookalikes import (
    GPT2,
    HIDDEN,
    KV_HEADS,
    MODELS,
    VOCABULARY,
    WIDTH,
    GroupedAttention,
    Llama,
    make,
    with_changed,
)
from .test_sequence_parallel import FLAT
from .test_unchanged import OF_EACH_VALUE, OF_SEVERAL
from .test_unchanged_everywhere import BATCH, SEQUENCE, results

# The models as the planner reads them.
FILES = {
    "GPT-2": {"model_type": "gpt2", "n_embd": HIDDEN, "n_head": 8, "n_layer": 2, "n_inner": 64,
              "vocab_size": VOCABULARY, "n_positions": 16},
    "Llama": {"model_type": "llama", "hidden_size": HIDDEN, "num_attention_heads": 8,
              "num_key_value_heads": KV_HEADS, "num_hidden_layers": 2, "intermediate_size": 48,
              "vocab_size": VOCABULARY},
}  # fmt: skip
STATISTICS = {"GPT-2": 2, "Llama": 1}
MESHES = [(8, 1), (4, 2), (2, 4), (1, 8)]
WAYS = list(itertools.product((False, True), (False, True)))  # tokens split, fused


def without_biases_of_values(name):
    """Copies of these biases on several rows would be summed; the planner omits so few values."""
    model = make(MODELS[name])
    for layer in getattr(model, "layers", ()):
        layer.attention.v_proj = nn.Linear(HIDDEN, KV_HEADS * WIDTH, bias=False).double()
    return model


def planned(name, tokens, fused):
    """{mesh: the bytes of a step on dimensions 1 and 2}."""
    answer = plan(FLAT, FILES[name], 8, batch=BATCH, sequence=SEQUENCE, element_bytes=8,
                  collectives=["ring"], fused=fused, by_heads=True, whole_logits=True,
                  sequence_parallel=tokens)  # fmt: skip
    return step_bytes(answer)


def counted(_rank):
    said = {}
    for shape, (tokens, fused) in itertools.product(MESHES, WAYS):
        mesh = init_mesh(*shape, fused=fused, sequence_parallel=tokens)
        for name, statistics in STATISTICS.items():
            for dimension in (mesh.first, mesh.second):
                dimension.traffic.clear()
            results(parallelize(without_biases_of_values(name), mesh))
            # Of the four norms inside the blocks and the last one, forward and backward.
            seen = BATCH * SEQUENCE * (4 / (shape[0] if tokens else 1) + 1)
            norms = 2 * statistics * seen * 8 if shape[1] > 1 else 0
            bytes_here = mesh.first.traffic.total(), mesh.second.traffic.total() - norms
            said[name, shape, tokens, fused] = bytes_here
        mesh.close()
    return said


def test_a_step_sends_what_the_planner_predicts(gloo_ranks):
    """Embedding, positions, two layers, last norm and head, forward and backward."""
    found = gloo_ranks.run(8, counted, backend="gloo")
    assert len(found[0]) == 2 * len(MESHES) * len(WAYS)
    for name, shape, *way in found[0]:  # the first rows have the longest part of the vocabulary
        most = max(said[name, shape, *way] for said in found)
        assert most == planned(name, *way)[shape], (name, shape, way)


def test_the_planner_plans_it_for_models_of_transformers(gloo_ranks):
    config = FILES["Llama"] | {"transformers_version": "5"}

    def body(_rank):
        mesh = init_mesh("auto", cluster=FLAT, model=config, batch=BATCH, sequence=12,
                         collectives=["ring"], sequence_parallel=True)  # fmt: skip
        model = parallelize(make(Llama), mesh)
        return mesh.splits_tokens, mesh.shape, list(model(torch.zeros(BATCH, 12).long()).shape)

    found = gloo_ranks.run(8, body, backend="gloo")
    splits, shape, logits = found[0]
    assert splits and shape[0] in (2, 4) and found == [found[0]] * 8
    assert logits == [BATCH, 12, VOCABULARY]


def test_a_rank_stores_only_its_tokens_of_what_is_between_the_blocks(gloo_ranks):
    """Per block, the inputs of two norms; those of two products are stored as gathered, and so is
    what follows the blocks."""

    def stored(model):
        found = {}

        def note(tensor):
            found[tensor.untyped_storage().data_ptr()] = tensor  # kept, so that none is reused
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            logits = model(torch.zeros(BATCH, SEQUENCE).long())
        del logits
        return sorted(t.shape[1] for t in found.values() if t.shape[2:] == (HIDDEN,))

    def body(_rank):
        lengths = []
        for tokens in (False, True):
            mesh = init_mesh(4, 1, sequence_parallel=tokens)
            lengths.append(stored(parallelize(make(Llama), mesh)))
            mesh.close()
        return lengths

    for whole, split in gloo_ranks.run(4, body, backend="gloo"):
        assert whole == [SEQUENCE] * 10
        assert split == [SEQUENCE // 4] * 4 + [SEQUENCE] * 6


@pytest.mark.parametrize("shape", [(4, 1), (2, 2)])
def test_sequences_of_any_length_run_without_gradients_and_are_refused_with_them(gloo_ranks, shape):
    def body(_rank):
        mesh = init_mesh(*shape, sequence_parallel=True)
        worst, texts = [], []
        for kind in MODELS.values():
            model, whole = parallelize(make(kind), mesh), make(kind)
            before = results(model)
            for length in (1, 2, 3, 7, 8, 9):
                tokens = torch.arange(2 * length).view(2, length) % VOCABULARY
                with torch.no_grad():
                    worst.append(float((model(tokens) - whole(tokens)).abs().max()))
            with pytest.raises(ValueError) as error:
                model(torch.zeros(1, 7).long())
            texts.append(str(error.value))
            # What padding was needed before does not matter.
            after = results(model)
            assert all(torch.equal(before[name], after[name]) for name in before)
        return max(worst), texts

    for worst, texts in gloo_ranks.run(4, body, backend="gloo"):
        assert worst < 1e-12
        assert texts == [
            f"{blocks}.0: sequence parallelism needs equal parts of a sequence, but d1 = "
            f"{shape[0]} does not divide its 7 tokens; pad the sequences, or choose another mesh"
            for blocks in ("h", "layers")
        ]


class MoreInside(Llama):
    """A model that computes `between` between its blocks."""

    def __init__(self, between):
        super().__init__()
        self.between = between

    def forward(self, tokens):
        x = self.layers[0](self.embed_tokens(tokens))
        return self.lm_head(self.norm(self.layers[1](self.between(x))))


RIGHT_FOR_SOME_TOKENS = {"a scale", "a sum with itself, clamped", "a dropout"}


def test_what_needs_all_tokens_between_the_blocks_is_an_error(gloo_ranks):
    each = OF_EACH_VALUE | OF_SEVERAL

    def body(_rank):
        mesh = init_mesh(2, 1, sequence_parallel=True)
        texts = {}
        for name, between in each.items():
            model = parallelize(MoreInside(between).double(), mesh)
            try:
                model(torch.zeros(2, 6).long())
                texts[name] = ""
            except ValueError as error:
                texts[name] = str(error)
        return texts

    for texts in gloo_ranks.run(2, body, backend="gloo"):
        for name, text in texts.items():
            expected = "" if name in RIGHT_FOR_SOME_TOKENS else "the model: its forward() computes"
            assert text.startswith(expected) and bool(text) == bool(expected), name


class Backwards(Llama):
    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for block in reversed(self.layers):
            x = block(x)
        return self.lm_head(self.norm(x))


class EndsEarly(Llama):
    def forward(self, tokens):
        return self.lm_head(self.norm(self.layers[0](self.embed_tokens(tokens))))


class NamesItsInput(Llama):
    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for block in self.layers:
            x = block(x=x)
        return self.lm_head(self.norm(x))


class WithoutAList(Llama):
    def __init__(self):
        super().__init__()
        self.layer0, self.layer1 = self.layers
        del self.layers


class AsksTwice(GroupedAttention):
    def forward(self, hidden_states):
        self.q_proj(hidden_states)
        return super().forward(hidden_states)


REFUSED = {
    "blocks in another order": (
        lambda: make(Backwards),
        "layers.1.norm1: its input did not come through the first block",
    ),
    "a last block that does not run": (
        lambda: make(EndsEarly),
        "norm: its input did not come through the last block",
    ),
    "a hidden state under an unknown name": (
        lambda: make(NamesItsInput),
        "layers.0: sequence parallelism expects its hidden state as its first argument or as "
        "hidden_states=..., found 0 arguments and x",
    ),
    "blocks that are not in a list": (
        lambda: make(WithoutAList),
        "the attention blocks of WithoutAList are not in one nn.ModuleList",
    ),
    "attention that uses its first layer twice": (
        lambda: with_changed("layers.1.attention", AsksTwice).double(),
        "layers.1.attention: it calls layers.1.attention.q_proj twice on its input",
    ),
}


def test_what_it_cannot_split_is_refused_by_name(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(2, 1, sequence_parallel=True)
        texts = {}
        for name, (make_model, _) in REFUSED.items():
            with pytest.raises(ValueError) as error:
                parallelize(make_model(), mesh)(torch.zeros(1, 2).long())
            texts[name] = str(error.value)
        return texts

    for texts in gloo_ranks.run(2, body, backend="gloo"):
        for name, text in texts.items():
            assert text.startswith(REFUSED[name][1]), name


class WithConfig(GPT2):
    def __init__(self):
        super().__init__()
        self.config = types.SimpleNamespace(output_hidden_states=False)

    def forward(self, tokens, output_hidden_states=None):
        return super().forward(tokens)


def test_hidden_states_of_some_tokens_are_refused(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(2, 1, sequence_parallel=True)
        model = parallelize(make(WithConfig), mesh)
        with pytest.raises(ValueError, match="output_hidden_states: on Mesh.* a rank has only som"):
            model(torch.zeros(1, 2).long(), output_hidden_states=True)

    gloo_ranks.run(2, body, backend="gloo")
