"""Whatever bytes a file has, it becomes a cluster file or an error that names the file."""

import pathlib
import random
import re
import subprocess
import sys

import pytest

from atp.topology import __main__ as command
from atp.topology.text import FileError, is_plain

from ..conftest import REPOSITORY
from .descriptions import CUBE, PAIRS, PCIE, SWITCHED, cpu, gpu, nic, nvlink, sockets, system
from .test_astra import lists
from .test_slurm import TWO_TIERS, UNEQUAL, YAML

SEEDS = [
    (pathlib.Path(__file__).parent / "nccl-topology.xml").read_text(),
    *(CUBE, PAIRS, PCIE, SWITCHED, sockets(), TWO_TIERS, UNEQUAL, YAML),
    system(cpu(0, gpu(0, nvlink(1, 4)) + gpu(1, nvlink(0, 4)) + nic("a", "200000")), cpu(1, "")),
    lists("Ring, FullyConnected, Switch", "2, 8, 4", "200, 100, 50", "50, 500, 2000"),
]
WORDS = (
    "GPU0 X NV4 SYS = [ ] [0-3] , - : # \\ < > /> &lt; &b; \" ' 0 1 16 1e9 nan \n \r \t \ufeff "
    "<gpu> Nodes Switches topology: - [] Ring \x1b[31m \x00 \u2028 \udcff \uffff \u0664 <!DOCTYPE"
).split(" ")


def changed(text, draw):
    for _ in range(draw.choice([0, 1, 1, 2, 3, 6])):
        at = draw.randrange(len(text) + 1)
        lines = text.split("\n")
        text = draw.choice(
            [
                text[:at] + text[at + draw.choice([1, 1, 3, 20]) :],
                text[:at] + draw.choice(WORDS) + text[at:],
                text[:at] + text[(start := draw.randrange(len(text) + 1)) : start + 40] + text[at:],
                "\n".join(draw.sample(lines, len(lines))),
                "\n".join([*lines, draw.choice(lines)]),
                re.sub(r"\d+", lambda _: draw.choice(["0", "7", "99999999999"]), text, count=2),
            ]
        )
    return text


@pytest.mark.parametrize("seed", range(8))
def test_is_read_or_refused_in_one_plain_line(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(seed)
    read = 0
    for _ in range(400):
        text = changed(draw.choice(SEEDS), draw)
        (tmp_path / "f").write_bytes(text.encode("utf-8", "surrogateescape"))
        (tmp_path / "g").write_bytes((tmp_path / "f").read_bytes())
        words = ["f", "--format", draw.choice(command.FORMATS), *draw.choice([["g"], [], []])]
        try:
            written = command.imported(command._parser().parse_intermixed_args(words)).text()
        except FileError as error:
            assert re.match("[fg]: |[fg]:[0-9]+: ", str(error)) and is_plain(str(error)), words
        else:
            assert is_plain(written.replace("\n", ""))
            read += 1
    assert read > 20


def test_it_needs_nothing_but_the_standard_library(tmp_path):
    """Not even the rest of the package's dependencies: -S leaves out all that is installed."""
    (tmp_path / "topo.txt").write_text(PCIE)
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(REPOSITORY / 'python')!r}); "
        "runpy.run_module('atp.topology', run_name='__main__', alter_sys=True)"
    )
    python = [sys.executable, "-I", "-S", "-c", code, "topo.txt"]
    run = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0 and "host bridge" in run.stdout, run.stderr
