"""The Slurm scripts (docs/operate/deploy.md): checked by shellcheck, and run without Slurm.

The stand-in for srun runs its command once per node of the step, here, with the variables that
Slurm would set. The program atp is the real one, on a loopback address per node.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.ports import free_ports
from tests.e2e.conftest import BUILD, Process, wait_until

SCRIPTS = Path(__file__).resolve().parents[2] / "deploy" / "slurm"
SECONDS = 30

SRUN = f"""#!{sys.executable}
import os, signal, subprocess, sys

words = sys.argv[1:]
while words[0].startswith("--"):  # options, which all have the form --name or --name=value
    with open(os.environ["STAND_IN_LOG"], "a") as log:
        print("srun", words.pop(0), file=log)
nodes = os.environ["SLURM_JOB_NODELIST"].split(",")
tasks = [subprocess.Popen(words, env={{**os.environ, "SLURMD_NODENAME": n}}) for n in nodes]
signal.signal(signal.SIGTERM, lambda *_: [task.terminate() for task in tasks])
sys.exit(max(task.wait() for task in tasks))
"""

SCONTROL = """#!/usr/bin/env bash
case "$1 $2" in
  "show hostnames") printf '%s\\n' ${3//,/ } ;;
  "show node")
    echo "NodeName=$3 Arch=x86_64 CoresPerSocket=1"
    [ "$3" = nowhere ] || echo "   NodeAddr=127.0.1.${3#n} NodeHostName=$3 Version=24.05" ;;
  *) echo "scontrol: $*" >&2; exit 1 ;;
