"""`atp plan import`, as a user runs it; tests/plan/topology has the readers' own tests."""

import os
import shutil
import subprocess
import sys

import pytest

from .conftest import BUILD, REPOSITORY
from .topology.descriptions import CUBE, IRREGULAR, PAIRS, PCIE, matrix, sockets
from .topology.test_astra import lists
from .topology.test_slurm import TWO_TIERS, UNEQUAL, YAML

ATP = BUILD / "bin" / "atp"


def test_what_nvidia_smi_prints_becomes_a_cluster_file(program):
    topo = "GPU0 GPU1 GPU2 GPU3\n" + "\n".join(
        f"GPU{i} " + " ".join("X" if i == j else "NV12" for j in range(4)) for i in range(4)
    )
    program.write("mine.yaml", program.output("import", "-", input=topo))
    assert "300" in program.output("matrix", "--cluster", "mine.yaml")


def nccl_topology(gpus, megabits=200000):
    """What NCCL dumps for GPUs at one NVSwitch, with a network card."""
    devices = "".join(
        f'<pci busid="0000:1{i}:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
        f'<gpu dev="{i}" sm="90" rank="{i}" gdr="1">'
        '<nvlink target="0000:05:00.0" count="18" tclass="0x068000"/></gpu></pci>'
        for i in range(gpus)
    )
    card = f'<nic><net name="mlx5_0" dev="0" speed="{megabits}" port="1"/></nic>'
    return f'<system version="1"><cpu numaid="0" arch="x86_64">{devices}{card}</cpu></system>'


def test_nccls_topologies_of_two_hosts_become_a_cluster_file(program):
    program.write("gpu1.xml", nccl_topology(4))
    program.write("dump.xml", nccl_topology(4, megabits=400000))
    text = program.output("import", "gpu1.xml", "--name", "gpu2=dump.xml")
    assert "# The hosts in the planner's order: gpu1,gpu2.\n" in text
    assert "25 GB/s per direction (gpu1) to 50 GB/s per direction (gpu2): the slowest" in text
    assert "bandwidth: 450 GB/s per direction" in text
    program.write("cluster.yaml", text)
    best = program.output("best", "--cluster", "cluster.yaml", "--model", "gpt2-medium.json")
    assert best.startswith("8 devices: 2 hosts with 4 GPUs each")


def test_slurms_topology_becomes_a_cluster_file(program):
    program.write(
        "topology.conf",
        "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-7]\nSwitchName=top Switches=a,b\n",
    )
    links = ("--link", "NODE=10 Gbit/s per direction", "--link", "UPLINK=5 Gbit/s per direction")
    program.write("cluster.yaml", program.output("import", "topology.conf", *links))
    text = program.output("best", "--cluster", "cluster.yaml", "--model", "gpt2-medium.json")
    assert text.startswith("8 devices: topology.conf")
    assert "'leaf switch'" in program.output(
        "explain", "--cluster", "cluster.yaml", "--model", "gpt2-medium.json", "--mesh", "4,2"
    )


def test_an_astra_sim_network_becomes_a_cluster_file(program):
    program.write(
        "astra.yml",
        "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\n"
        "bandwidth: [ 200.0, 50.0 ]\nlatency: [ 500.0, 2000.0 ]\n",
    )
    program.write("cluster.yaml", program.output("import", "astra.yml"))
    text = program.output("best", "--cluster", "cluster.yaml", "--model", "gpt2-medium.json")
    assert text.startswith("8 devices: astra.yml")


CLUSTERS = {
    "levels": (PCIE,),
    "pairs that are not adjacent": (PAIRS,),
    "every pair": (CUBE,),
    "hosts": (PAIRS, PAIRS),
    "hosts whose pairs are described": (IRREGULAR, IRREGULAR),
    "hosts with one GPU": (matrix(1, ""), matrix(1, "")),
    "eight levels' names": (matrix(8, lambda a, b: "PIX" if a // 2 == b // 2 else "PHB"),),
    "NCCL's tree": (sockets(),),
    "Slurm's switches": (TWO_TIERS,),
    "Slurm's unequal switches": (UNEQUAL,),
    "Slurm's YAML": (YAML,),
    "a torus": (lists("Ring, Ring, Switch", "4, 4, 2", "25, 25.5, 10", "100, 0, 0.25"),),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_what_it_prints_is_a_cluster_file(program, name):
    files = [program.write(f"{at}.txt", text) for at, text in enumerate(CLUSTERS[name])]
    text = program.output("import", *files)
    levels = program.write("mine.yaml", text)
    devices = program.output("matrix", "--cluster", levels)
    assert text.startswith("# Imported from ") and devices


def test_nodes_select_a_part(program):
    program.write("topology.conf", UNEQUAL)
    words = ("topology.conf", "--nodes", "n[0-11,16-27,32-43]")
    text = program.output("import", *words, "--link", "UPLINK=1 Gbit/s per direction")
    assert text.count("count: ") == 2 and "count: 12\n" in text
    result = program.run("import", program.write("topo.txt", PCIE), "--nodes", "n0")
    assert result.returncode == 2
    assert "--nodes is for Slurm; the format of topo.txt is nvidia-smi" in result.stderr


def test_files_may_follow_options(program):
    for name in ("a.txt", "b.txt"):
        program.write(name, PCIE)
    text = program.output("import", "a.txt", "--link", "HOST=9 GB/s per direction", "b.txt")
    assert "in the planner's order: a,b." in text


@pytest.mark.parametrize("where", ["installed", "alone"])
def test_any_python_runs_the_module_that_is_installed_with_the_program(tmp_path, where):
    (tmp_path / "bin").mkdir()
    shutil.copy(ATP, tmp_path / "bin")
    own = tmp_path / "share/atp/python/atp"
    if where == "installed":
        shutil.copytree(REPOSITORY / "python/atp/topology", own / "topology")
        shutil.copy(REPOSITORY / "python/atp/__init__.py", own)
    before = set(own.rglob("*"))
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    (tmp_path / "topo.txt").write_text(PCIE)
    result = subprocess.run(
        [tmp_path / "bin/atp", "plan", "import", "topo.txt"],
        cwd=tmp_path,
        env={**os.environ, "ATP_PYTHON": str(bare)},
        capture_output=True,
        text=True,
    )
    if where == "installed":
        assert result.returncode == 0 and "host bridge" in result.stdout, result.stderr
        assert set(own.rglob("*")) == before  # no compiled files, which no package would remove
    else:
        assert result.returncode == 2
        assert "has no module atp; set ATP_PYTHON to a Python that has it" in result.stderr


def test_it_imports_no_torch(program):
    program.write("topo.txt", PCIE)
    python = program.folder / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -X importtime "$@"\n')
    python.chmod(0o755)
    result = subprocess.run(
        [ATP, "plan", "import", "topo.txt"],
        cwd=program.folder,
        env={**os.environ, "ATP_PYTHON": str(python)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0 and "atp.topology" in result.stderr
    assert "torch" not in result.stderr and "numpy" not in result.stderr
