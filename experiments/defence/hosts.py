"""Measurements that need separate hosts, in network namespaces (lab/): forged ICMP errors from a
third host, and a rank that is cut off."""

import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from experiments.report import BUILD
from lab.network import Network

ATP = BUILD / "bin" / "atp"
FORGE = Path(__file__).with_name("forge_icmp.py")
LIMIT_S = 60
UNUSED_PORTS = ("9", "10")


class Job:
    """A server and a switch on one host, and ranks of `atp bench` on others."""

    def __init__(self, network, nodes, places, *words):
        self.network, self.nodes = network, network[nodes]
        at = self.nodes.address
        route = f"{at}:5501,{at}:5500"
        variables = {"WORLD_SIZE": len(places), "ATP_JOB": 1, "ATP_ROUTE": route}
        variables["ATP_INCARNATION"] = time.monotonic_ns() % 2**32
        self.ranks = [
            network[place].start(ATP, "bench", "allreduce", *words, env={**variables, "RANK": rank})
            for rank, place in enumerate(places)
        ]

    @staticmethod
    def start_nodes(network, nodes):
        at = network[nodes].address
        for role, port, *options in (("server", 5500), ("switch", 5501, "--upstream", at)):
            node = network[nodes].start(ATP, role, "--listen", f"{at}:{port}", *options)
            network.wait_for_line(node, "listening on")

    def outputs(self):
        return [rank.log.read_text(errors="replace") for rank in self.ranks]

    def wait_until(self, condition, what):
        """Waits; returns the seconds it took."""
        begin = time.monotonic()
        while not condition():
            if time.monotonic() > begin + LIMIT_S:
                raise SystemExit(f"waited {LIMIT_S} s for {what}:\n" + "\n".join(self.outputs()))
            time.sleep(0.002)
        return time.monotonic() - begin

    def all_ended(self):
        return all(rank.poll() is not None for rank in self.ranks)


def summing_us(network, about_the_job, iterations):
    """The time of an all-reduce while a stranger forges errors about it, or about unused ports."""
    size = ("-b", "1M", "-e", "1M", "-w", "5", "-n", iterations, "--counters")
    job = Job(network, "nodes", ("workers", "workers"), *size)
    workers, nodes = network["workers"], network["nodes"].address
    job.wait_until(lambda: len(workers.udp_ports()) == 2, "the sockets of two ranks")
    ports = ",".join(workers.udp_ports() if about_the_job else UNUSED_PORTS)
    quote = (workers.address, ports, nodes, 5501)
    forgers = [
        network["stranger"].start(sys.executable, FORGE, error, *quote)
        for error in ("too-big", "unreachable")
    ]
    job.wait_until(job.all_ended, "the benchmark")
    for forger in forgers:
        forger.kill()
        forger.wait()
    said = job.outputs()[0]
    if any(rank.returncode for rank in job.ranks) or "going straight" in said:
        raise SystemExit(f"a forged error affected the job:\n{said}")
    reached = re.search(r"^# +udp_icmp_unproven +(\d+)$", said, re.MULTILINE)
    if about_the_job != (reached is not None and int(reached[1]) > 0):
        raise SystemExit(f"the forged errors did not arrive:\n{said}")
    # The columns of nccl-tests: size, count, type, reduction, time …
    return float(re.search(r"^\s*1048576\s.*$", said, re.MULTILINE)[0].split()[4])


def forged_icmp(rounds, iterations):
    times = {False: [], True: []}
    with (
        tempfile.TemporaryDirectory() as folder,
        Network(Path(folder), {"rack": ("workers", "nodes", "stranger")}) as network,
    ):
        Job.start_nodes(network, "nodes")
        for number in range(rounds):
            for about_the_job in (False, True) if number % 2 == 0 else (True, False):
                times[about_the_job].append(summing_us(network, about_the_job, iterations))
    nobodys, its = (statistics.median(times[way]) for way in (False, True))
    yield "1 MiB under forged ICMP errors about it / about unused ports", its / nobodys, ""
    spread = max((max(t) - min(t)) / statistics.median(t) for t in times.values())
    yield "… spread of the rounds with forged errors, (largest - smallest) / median", spread, ""


def cut_off():
    """Seconds until both others name the rank that is cut off, and until all have ended."""
    ranks = ("a", "b", "c")
    with (
        tempfile.TemporaryDirectory() as folder,
        Network(Path(folder), {"rack": ("nodes", *ranks)}) as network,
    ):
        Job.start_nodes(network, "nodes")
        job = Job(network, "nodes", ranks, "-b", "1M", "-e", "1M", "-n", "1000000", "-w", "0")
        job.wait_until(lambda: "# " in job.outputs()[0], "all to join")
        time.sleep(1)
        network["c"].drop(100)
        named = job.wait_until(
            lambda: all("rank 2 (" in said for said in job.outputs()[:2]), "the others to name it"
        )
        ended = named + job.wait_until(job.all_ended, "all ranks to end")
        *others, own = job.outputs()
        if not all("rank 2 (" in said.splitlines()[-1] for said in others):
            raise SystemExit("the wrong rank is blamed:\n" + "\n".join(others))
        if "is the network link of rank 2's host up?" not in own:
            raise SystemExit(f"the rank does not suspect its own link:\n{own}")
    return named, ended


def cut_offs(trials):
    found = [cut_off() for _ in range(trials)]
    named, ended = ([trial[i] for trial in found] for i in (0, 1))
    yield (
        "one of three ranks is cut off: both others name it after, the slowest trial, s",
        max(named),
        "",
    )
    yield "… and all three have ended after, the slowest trial, s", max(ended), ""
