"""atp plan calibrate and atp plan compare, as the ranks of a job, through the runtime in Python."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.pages import command_line

from .conftest import BUILD, REPOSITORY

ATP = BUILD / "bin" / "atp"
CLUSTER = """\
levels:
  - {name: host, count: 2, kind: switch, bandwidth: 1 Gbit/s per direction}
"""
MODEL = '{"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 1}'


def run(folder, *words, python=sys.executable):
    path = os.pathsep.join([str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [ATP, "run", "-n", "2", "--", ATP, "plan", *words],
        cwd=folder,
        env={**os.environ, "ATP_PYTHON": python, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "config.json").write_text(MODEL)
    return tmp_path


def of_the_page(folder, command, *options):
    """The line of docs/plan/tensor-parallel.md, with two ranks instead of eight."""
    line = command_line("docs/plan/tensor-parallel.md", f"atp run -n 8 -- atp plan {command}")
    before, _, words = line.partition(f" plan {command} ")
    assert before == "atp run -n 8 -- atp"
    return run(folder, command, *words.split(), *options)


def test_calibrate_writes_into_the_cluster_file(folder):
    result = of_the_page(folder, "calibrate", "--megabytes", "0.1", "--rounds", "1")
    assert result.returncode == 0, result.stderr
    assert "wrote the times of 2 meshes to cluster.yaml" in result.stdout
    after = (folder / "cluster.yaml").read_text()
    assert after.startswith(CLUSTER + "measured:")
    assert "{mesh: [2, 1], algorithm: ring, dimension1: " in after
    best = subprocess.run(
        [ATP, "plan", "best", "--cluster", "cluster.yaml", "--model", "config.json"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert "measured" in best.stdout, best.stderr


def test_compare_prints_the_meshes_beside_their_predictions(folder):
    result = of_the_page(folder, "compare", "--rounds", "1", "--sequence", "32")
    assert result.returncode == 0, result.stderr
    head, *rows = result.stdout.splitlines()
    assert head.split()[-2:] == ["measured", "measured/predicted"]
    assert [row.split()[0] for row in rows if row] == ["(2,1)", "(1,2)"]


def test_calibrate_measures_devices_if_asked_to(folder):
    words = ("--cluster", "cluster.yaml", "--megabytes", "0.1", "--rounds", "1", "--device")
    result = run(folder, "calibrate", *words)
    assert result.returncode == 0, result.stderr
    assert "\ndevice: {products: " in (folder / "cluster.yaml").read_text()
    best = subprocess.run(
        [ATP, "plan", "best", "--cluster", "cluster.yaml", "--model", "config.json"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert "A training step takes" in best.stdout, best.stderr


def test_a_python_without_atp_is_named(folder):
    bare = folder / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    result = subprocess.run(
        [ATP, "plan", "calibrate", "--cluster", "cluster.yaml"],
        cwd=folder,
        env={**os.environ, "ATP_PYTHON": str(bare)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "has no module atp; set ATP_PYTHON to a Python that has it" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare"], "the following arguments are required: --model"),
        (["compare", "--model", "config.json", "--megabytes", "1"], "arguments: --megabytes 1"),
        (["compare", "--model", "config.json"], "atp run -n N -- atp plan compare"),
        (["calibrate"], "atp run -n N -- atp plan calibrate"),
        (["calibrate", "--rounds", "0"], "--rounds: found 0, expected at least 1"),
        (["calibrate", "--megabytes", "0"], "--megabytes: found 0.0, expected more than 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_use_is_refused(folder, words, message):
    """python/tests tests what they print; here, that they are reached."""
    path = os.pathsep.join([str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [ATP, "plan", *words, "--cluster", "cluster.yaml"],
        cwd=folder,
        env={**os.environ, "ATP_PYTHON": sys.executable, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("command", "own", "others"),
    [("calibrate", "--megabytes", "--model"), ("compare", "--model", "--megabytes")],
    ids=["calibrate", "compare"],
)
def test_help_lists_the_options_of_its_command_alone(folder, command, own, others):
    path = os.pathsep.join([str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [ATP, "plan", command, "--help"],
        env={**os.environ, "ATP_PYTHON": sys.executable, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0 and own in result.stdout
    assert others not in result.stdout and "--compare" not in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["calibrate", "--cluster", "no.yaml"],
            "no.yaml: cannot be read: No such file or directory",
        ),
        (
            ["compare", "--cluster", "cluster.yaml", "--model", "no.json"],
            "no.json: cannot be read: No such file or directory",
        ),
    ],
    ids=["calibrate", "compare"],
)
def test_every_rank_reports_a_file_that_cannot_be_read_in_one_line(folder, words, message):
    result = run(folder, *words)
    assert result.returncode == 1
    said = [line for line in result.stderr.splitlines() if line.startswith("atp plan: ")]
    assert len(said) == 2 and all(message in line for line in said), result.stderr
    assert "Traceback" not in result.stderr


UNFIT = {
    "of more devices than the job has ranks": (
        CLUSTER.replace("count: 2", "count: 4").encode(),
        "cluster.yaml:1: levels: found 4 devices (the product of the counts), expected 2",
    ),
    "that is empty": (b"", "cluster.yaml: found nothing, expected a YAML document"),
    "with an unknown key": (
        CLUSTER.encode() + b"levles: 3\n",
        'cluster.yaml:3: "levles": unknown key; did you mean levels?',
    ),
    "of bytes that are not text": (bytes(range(128, 256)), "cluster.yaml:1: "),
}


@pytest.mark.parametrize(("content", "message"), UNFIT.values(), ids=UNFIT)
def test_calibrate_leaves_a_file_alone_and_every_rank_says_why(folder, content, message):
    (folder / "cluster.yaml").write_bytes(content)
    result = run(folder, "calibrate", "--cluster", "cluster.yaml")
    assert result.returncode == 1
    said = [line for line in result.stderr.splitlines() if line.startswith("atp plan: ")]
    assert len(said) == 2 and all(message in line for line in said), result.stderr
    assert "Traceback" not in result.stderr
    assert (folder / "cluster.yaml").read_bytes() == content


@pytest.mark.parametrize(
    ("build", "chosen", "expected"),
    {
        "a checkout's own": ("build/release", None, "the checkout's"),
        "the one that ATP_PYTHON names": ("build/release", "path/python3", "the path's"),
        "the path's for a program that is elsewhere": ("usr", None, "the path's"),
    }.values(),
    ids=["a checkout's own", "the one that ATP_PYTHON names", "the path's, elsewhere"],
)
def test_python_is(tmp_path, build, chosen, expected):
    for folder, name, says in (
        (".venv/bin", "python", "the checkout's"),
        ("path", "python3", "the path's"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_text(f'#!/bin/sh\necho "{says}"\n')
        (tmp_path / folder / name).chmod(0o755)
    (tmp_path / build / "bin").mkdir(parents=True)
    program = shutil.copy(ATP, tmp_path / build / "bin")
    others = {name: value for name, value in os.environ.items() if name != "ATP_PYTHON"}
    path = os.pathsep.join([str(tmp_path / "path"), os.environ["PATH"]])
    result = subprocess.run(
        [program, "plan", "calibrate"],
        cwd=tmp_path,
        env=others | {"PATH": path} | ({"ATP_PYTHON": chosen} if chosen else {}),
        capture_output=True,
        text=True,
    )
    assert result.stdout == expected + "\n", result.stderr


def test_a_python_that_is_missing_is_named(folder):
    result = subprocess.run(
        [ATP, "plan", "calibrate", "--cluster", "cluster.yaml"],
        env={**os.environ, "ATP_PYTHON": "/no/python"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "cannot start /no/python: No such file or directory; set ATP_PYTHON" in result.stderr
