"""Jobs come and go through one switch and one server, some without saying goodbye.

tests/virtual_network/many_jobs_test.cc plays ten thousand of them under virtual time.
"""

import json
import subprocess
from pathlib import Path

SECONDS = 30
JOBS = 24


def resident_kib(process):
    for line in Path(f"/proc/{process.popen.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def jobs_at(cluster, address):
    result = subprocess.run(
        [cluster.atp, "status", address, "--json"], capture_output=True, text=True, timeout=SECONDS
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["jobs"]


def test_the_last_job_is_served_like_the_first(cluster):
    server = cluster.start_server()
    switch = cluster.start_switch()
    memory = {}
    for number in range(JOBS):
        cluster.job = 1000 + number
        dies = number % 8 == 7
        command = (
            cluster.endless_bench() if dies else cluster.bench("-b", "64K", "-e", "64K", "-n", "3")
        )
        ranks = [cluster.start_rank(r, 2, command, f"job {number} rank {r}") for r in range(2)]
        if dies:
            cluster.wait_until(
                lambda ranks=ranks: "values per fragment" in ranks[0].output(), "a job", SECONDS
            )
            for rank in ranks:
                rank.kill()
            continue
        for rank in ranks:
            assert rank.wait(SECONDS) == 0, rank.output()
        assert "# Out of bounds values : 0 OK" in ranks[0].output()
        if number == JOBS // 2:
            memory = {node: resident_kib(node) for node in (server, switch)}
    for address in (cluster.server_address, cluster.switch_address):
        cluster.wait_until(
            lambda address=address: not jobs_at(cluster, address), "the last lease", SECONDS
        )
    for node, before in memory.items():
        # A job takes 9 MiB of the server, and a killed one stays for a lease, beside later ones;
        # buffers of up to 8 MiB fill as bursts come.
        assert resident_kib(node) < before + 32768, "KiB, when as many jobs again have gone"
