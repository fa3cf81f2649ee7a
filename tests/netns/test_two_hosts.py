"""The two-machine recipe of docs/use/getting-started.md, line by line, on two hosts."""

import os
import re
import sys
from pathlib import Path

from lab.installed import make_installed
from lab.ranks import environment

REPOSITORY = Path(__file__).resolve().parents[2]


def recipe():
    """The commands of the page's blocks, by the label after ```sh."""
    text = (REPOSITORY / "docs" / "use" / "getting-started.md").read_text()
    return dict(re.findall(r"```sh (two-hosts:\S+)\n(.*?)```", text, re.DOTALL))


def test_the_recipe_for_two_machines_works(make_network):
    network = make_network("one", "two", subnet="10.0.0")
    hosts = {host.address: host for host in network.hosts.values()}
    path = f"{network.atp.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "OMP_NUM_THREADS": 1}
    started = {}
    blocks = recipe()
    assert len(blocks) == 3, blocks.keys()
    for label, commands in blocks.items():
        role, address = label.removeprefix("two-hosts:").split("@")
        if role == "services":
            commands += "wait\n"
        started[label] = hosts[address].start(
            "bash", "-e", "-c", f"cd {REPOSITORY}\n{commands}", env=env
        )
        if role == "services":
            network.wait_for_line(started[label], "server listening on 10.0.0.1:5500")
            network.wait_for_line(started[label], "switch listening on 10.0.0.1:5501")
    output = ""
    for label, process in started.items():
        if ":ranks@" in label:
            code, said = network.wait(process, 300)
            assert code == 0, said
            output += said
    for rank in range(4):
        assert f"rank {rank}" in output, output


SUMS = """
import datetime, torch, torch.distributed as dist, atp.torch
dist.init_process_group("atp", timeout=datetime.timedelta(seconds=60))
for dtype in (torch.float32, torch.int64):
    tensor = torch.ones(100_000, dtype=dtype)
    dist.all_reduce(tensor)
    assert tensor.eq(2).all()
print("all sums are right")
dist.destroy_process_group()
"""


def test_the_first_hosts_own_name_may_mean_loopback_there(make_network):
    """As Debian's and Ubuntu's installers write it into /etc/hosts."""
    network = make_network("one", "two", subnet="10.0.0")
    first, second = network.hosts.values()
    inside = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
    ranks = []
    for rank, (host, meaning) in enumerate(((first, "127.0.1.1"), (second, first.address))):
        names = Path(network.folder) / f"hosts-{rank}"
        names.write_text(f"127.0.0.1 localhost\n{meaning} node-a\n")
        words = ("unshare", "--mount", "sh", "-c", inside, "sh", names, sys.executable, "-c", SUMS)
        variables = {"MASTER_ADDR": "node-a", "GLOO_SOCKET_IFNAME": "", "ATP_ALGORITHM": "auto"}
        ranks.append(host.start(*words, env={**environment(rank, [first, second]), **variables}))
    for rank in ranks:
        code, said = network.wait(rank, 120)
        assert code == 0 and "all sums are right" in said, said


# As Ray Train does: its workers make the group, and only then load the user's function.
LAUNCHER = """
import datetime, sys
import torch, torch.distributed as dist
dist.init_process_group("atp", timeout=datetime.timedelta(seconds=60))
assert "atp.torch" in sys.modules
exec(sys.argv[1])
dist.destroy_process_group()
"""
TRAINING = """
assert dist.get_backend() == "atp"
tensor = torch.full((100_000,), float(dist.get_rank()))
dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
assert tensor.eq(1.5).all(), tensor
print("rank", dist.get_rank(), "has the mean", flush=True)
"""


def test_a_launcher_may_make_the_group_before_any_of_the_users_code_runs(make_network, tmp_path):
    """Two hosts, two ranks on each."""
    network = make_network("one", "two", subnet="10.0.0")
    hosts = [host for host in network.hosts.values() for _ in range(2)]
    variables = {"PYTHONPATH": make_installed(tmp_path), "ATP_ALGORITHM": "", "ATP_HOST_MEMORY": ""}
    words = (sys.executable, "-c", LAUNCHER, TRAINING)
    ranks = [
        host.start(*words, env={**environment(rank, hosts), **variables})
        for rank, host in enumerate(hosts)
    ]
    for number, rank in enumerate(ranks):
        code, said = network.wait(rank, 240)
        assert code == 0 and f"rank {number} has the mean" in said, said
