"""The commands that pages show for several hosts, typed in namespaces that have the hosts' names.

They are in docs/use/cluster.md, docs/operate/operations.md, docs/operate/status.md and
docs/operate/view.md. A stand-in for ssh runs them on the host that it names.
"""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.e2e.conftest import Process, wait_until
from tests.pages import blocks, command_line

from .conftest import ATP, REPOSITORY

SECONDS = 60
SITE = """\
name: the hosts of the pages
racks:
  - name: a
    uplink: core
    switch: a0
    hosts:
      - {name: a0, address: 10.0.1.10}
      - {name: a1, address: 10.0.1.11}
      - {name: a2, address: 10.0.1.12}
  - name: b
    uplink: core
    switch: b0
    hosts:
      - {name: b0, address: 10.0.2.10}
      - {name: b1, address: 10.0.2.11}
      - {name: b2, address: 10.0.2.12}
  - name: servers
    uplink: core
    switch: s0
    hosts:
      - {name: s0, address: 10.0.3.10}
      - {name: s1, address: 10.0.3.11}
  - name: operators
    uplink: core
    hosts:
      - {name: ops1, address: 10.0.7.5, ranks: 0}
      - {name: rack1, address: 10.0.0.1, ranks: 0}
servers: [s1]
"""
TRAIN = """
import torch, torch.distributed as dist, atp.torch
dist.init_process_group("atp")
value = torch.full((100_000,), dist.get_rank() + 1.0)  # 1000 would bypass the switches
dist.all_reduce(value)
print(f"{dist.get_world_size()} ranks, sum {value[0]:.0f}", flush=True)
dist.destroy_process_group()
"""
# Joins the words for the host's shell, as ssh does. With -L the tunnel's end is on that host.
SSH = """#!{python}
import subprocess, sys
enter = {enter}
words = sys.argv[3:] if sys.argv[1] == "-L" else sys.argv[1:]
sys.exit(subprocess.call([*enter[words[0]], "sh", "-c", " ".join(words[1:])]))
"""
FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())"


class Hosts:
    """The hosts of SITE, and a shell on each and on the operator's own machine."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "of-etc.yaml"  # the pages' /etc/atp/cluster.yaml
        self.file.write_text(SITE)
        (folder / "train.py").write_text(TRAIN)
        self.cluster = Cluster(folder, ATP, self.file)
        hosts = self.cluster.network.hosts
        programs = folder / "bin"
        programs.mkdir()
        enter = {name: host.command() for name, host in hosts.items()}
        (programs / "ssh").write_text(SSH.format(python=sys.executable, enter=enter))
        (programs / "ssh").chmod(0o755)
        path = [programs, ATP.parent, Path(sys.executable).parent, os.environ["PATH"]]
        self.environment = {
            "PATH": ":".join(map(str, path)),
            "PYTHONPATH": f"{REPOSITORY / 'python'}:{os.environ.get('PYTHONPATH', '')}",
            "OMP_NUM_THREADS": "1",
            "ATP_ALGORITHM": "innetwork",
        }
        self.started = []

    def type(self, line, host=None):
        """Starts a line of a page on a host; without one, on the operator's machine."""
        line = line.replace("/etc/atp/cluster.yaml", str(self.file))
        words = ["bash", "-c", f"cd {self.folder} && {line}"]
        enter = [] if host is None else self.cluster[host].command()
        log = self.folder / f"{len(self.started)}.log"
        process = Process([*enter, *words], log, self.environment)
        self.started.append(process)
        return process

    def says(self, line, host=None, code=0):
        process = self.type(line, host)
        assert process.wait(SECONDS) == code, process.output()
        return process.output()

    def delete(self):
        self.cluster.delete()
        for process in self.started:
            process.kill()


@pytest.fixture
def hosts(tmp_path, needs_namespaces):
    hosts = Hosts(tmp_path)
    yield hosts
    hosts.delete()


