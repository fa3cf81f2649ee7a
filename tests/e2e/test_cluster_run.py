"""`atp run --cluster`: three racks on loopback, and errors in a file or its use."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from lab.ports import free_ports
from tests.pages import shown

from .conftest import REPOSITORY
from .racks import ATP, LIMIT_S, RACKS, Cluster


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    for process in cluster.processes:
        process.terminate()
    for process in cluster.processes:
        process.wait(LIMIT_S)


BENCH = ("--", ATP, "bench", "allreduce", "-b", "256K", "-e", "256K", "-n", "3")


def test_two_jobs_run_over_three_racks_from_each_hosts_part_of_the_file(cluster):
    services = cluster.serve("s1", "s0", "a0", "b0")
    jobs = [
        [cluster.start(host, "--job", str(job), "--incarnation", "1", *BENCH) for host in hosts]
        for job, hosts in ((1, ("a1", "b1")), (2, ("b1", "a1")))
    ]
    for job in jobs:
        for part in job:
            assert part.wait(LIMIT_S) == 0, part.log.read_text()
    for service in services:
        assert service.poll() is None, service.log.read_text()
    said = "".join(part.log.read_text() for job in jobs for part in job)
    ends = [f"127.0.{number}:{cluster.port}" for number in ("1.1", "3.1", "3.2")]
    assert f"4 ranks, route {' > '.join(ends)}" in said
    assert said.count("# Out of bounds values : 0 OK") == 2


def test_docs_status_md_shows_how_a_job_failed(cluster):
    cluster.serve("s1", "s0", "a0", "b0")
    bench = f"exec {ATP} bench allreduce -b 1M -e 1M -n 1000000 -w 0"
    script = f"[ $RANK = 1 ] && {{ (sleep 2; kill -9 $$) & }}; {bench}"
    for host in ("a1", "b1"):
        cluster.start(host, "--job", "7", "--incarnation", "1", "--", "sh", "-c", script)
    (line,) = shown("docs/operate/status.md", "job 7 failed").splitlines()
    end = time.monotonic() + LIMIT_S
    printed = []
    while not printed:
        assert time.monotonic() < end, "the failure is not reported"
        said = subprocess.run(
            [ATP, "status", f"127.0.3.2:{cluster.port}"], capture_output=True, text=True
        ).stdout
        printed = [one for one in said.splitlines() if one.startswith("  job 7 failed ")]
        time.sleep(0.1)
    varies = re.compile(r"[\d.]+(?= s ago)|(?<=\()[\d.]+(?=\))")
    assert varies.sub("…", printed[0]) == varies.sub("…", line)


def test_racks_may_be_below_a_rack_and_then_three_switches_sum(cluster):
    spine = (
        f"  - name: p\n    uplink: core\n    switch: {{host: p0, port: {cluster.port}}}\n"
        "    hosts: [{name: p0, address: 127.0.5.1}]\n"
    )
    text = cluster.file.read_text().replace("uplink: core", "uplink: p", 2)
    cluster.file.write_text(text.replace("servers:", spine + "servers:"))
    cluster.serve("s1", "s0", "p0", "a0", "b0")
    job = [cluster.start(host, "--incarnation", "1", *BENCH) for host in ("a1", "b1")]
    for part in job:
        assert part.wait(LIMIT_S) == 0, part.log.read_text()
    ends = [f"127.0.{number}:{cluster.port}" for number in ("1.1", "5.1", "3.1", "3.2")]
    said = job[0].log.read_text()
    assert f"route {' > '.join(ends)}" in said
    assert "# Out of bounds values : 0 OK" in said


def test_a_host_may_start_its_services_with_its_ranks(cluster):
    port, server_port = free_ports(2)
    cluster.file.write_text(
        f"racks:\n  - name: r\n    switch: {{host: h, port: {port}}}\n"
        f"    hosts: [{{name: h, address: 127.0.4.1, ranks: 2}}]\n"
        f"servers: [{{host: h, port: {server_port}}}]\n"
    )
    job = cluster.start("h", "--services", *BENCH)
    assert job.wait(LIMIT_S) == 0, job.log.read_text()
    said = job.log.read_text()
    assert f"2 ranks, route 127.0.4.1:{port} > 127.0.4.1:{server_port}" in said
    assert "# Out of bounds values : 0 OK" in said


def test_a_service_that_dies_is_started_again(cluster):
    (service,) = cluster.serve("a0")
    pid = int(re.search(r"process (\d+)", service.log.read_text())[1])
    os.kill(pid, 9)
    cluster.wait_for(service, "was killed by signal 9")
    end = time.monotonic() + LIMIT_S
    while service.log.read_text().count(f"switch-a on 127.0.1.1:{cluster.port}") < 2:
        assert time.monotonic() < end, service.log.read_text()
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_host_that_only_serves_says_which_signal_has_stopped_it(cluster, number):
    (service,) = cluster.serve("a0")
    service.send_signal(number)
    assert service.wait(LIMIT_S) == 0
    assert service.log.read_text().count(f"stopping: {number.name}") == 1


def test_a_hangup_reaches_the_nodes_of_a_host_that_only_serves_and_ends_nothing(cluster):
    (service,) = cluster.serve("a0")
    service.send_signal(signal.SIGHUP)
    cluster.wait_for(service, "there is nothing to read again")
    service.send_signal(signal.SIGTERM)
    assert service.wait(LIMIT_S) == 0
    assert service.log.read_text().count("stopping: ") == 1


def test_a_hangup_reaches_only_nodes_that_have_something_to_read_again(cluster):
    (port,) = free_ports(1)
    server = f"{{host: a0, port: {port}}}"
    text = cluster.file.read_text().replace("servers: [", f"servers: [{server}, ")
    cluster.file.write_text(text + "jobs: [{job: 7, weight: 3}]\n")
    (service,) = cluster.serve("a0")
    service.send_signal(signal.SIGHUP)
    cluster.wait_for(service, f"read the weights of jobs from {cluster.file} again: 1 entry")
    assert "nothing to read again" not in service.log.read_text()


def parts_at(cluster, *hosts):
    """{job: its part} at each host's switch, once the jobs hold aggregators there."""
    addresses = {"a0": "127.0.1.1", "b0": "127.0.2.1", "s0": "127.0.3.1"}
    asked = [[ATP, "status", f"{addresses[host]}:{cluster.port}", "--json"] for host in hosts]
    said = [json.loads(subprocess.run(one, capture_output=True, text=True).stdout) for one in asked]
    return [
        {j["job"]: j["aggregators"]["part"] for j in one["jobs"] if j["aggregators"]["gradients"]}
        for one in said
    ]


