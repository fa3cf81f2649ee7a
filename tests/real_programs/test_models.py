"""What the table of models says of types of transformers is what becomes of them on a mesh."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SAME = ["llama", "gpt2", "qwen3", "olmo2", "gemma3_text", "phi3", "falcon", "opt"]
REFUSED = {"mamba": "backbone.layers.0.mixer", "codegen": "transformer.h.0.attn: CodeGenAttention"}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    words = ["-m", "experiments.tensor_parallel.models", folder, "--only", *SAME, *REFUSED]
    paths = f"{REPOSITORY / 'python'}:{REPOSITORY}"
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "models.json").read_text())["types"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SAME)
def test_a_model_on_meshes_computes_what_it_did(found, name):
    assert found[name]["outcome"] == "same", found[name]["why"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_cannot_be_split_is_refused_by_name(found, name):
    assert found[name]["outcome"] == "refused"
    assert REFUSED[name] in found[name]["why"]