esac
"""


class Slurm:
    def __init__(self, folder):
        self.folder = folder
        self.log = folder / "stand-ins.log"
        self.started = []
        programs = folder / "bin"
        programs.mkdir()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.path = f"{programs}:{BUILD / 'bin'}:{os.environ['PATH']}"

    def environment(self, nodes, job, **variables):
        return {
            **os.environ,
            "PATH": self.path,
            "STAND_IN_LOG": str(self.log),
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_NODELIST": nodes,
            "SLURMD_NODENAME": nodes.split(",")[0],
            "SLURM_SUBMIT_DIR": str(self.folder),
            "ATP_SLURM": str(SCRIPTS),
            # All nodes are this machine, whose ranks would otherwise not need the network.
            "ATP_HOST_MEMORY": "0",
            **{name: str(value) for name, value in variables.items()},
        }

    def submit(self, script, nodes, job, *words, **variables):
        """As sbatch does it: a copy of the script runs on the first node."""
        copy = self.folder / f"slurm_script_{job}"
        copy.write_text((SCRIPTS / script).read_text())
        env = self.environment(nodes, job, **variables)
        process = Process(["bash", copy, *words], self.folder / f"slurm-{job}.out", env)
        self.started.append(process)
        return process


@pytest.fixture
def slurm(tmp_path):
    slurm = Slurm(tmp_path)
    yield slurm
    for process in slurm.started:
        if process.running():
            process.signal(signal.SIGTERM)
            process.wait(SECONDS)


@pytest.fixture
def services(slurm):
    """A switch on n1 and a server on n2, as their scripts start them."""
    switch_port, server_port = free_ports(2)
    slurm.switch = slurm.submit(
        "switch.sbatch", "n1", 11, "--upstream", "127.0.0.0/8", ATP_SWITCH_PORT=switch_port
    )
    slurm.server = slurm.submit("server.sbatch", "n2", 12, ATP_SERVER_PORT=server_port)
    slurm.addresses = f"127.0.1.1:{switch_port}", f"127.0.1.2:{server_port}"
    for process, address in zip((slurm.switch, slurm.server), slurm.addresses, strict=True):
        wait_until(
            lambda process=process, address=address: f"listening on {address}" in process.output()
        )
    cluster = slurm.folder / "cluster.yaml"
    cluster.write_text(
        f"racks:\n  - name: r\n    switch: {{host: n1, port: {switch_port}}}\n    hosts:\n"
        + "".join(
            f"      - {{name: n{n}, address: 127.0.1.{n}{', ranks: 2' if n > 2 else ''}}}\n"
            for n in range(1, 5)
        )
        + f"servers: [{{host: n2, port: {server_port}}}]\n"
    )
    slurm.cluster = cluster
    return slurm


def test_shellcheck_finds_nothing():
    shellcheck = Path(sys.executable).parent / "shellcheck"
    files = sorted(SCRIPTS.iterdir())
    assert [f.name for f in files] == [
        *("job.sbatch", "node-address", "server.sbatch", "service", "switch.sbatch")
    ]
    repository = SCRIPTS.parents[1]
    done = subprocess.run(
        [shellcheck, "--external-sources", "--shell=bash", *files],
        capture_output=True, text=True, cwd=repository,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", ["job.sbatch", "server.sbatch", "switch.sbatch"])
def test_the_directives_are_where_sbatch_reads_them(script):
    """It reads them up to the first line that is neither a comment nor empty."""
    lines = (SCRIPTS / script).read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    directives = [line for line in lines if line.startswith("#SBATCH")]
    assert directives and directives == [
        line for line in lines[:first] if line.startswith("#SBATCH")
    ]
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line) for line in directives)


@pytest.mark.parametrize("script", ["server.sbatch", "switch.sbatch"])
def test_the_drain_begins_as_long_before_the_time_limit_as_slurm_allows(script):
    """sbatch refuses more than 16 bits of seconds: "Invalid --signal specification"."""
    (seconds,) = re.findall(r"#SBATCH --signal=B:USR1@(\d+)", (SCRIPTS / script).read_text())
    assert 12 * 3600 <= int(seconds) <= 65535
    # So a service outlives every job that it takes.
    (hours,) = re.findall(r"#SBATCH --time=(\d+):00:00", (SCRIPTS / "job.sbatch").read_text())
    assert int(hours) * 3600 <= int(seconds)


def test_a_job_over_two_nodes_sums_through_the_switch_and_the_server(services):
    bench = ["atp", "bench", "allreduce", "-b", "64K", "-e", "64K", "-n", "5"]
    job = services.submit("job.sbatch", "n3,n4", 77, services.cluster, *bench)
    assert job.wait(SECONDS) == 0, job.output()
    route = " > ".join(services.addresses)
    assert f"4 ranks, route {route}" in job.output()
    assert "# Out of bounds values : 0 OK" in job.output()
    assert job.output().count("started 2 of 4 ranks of job 77") == 2


def test_a_requeued_job_is_another_incarnation(services):
    show = ["sh", "-c", 'echo "rank $RANK: $ATP_JOB/$ATP_INCARNATION"']
    for restarts, incarnation in (("", 1), ("0", 1), ("3", 4)):
        job = services.submit(
            "job.sbatch", "n3,n4", 78, services.cluster, *show, SLURM_RESTART_COUNT=restarts
        )  # fmt: skip
        assert job.wait(SECONDS) == 0, job.output()
        said = {line for line in job.output().splitlines() if line.startswith("rank ")}
        assert {f"rank {rank}: 78/{incarnation}" for rank in range(4)} <= said


def test_a_job_that_fails_ends_with_the_rank_s_code(services):
    job = services.submit(
        "job.sbatch", "n3,n4", 79,
        services.cluster, "sh", "-c", "exit $((RANK == 3 ? 7 : 0))",
    )  # fmt: skip
    assert job.wait(SECONDS) == 7, job.output()


def test_before_the_time_limit_a_service_drains(services):
    bench = ["atp", "bench", "allreduce", "-b", "64K", "-e", "64K", "-n", "1000000"]
    job = services.submit("job.sbatch", "n3,n4", 80, services.cluster, *bench)
    wait_until(lambda: "values per fragment" in job.output(), "the job")
    services.server.signal(signal.SIGUSR1)  # --signal=B:USR1@64800
    wait_until(lambda: "draining, 1 job left" in services.server.output(), "the drain", SECONDS)
    time.sleep(1)
    assert services.server.running() and job.running()
    assert "srun --overlap" in services.log.read_text()
    job.signal(signal.SIGTERM)
    job.wait(SECONDS)
    assert services.server.wait(SECONDS) == 0, services.server.output()
    assert "drained: ended" in services.server.output()


def test_a_service_ends_when_its_slurm_job_is_cancelled(services):
    services.switch.signal(signal.SIGTERM)
    assert services.switch.wait(SECONDS) == 0, services.switch.output()
    assert "stopped by SIGTERM" in services.switch.output()


def test_a_service_that_fails_fails_its_slurm_job(slurm):
    server = slurm.submit("server.sbatch", "n2", 13, ATP_SERVER_PORT=99999)
    assert server.wait(SECONDS) == 2, server.output()


@pytest.mark.parametrize(
    ("script", "nodes", "words", "message"),
    [
        ("switch.sbatch", "n1", ["--upstream", "somewhere"], "--upstream"),
        ("job.sbatch", "n1", ["no-such.yaml", "true"], "no-such.yaml"),
        ("server.sbatch", "nowhere", [], "scontrol show node nowhere shows no NodeAddr"),
    ],
)
def test_what_is_missing_is_named(slurm, script, nodes, words, message):
    process = slurm.submit(script, nodes, 14, *words)
    assert process.wait(SECONDS) != 0
    assert message in process.output()


@pytest.mark.parametrize(("words", "found"), [([], "nothing"), (["cluster.yaml"], "cluster.yaml")])
def test_a_job_without_a_program_says_so(slurm, words, found):
    job = slurm.submit("job.sbatch", "n1", 15, *words)
    assert job.wait(SECONDS) == 2
    assert f"expected a cluster file and a program, found {found}; for" in job.output()
