"""Runs jobs and TCP flows on one shaped link of a lab network, and measures their shares."""

import json
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from experiments.report import REPOSITORY
from lab.network import Network

K = 350
MIB = 1 << 20
WIRE = (4 * K + 48 + 42) / (4 * K)  # bytes on the wire per byte of gradients, Ethernet included
PAPERS_SWITCH = ("--places", 1, "--first-come")  # beside workers with the policy "paper"


@dataclass
class Link:
    mbit: int = 50
    queue_bytes: int = 100_000  # as in a port of an ordinary switch: 16 ms


@dataclass
class Outcome:
    goodput: list[float]  # Mbit/s of gradients, by job
    tcp: float = 0.0  # Mbit/s, all flows together
    verified: bool = True  # every sum of every job was correct
    text: str = field(default="", repr=False)


def counters_of(outcome):
    """Those that the ranks have printed, added up."""
    found = Counter()
    for name, value in re.findall(r"^# +(\w+) (\d+)$", outcome.text, re.MULTILINE):
        found[name] += int(value)
    return found


def cuts(outcome):
    """How often windows were cut; without congestion control they never are."""
    counters = counters_of(outcome)
    return counters["window_cuts_ecn"] + counters["window_cuts_loss"]


def start_node(network, atp, host, role, *options, interval=0.1):
    """Starts a switch or server; returns its file of counters, a line per `interval` seconds."""
    port = {"server": 5500, "switch": 5501}[role]
    stats = Path(network.folder) / f"{host}.jsonl"
    node = network[host].start(
        *(atp, role, "--listen", f"{network[host].address}:{port}", "--values", K),
        *("--stats", stats, "--stats-interval", interval, *options),
    )
    network.wait_for_line(node, "listening on")
    return stats


def start_ranks(network, atp, job, hosts, server, iterations, policy, program=None):
    """Starts `atp bench`, or a program that says in the same way that its sums were right."""
    route = f"{network['switch'].address}:5501,{network[server].address}:5500"
    size = ("-b", MIB, "-e", MIB, "-n", iterations, "-w", 1, "--counters")
    return [
        network[host].start(
            *(program or (atp, "bench", "allreduce", *size)),
            env={
                "RANK": rank,
                "WORLD_SIZE": len(hosts),
                "ATP_JOB": job,
                "ATP_INCARNATION": 1,
                "ATP_ROUTE": route,
                "ATP_VALUES_PER_FRAGMENT": K,
                "ATP_CONGESTION": policy,
            },
        )
        for rank, host in enumerate(hosts)
    ]


def completed(stats):
    """Fragments that a server has completed, from its last line of counters."""
    lines = stats.read_text().rpartition("\n")[0].splitlines()  # without an incomplete line
    return json.loads(lines[-1])["counters"]["fragments_completed"] if lines else 0


def received(flow):
    """The time of the TCP receiver's last report, and its bytes."""
    moment, count = flow.log.read_text().rpartition("\n")[0].splitlines()[-1].split()
    return float(moment), int(count)


def start_flows(network, sender, receiver, count):
    env = {"PYTHONPATH": REPOSITORY}
    program = (sys.executable, "-m", "lab.tcp_flows")
    address = network[receiver].address
    flow = network[receiver].start(*program, "receive", address, 7000, env=env)
    network.wait_for_line(flow, "listening")
    network[sender].start(*program, "send", address, 7000, count, env=env)
    return flow


def wait_until_begun(jobs_stats, seconds=60):
    """Waits until each job has a scale that fits its gradients, after its first two results."""
    before = [2 * MIB // (4 * K)] * len(jobs_stats)
    end = time.monotonic() + seconds
    while any(completed(stats) <= count for stats, count in zip(jobs_stats, before, strict=True)):
        if time.monotonic() > end:
            raise RuntimeError(f"no fragment within {seconds} s")
        time.sleep(0.05)


def measure(network, stats, ranks, flow, seconds):
    """The shares of jobs and flows while all jobs ran, from two seconds after the start."""
    time.sleep(2)
    begin, fragments = time.monotonic(), [completed(s) for s in stats]
    moment = received(flow) if flow else None
    while time.monotonic() < begin + seconds and all(r.poll() is None for r in ranks):
        time.sleep(0.05)
    took = time.monotonic() - begin
    bits = 8 * 4 * K / 1e6
    goodput = [
        (completed(s) - before) * bits / took for s, before in zip(stats, fragments, strict=True)
    ]
    tcp = 0.0
    if flow:
        later = received(flow)
        tcp = 8 * (later[1] - moment[1]) / 1e6 / (later[0] - moment[0])
    return Outcome(goodput, tcp)


def verify(network, ranks, outcome, seconds, jobs=1):
    """Every rank checks every element of every result; rank 0 reports how many were wrong."""
    codes = []
    for rank in ranks:
        code, text = network.wait(rank, seconds)
        outcome.text += text
        codes.append(code)
    right = outcome.text.count("Out of bounds values : 0 OK")
    outcome.verified = right == jobs and not any(codes)
    return outcome


def job_beside_flows(folder, atp, flows, direction, policy, link, seconds, workers=2, program=None):
    """A job whose rank 0 shares its link, in one direction, with cubic flows."""
    names = ["switch", "server", "peer", *[f"w{rank}" for rank in range(workers)]]
    with Network(folder, {"rack": names}) as network:
        for name in names:
            middle = name in ("switch", "server", "peer")
            network.shape_host(
                name,
                link.mbit * (2 * workers if middle else 1),
                8_000_000 if middle else link.queue_bytes,
            )
        network.without_segmentation()  # queues hold packets, as in a switch, not trains
        server = start_node(network, atp, "server", "server")
        rules = PAPERS_SWITCH if policy == "paper" else ()
        above = f"{network['server'].address}/32"
        start_node(network, atp, "switch", "switch", "--upstream", above, *rules)
        ends = ("w0", "peer") if direction == "up" else ("peer", "w0")
        flow = start_flows(network, *ends, flows) if flows else None
        time.sleep(2 if flows else 0)
        share = link.mbit / WIRE / (flows + 1)
        iterations = int(share * 1e6 / 8 * (seconds + 3) / MIB) + 1
        hosts = [f"w{rank}" for rank in range(workers)]
        ranks = start_ranks(network, atp, 1, hosts, "server", iterations, policy, program)
        wait_until_begun([server])
        outcome = measure(network, [server], ranks, flow, seconds)
        return verify(network, ranks, outcome, 10 * seconds + 30)


def equal_jobs(folder, atp, jobs, policy, link, seconds, workers=2):
    """Jobs with separate servers behind one switch, whose uplink they share."""
    hosts = [[f"j{job}w{rank}" for rank in range(workers)] for job in range(jobs)]
    servers = [f"server{job}" for job in range(jobs)]
    racks = {"left": ["switch", *sum(hosts, [])], "right": servers}
    with Network(folder, racks) as network:
        network.shape_uplink("left", link.mbit, link.queue_bytes)
        network.without_segmentation()
        stats = [start_node(network, atp, server, "server") for server in servers]
        start_node(network, atp, "switch", "switch", "--upstream", f"{network.subnet}.0/24")
        share = link.mbit / WIRE / jobs
        iterations = int(share * 1e6 / 8 * (seconds + 3) / MIB) + 1
        ranks = []
        for job in range(jobs):
            ranks += start_ranks(
                network, atp, job + 1, hosts[job], servers[job], iterations, policy
            )
        wait_until_begun(stats)
        outcome = measure(network, stats, ranks, None, seconds)
        return verify(network, ranks, outcome, 10 * seconds + 30, jobs)