def test_the_clusters_file_gives_jobs_weights_at_every_switch(cluster):
    text = cluster.file.read_text().replace("port:", "aggregators: 16, port:", 3)
    weights = "jobs:\n  - {job: 7, weight: 3}\n  - {job: 100-199, weight: 15}\n"
    cluster.file.write_text(text + weights)
    switch, *_ = cluster.serve("a0", "b0", "s0", "s1")
    endless = ("--", ATP, "bench", "allreduce", "-b", "256K", "-e", "256K", "-n", "1000000")

    def start(job):
        hosts = ("a1", "b1")
        return [cluster.start(h, "--job", str(job), "--incarnation", "1", *endless) for h in hosts]

    def wait_for_parts(expected):
        end = time.monotonic() + LIMIT_S
        while (found := parts_at(cluster, "a0", "b0", "s0")) != [expected] * 3:
            assert time.monotonic() < end, (found, [p.log.read_text() for p in cluster.processes])
            time.sleep(0.1)

    seventh = start(7)
    start(1)
    wait_for_parts({1: 4, 7: 12})
    address = f"127.0.1.1:{cluster.port}"
    assert (
        "(weight 3)"
        in subprocess.run([ATP, "status", address], capture_output=True, text=True).stdout
    )

    # A job that begins after the switches have read the file again has the weight in it.
    for part in seventh:
        part.send_signal(signal.SIGTERM)
    cluster.file.write_text(text + weights.replace("100-199", "8"))
    for service in cluster.processes[:4]:
        service.send_signal(signal.SIGHUP)
    cluster.wait_for(switch, f"read the weights of jobs from {cluster.file} again: 2 entries")
    for part in seventh:
        part.wait(LIMIT_S)
    start(8)
    wait_for_parts({1: 1, 8: 15})


def test_weights_that_the_switches_could_not_read_again_are_refused(cluster):
    text = cluster.file.read_text() + "jobs: [{job: 7, weight: 3}]\n"
    command = [ATP, "run", "--cluster", "-", "--host", "a0"]
    refused = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LIMIT_S)
    assert refused.returncode == 2
    assert "standard input cannot be read again" in refused.stderr