def start_services(hosts, *names):
    """As docs/operate/operations.md starts those of a0; those of the other hosts likewise."""
    line = command_line("docs/operate/operations.md", "ssh a0")
    logs = []
    for host in names:
        hosts.says(line.replace("a0", host).replace("atp.log", f"{host}.log"))
        logs.append(hosts.folder / f"{host}.log")
    ready = re.search(
        r"`host a0 (is ready)`", (REPOSITORY / "docs/operate/operations.md").read_text()
    )[1]
    wait_until(lambda: all(ready in log.read_text() for log in logs), "the services")


def outputs(hosts, line, names):
    """Everything that the line prints, run with each of these names in place of a1."""
    ranks = [hosts.type(line.replace("--host a1", f"--host {name}"), name) for name in names]
    assert [rank.wait(SECONDS) for rank in ranks] == [0] * len(ranks), ranks[0].output()
    return [rank.output() for rank in ranks]


def test_services_that_ssh_starts_sum_for_a_job_over_four_hosts(hosts):
    start_services(hosts, *hosts.cluster.service_hosts)
    line = command_line(
        "docs/operate/operations.md", "atp run --cluster /etc/atp/cluster.yaml --host a1"
    )
    names = re.search(r"--hosts (\S+)", line)[1].split(",")
    for output in outputs(hosts, line, names):
        assert "4 ranks, sum 10" in output
    # On the page, rack1 asks its own switch; here a0 does.
    line = command_line("docs/operate/status.md", "ssh rack1")
    said = hosts.says(line.replace("rack1", "a0").replace("10.0.0.1", "10.0.1.10"))
    assert said.startswith("switch 10.0.1.10:5501 (atp ")
    assert "0 sums completed" not in said


def test_a_job_over_the_hosts_of_the_cluster_page(hosts):
    (file,) = [block.text for block in blocks("docs/use/cluster.md") if block.language == "yaml"]
    (hosts.folder / "cluster.yaml").write_text(file.replace("ranks: 4", "ranks: 1"))
    hosts.file = hosts.folder / "cluster.yaml"
    start_services(hosts, "a0", "s0", "s1")
    (block,) = [one.text for one in blocks("docs/use/cluster.md") if "--host a2" in one.text]
    typed = [re.fullmatch(r"(atp run .*train\.py) +# on (\w+)", one) for one in block.splitlines()]
    ranks = [hosts.type(one[1], one[2]) for one in typed]
    for rank in ranks:
        assert rank.wait(SECONDS) == 0, rank.output()
        assert "2 ranks, sum 3" in rank.output()


def test_the_networks_of_status_from_are_answered_and_no_others(hosts):
    line = command_line("docs/operate/status.md", "atp switch … --status-from").partition("#")[0]
    nodes = "--listen 10.0.0.1:5501 --upstream 10.0.3.11/32"
    switch = hosts.type(line.replace("…", nodes), "rack1")
    wait_until(lambda: "listening on" in switch.output(), "the switch")
    assert hosts.says("atp status 10.0.0.1:5501", "ops1").startswith("switch 10.0.0.1:5501")
    hosts.says("atp status 10.0.0.1:5501", "a1", code=1)
    assert hosts.says(command_line("docs/operate/status.md", "ssh rack1")).startswith(
        "switch 10.0.0.1"
    )


def test_the_view_of_another_network_shows_the_nodes_that_may_be_asked(hosts):
    line = command_line(
        "docs/operate/view.md", "atp run --cluster /etc/atp/cluster.yaml --status-from"
    )
    asked = hosts.type(line, "a0")
    unasked = hosts.type(line.partition(" --status-from")[0], "b0")
    for process in (asked, unasked):
        wait_until(lambda process=process: "is ready" in process.output(), "the services")
    line = command_line("docs/operate/view.md", "ssh -L")
    view = hosts.type(line)
    wait_until(lambda: "http://" in view.output(), "the view")
    end = shlex.split(line)[2].partition(":")[2]
    fetch = shlex.join([sys.executable, "-c", FETCH, f"http://{end}/view.json"])

    def states():
        view = json.loads(hosts.says(fetch, "ops1")) or {"nodes": []}
        states = {one["host"]: one["state"] for one in view["nodes"]}
        return states if "unknown" not in states.values() else None

    found = wait_until(states, "answers")
    assert (found["a0"], found["b0"], found["s0"]) == ("up", "refuses", "dead")
