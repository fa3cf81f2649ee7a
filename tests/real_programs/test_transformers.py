"""Models of transformers compute the same after `parallelize(model, mesh)` has split them."""

import collections
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(1800)

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENT = (REPOSITORY / "docs" / "plan" / "tensor-parallel-transformers.md").read_text()
PROGRAM = "parallelize_transformers.py"
MESHES = [(2, 1), (1, 2), (4, 1), (2, 2), (1, 4), (8, 1), (4, 2), (2, 4), (1, 8)]
ALGORITHMS = ["gloo", "ring", "innetwork"]
TOKENS = ["whole", "split"]  # whether the rows share them (sequence parallelism)
RUNS = [
    (*mesh, algorithm, tokens)
    for algorithm in ALGORITHMS
    for mesh in MESHES
    for tokens in TOKENS
    if mesh[0] > 1 or tokens == "whole"
]
LIMITS = {"float32": 1e-5, "float64": 1e-9}
ON_FOUR = (2, 2, "gloo", "whole")
on_both = pytest.mark.parametrize("run", [ON_FOUR, (2, 2, "gloo", "split")], ids="{0[3]}".format)


@pytest.fixture(scope="module")
def of_jobs():
    return {}


@pytest.fixture
def said(run_program, of_jobs):
    """Each rank's output, by mesh, algorithm of the sums, and whether rows share the tokens. All
    runs with the same ranks and algorithm are one job: importing transformers takes longer."""

    def of(run):
        d1, d2, algorithm, _ = run
        job = d1 * d2, algorithm
        if job not in of_jobs:
            cases = [case_of(one) for one in RUNS if (one[0] * one[1], one[2]) == job]
            of_jobs[job] = run_program(
                PROGRAM, algorithm, *cases, algorithm=algorithm, ranks=job[0]
            )
        return [of_rank[case_of(run)] for of_rank in of_jobs[job]]

    return of


def case_of(run):
    return f"{run[0]}x{run[1]}-{run[3]}"


@pytest.mark.parametrize("run", RUNS, ids="{0[0]}x{0[1]} over {0[2]}, {0[3]} sequences".format)
def test_logits_loss_gradients_and_generated_tokens_are_those_of_the_whole_model(said, run):
    for of_rank in said(run):
        compared = {k: v for k, v in of_rank["errors"].items() if "bfloat16" not in k}
        assert len(compared) == (5 if run[2] == "innetwork" else 7)
        for model, errors in compared.items():
            assert len(errors) > 20
            for tensor, error in errors.items():
                assert error <= LIMITS[model.rpartition(", ")[2]], f"{model}: {tensor}"


@pytest.mark.parametrize("run", RUNS, ids="{0[0]}x{0[1]} over {0[2]}, {0[3]} sequences".format)
@pytest.mark.parametrize("model", ["GPT-2", "Llama"])
def test_in_bfloat16_it_is_no_further_from_float32_than_the_whole_model(said, model, run):
    """At most 1.5 times as far: each matrix, and norms, biases and the loss taken together."""
    own, whole = collections.Counter(), collections.Counter()
    for of_rank in said(run):
        for tensor, (error, of_whole) in of_rank["errors"][f"{model}, bfloat16"].items():
            is_small = "norm" in tensor or "ln_" in tensor or "bias" in tensor or tensor == "loss"
            own["small ones" if is_small else tensor] += error
            whole["small ones" if is_small else tensor] += of_whole
    for tensor, error in own.items():
        assert error <= 1.5**2 * whole[tensor], tensor


@on_both
def test_dropout_is_the_same_in_a_column_and_under_checkpointing(said, run):
    of_columns = collections.defaultdict(set)
    for of_rank in said(run):
        dropout = of_rank["dropout"]
        assert dropout["checkpoints change nothing"]
        assert dropout["loss"] == said(run)[0]["dropout"]["loss"]
        assert abs(dropout["loss"] - dropout["loss without dropout"]) > 1e-4
        gradient, column = dropout["a norm's gradient, and its column"]
        of_columns[column].add(gradient)
    assert [len(values) for values in of_columns.values()] == [1, 1]


REFUSED = {
    "hidden states": "output_hidden_states: on Mesh(2, 2) over gloo/gloo a rank has only a piece",
    "attentions": "output_attentions: on Mesh(2, 2) over gloo/gloo a rank has only the attention",
    "embedded tokens": "inputs_embeds: on Mesh(2, 2) over gloo/gloo a rank takes only a piece",
    "save": "save_pretrained: this rank has only a piece of the LlamaForCausalLM",
    "a model without a head": "LlamaModel has no lm_head",
    "a GPT-2 with two attentions": "transformer.h.0.crossattention: GPT2Attention cannot be",
    "one head after another": "transformer.h.0.attn: GPTBigCodeAttention cannot be split: c_attn",
    "keys and values for all heads": "transformer.h.0.attn: GPTBigCodeAttention cannot be split",
    "chunks": "LlamaForCausalLM has no steps(), so its chunks cannot be interleaved; use chunks=1",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_rank_has_only_a_piece_of_is_refused(said, what):
    for of_rank in said(ON_FOUR):
        assert REFUSED[what] in of_rank["refused"][what]


@on_both
def test_models_that_are_built_alike_compute_what_they_did(said, run):
    for of_rank in said(run):
        assert len(of_rank["alike"]) == 11
        for model, error in of_rank["alike"].items():
            assert error <= LIMITS["float32"], model


@on_both
def test_transformers_loads_what_a_mesh_has_saved(said, run):
    assert all(of_rank["saved"] for of_rank in said(run))


@on_both
def test_ranks_sample_the_tokens_that_the_whole_model_samples(said, run):
    for of_rank in said(run):
        on_mesh, of_whole = of_rank["sampled"]
        assert on_mesh == of_whole


@pytest.mark.parametrize("ranks", [4, 8])
def test_fully_shard_trains_replicas_as_one_whole_model(run_program, ranks):
    for of_rank in run_program(
        PROGRAM, "ring", f"replicas-of-{ranks}", algorithm="ring", ranks=ranks
    ):
        found = of_rank[f"replicas-of-{ranks}"]
        assert len(found) == {4: 4, 8: 2}[ranks]
        for what, (error, dimensions) in found.items():
            assert error <= 1e-6, what  # the loss of transformers is a float32
            assert dimensions == [3], what


def block(language):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    return found


def test_the_program_of_the_document_plans_trains_saves_and_generates(tmp_path, atp_program):
    (tmp_path / "cluster.yaml").write_text(block("yaml"))
    (tmp_path / "train.py").write_text(block("python"))
    path = f"{atp_program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", block("sh")],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(REPOSITORY / "python"),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", done.stdout)]
    assert len(losses) == 2 and losses[1] < losses[0] < 6
    # Lines of two ranks may come as one.
    said = re.findall(r"rank \d of (Mesh[^:]*): (b'In the beginning [^']+')", done.stdout)
    assert len(said) == 4 and len(set(said)) == 1
    assert (tmp_path / "checkpoint" / "checkpoint.json").exists()
    assert (tmp_path / "model" / "model.safetensors").exists()