def test_a_taken_port_is_named(cluster):
    cluster.serve("a0")
    second = cluster.start("a0")
    assert second.wait(LIMIT_S) == 1
    said = second.log.read_text()
    address = f"127.0.1.1:{cluster.port}"
    assert f"cannot listen on {address}: address already in use; `atp status {address}`" in said
    assert "`port:` in the cluster file" in said
    assert f"cannot start switch-a on {address}" in said
    asked = [ATP, "status", address]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=LIMIT_S)
    assert told.stdout.startswith(f"switch {address}"), told.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--host", "a9"], 'has no host "a9"; did you mean a0?', id="unknown host"),
        pytest.param(["--host", "a1"], "has no switch and no server on host a1", id="no services"),
        pytest.param([], "has the addresses of 0 hosts", id="no host named, and none is this one"),
        pytest.param(
            ["--host", "a0", "true"], "host a0 has no ranks of this job, which runs on a1, b1",
            id="no ranks",
        ),
        pytest.param(
            ["--host", "a1", "--hosts", "a1,b2", "true"], 'has no host "b2"; did you mean b0?',
            id="unknown host of the job",
        ),
        pytest.param(
            ["--host", "a1", "--hosts", "a1,a1", "true"], "a1 is listed twice", id="host twice"
        ),
        pytest.param(
            ["--host", "a1", "--hosts", "", "true"], "--hosts: found an empty value", id="no hosts"
        ),
        pytest.param(
            ["--host", "a1", "--hosts", "a1,", "true"], "found an empty name among the job's hosts",
            id="a comma too many",
        ),
        *(
            pytest.param(
                ["--host", "a1", option, number, "true"],
                f"{option}: found {number}, expected a whole number from 0 to 4294967295",
                id=f"{option} {number}",
            )
            for option in ("--job", "--incarnation") for number in ("-1", "4294967296")
        ),
        *(
            pytest.param(
                ["--host", "a0", option, "10.0.0.0/33"], f"{option} '10.0.0.0/33' is not a network",
                id=f"{option} of no network",
            )
            for option in ("--status-from", "--drain-from")
        ),
        pytest.param(
            ["-n", "2", "true"], "--cluster cannot be combined with --ranks", id="ranks in two ways"
        ),
    ],
)  # fmt: skip
def test_wrong_use_ends_with_code_2_and_one_line(tmp_path, arguments, message):
    file = tmp_path / "cluster.yaml"
    file.write_text(RACKS)
    command = [ATP, "run", "--cluster", file, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_is_shown_with_what_each_host_gets(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(RACKS)
    result = subprocess.run(
        [ATP, "cluster", file], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert "a0 (127.0.1.1, rack a)\n  switch-a on 127.0.1.1:5501\n" in result.stdout
    route = "127.0.1.1:5501,127.0.3.1:5501,127.0.3.2:5500"
    assert f"a1 (127.0.1.2, rack a)\n  2 ranks, route {route}\n" in result.stdout
    result = subprocess.run(
        [ATP, "cluster", file, "--json"], capture_output=True, text=True, timeout=LIMIT_S
    )
    hosts = {host["name"]: host for host in json.loads(result.stdout)["hosts"]}
    assert hosts["a1"]["route"] == route
    assert hosts["s1"]["services"][0]["address"] == "127.0.3.2:5500"


def test_a_file_is_played_by_the_simulator():
    file = REPOSITORY / "examples" / "clusters" / "two-racks-and-servers.yaml"
    result = subprocess.run(
        [ATP, "sim", "--cluster", file, "--fragments", "200"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert result.returncode == 0, result.stderr
    assert "8 ranks on 8 hosts, 3 switches" in result.stdout
    # A packet for each fragment, to one server or the other; one packet at each has exponents.
    for server in ("s1", "s2"):
        assert f"server {server}: 101 gradients" in result.stdout
    assert "summed in the switches: 202 of 202 fragments" in result.stdout
    # 200 packets of 1514 bytes over 25 Gbit/s take 97 us; the window takes some round trips.
    ms = float(re.search(r"([0-9.]+) ms, ", result.stdout)[1])
    assert 0.1 < ms < 1


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        pytest.param(
            "name: a\n    uplink: core", "name: a\n    uplink: a",
            "cluster.yaml:3: racks[0].uplink: its uplink leads back to itself (a > a)", id="a loop",
        ),
        pytest.param(
            "servers: [s1]", "servers: [s2]",
            'cluster.yaml:20: servers[0]: unknown host: cluster.yaml has no host "s2"',
            id="an unknown host",
        ),
        pytest.param(
            "127.0.2.2", "127.0.1.2",
            'cluster.yaml:13: racks[1].hosts[1].address: "127.0.1.2" is already used by',
            id="an address twice",
        ),
        pytest.param(
            "name: b\n    uplink: core\n", "name: b\n",
            "racks[1].uplink: is missing", id="a rack without an uplink",
        ),
        pytest.param(
            "racks:", "links: {host: {bandwidth: 10}}\nracks:",
            'cluster.yaml:1: links.host.bandwidth: found "10" without a unit', id="no unit",
        ),
    ],
)  # fmt: skip
def test_a_wrong_file_is_named_by_line_and_key(tmp_path, right, wrong, message):
    assert RACKS.count(right) >= 1
    (tmp_path / "cluster.yaml").write_text(RACKS.replace(right, wrong, 1))
    command = [ATP, "run", "--cluster", "cluster.yaml", "--host", "a0"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert result.returncode == 2
    assert result.stderr.startswith(f"atp run: {message}") or message in result.stderr
    assert result.stderr.count("\n") == 1
