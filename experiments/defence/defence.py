"""Measures what strangers, idle connections and failures cost honest ranks.

    .venv/bin/python -m experiments.defence.defence [FOLDER]

Compared times are measured alternately, without and with the attack. A stranger knows
docs/inside/protocol and the port but none of the members' secrets, and sends from another address.
Measures: all-reduces while jobs are created and left at 6 kB/s; packets forwarded after JOINs with
a looped route; what a made-up job sends to forged addresses; answers to a flood, and how long an
honest client waits meanwhile; `atp status` with 500 idle connections; a new stream of `atp view`
beside 300 that are read; the time until the other
ranks end, naming the culprit, after a rank or one of three servers is killed. On hosts in network
namespaces: all-reduces under forged ICMP errors, and the end of a rank that is cut off. Writes
defence.csv into FOLDER (default: out/defence).
"""

import csv
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from experiments import report
from experiments.defence import hosts, multiplied
from experiments.defence.packets import DIRECT, gradient, join
from experiments.defence.stranger import Asker, Churn, Readers, Stranger, open_stream
from experiments.report import BUILD
from lab.entry import ends_with_us
from lab.ports import free_port

ATP = BUILD / "bin" / "atp"
LIMIT_S = 60


class Nodes:
    """Switches, servers and ranks on loopback, which end with the `with` block."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self._processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._processes:
            process.kill()
            process.wait()
        self._folder.cleanup()

    def node(self, role, *options, port=None):
        """Starts a node; returns its address, once it listens, and its process."""
        at = ("127.0.0.1", port or free_port())
        command = (ATP, role, "--listen", f"{at[0]}:{at[1]}", *options)
        process = self.start(command)
        wait_until(lambda: "listening" in output(process), f"the {role}")
        return at, process

    def ranks(self, count, route, *words):
        """Starts one process per rank of `atp bench`."""
        job = random.randrange(1, 2**32)
        variables = {"WORLD_SIZE": count, "ATP_JOB": job, "ATP_INCARNATION": 1, "ATP_ROUTE": route}
        command = (ATP, "bench", "allreduce", *words)
        return [self.start(command, {**variables, "RANK": rank}) for rank in range(count)]

    def start(self, command, variables=None):
        log = Path(self._folder.name) / str(len(self._processes))
        with open(log, "wb") as out:
            process = subprocess.Popen(
                [str(word) for word in command],
                env={**os.environ, **{k: str(v) for k, v in (variables or {}).items()}},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=ends_with_us(),
            )
        process.log = log
        self._processes.append(process)
        return process


def output(process):
    return process.log.read_text(errors="replace")


def wait_until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"timed out after {LIMIT_S} s waiting for {what}")
        time.sleep(0.002)


def text(address):
    return f"{address[0]}:{address[1]}"


def counters(address):
    """A node's counters by name."""
    words = [str(ATP), "status", text(address), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["counters"]


def bench_us(nodes, server):
    """The mean time of a 256 KiB all-reduce by two ranks; exits on a wrong sum."""
    size = ("-b", "256K", "-e", "256K", "-n", "400", "-w", "20")
    ranks = nodes.ranks(2, text(server), *size)
    if any(rank.wait(LIMIT_S) for rank in ranks):
        raise SystemExit(f"a benchmark failed:\n{output(ranks[0])}")
    # The columns of nccl-tests: size, count, type, reduction, time …
    row = re.search(r"^\s*262144\s.*$", output(ranks[0]), re.MULTILINE)
    return float(row[0].split()[4])


def churn(rounds, rate):
    """The time of all-reduces while jobs are created and left, relative to that without."""
    times = {False: [], True: []}
    with Nodes() as nodes:
        server, _ = nodes.node("server")
        for _ in range(rounds):
            times[False].append(bench_us(nodes, server))
            with Churn(server, rate):
                times[True].append(bench_us(nodes, server))
    alone, beside = (statistics.median(times[way]) for way in (False, True))
    yield (
        "256 KiB while jobs are created and left at 6 kB/s, over the time alone",
        beside / alone,
        "at most 1.3",
    )
    spread = max((max(t) - min(t)) / statistics.median(t) for t in times.values())
    yield "… spread of the rounds, (largest - smallest) / median", spread, ""


def loop(gradients):
    """Packets forwarded by three switches, each of which may send to the others."""
    with Nodes() as nodes:
        server, _ = nodes.node("server")
        switches = [nodes.node("switch", "--upstream", "127.0.0.0/8")[0] for _ in range(3)]
        first, second, third = switches
        with Stranger() as stranger:
            for attempt in range(20):
                route = [first, second, third, first, second, server]
                recorded = [(f"127.0.9.{one}", 4000) for one in range(attempt % 5)]
                stranger.join(join(77, attempt + 1, route, recorded=recorded), first)
            for sequence in range(gradients):
                stranger.send(gradient(77, sequence, DIRECT), first)
            time.sleep(2)
        passed_on = sum(
            count
            for switch in switches
            for name, count in counters(switch).items()
            if name.startswith("forwarded")
        )
    yield f"{gradients} gradients after JOINs of a looped route: forwards", passed_on, "none"


def flood(packets, addresses):
    """Answers to gradients of unknown jobs from this many addresses, and to an honest client."""
    with Nodes() as nodes, ExitStack() as sockets:
        server, process = nodes.node("server")
        strangers = [
            sockets.enter_context(Stranger(f"127.1.{n // 250}.{n % 250 + 1}"))
            for n in range(addresses)
        ]
        with Asker("127.0.0.3", server) as honest:
            for number in range(packets):
                strangers[number % addresses].send(gradient(random.randrange(1, 2**32)), server)
                if number % 8 == 0:
                    honest.step()
                if number % 64 == 0:
                    strangers[number // 64 % addresses].hear()
                    time.sleep(0.002)
            if process.poll() is not None:
                raise SystemExit(f"the server ended:\n{output(process)}")
            honest.finish(LIMIT_S)
            for stranger in strangers:
                stranger.hear()
    sent, heard = (sum(s.sent_bytes for s in strangers), sum(s.answered_bytes for s in strangers))
    source = "one address" if addresses == 1 else f"{addresses} addresses"
    flooding = f"a flood of {sum(s.sent_packets for s in strangers)} packets from {source}"
    yield f"{flooding}: answers to it", sum(s.answers for s in strangers), ""
    yield f"… bytes answered per 1,000 from {source}", 1000 * heard / sent, "at most 1,000"
    asked = len(honest.waits)
    yield (
        f"… of {asked} honest questions beside {source}, answered at the first attempt",
        honest.at_once / asked,
        "most" if addresses == 1 else "",
    )
    yield f"… repeated every 10 ms beside {source}: the slowest answer, s", max(honest.waits), ""


def multiplication():
    """Packets to addresses that a stranger names as its job's ranks."""
    with Nodes() as nodes, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "keys"
        subprocess.run([ATP, "key", "vision", file], check=True)
        yield from multiplied.rows(nodes, file)


def idle(connections, rounds):
    """`atp status` with many idle connections."""
    took = []
    with Nodes() as nodes:
        server, _ = nodes.node("server")
        for _ in range(rounds):
            held = [socket.create_connection(server, LIMIT_S) for _ in range(connections)]
            begin = time.monotonic()
            counters(server)
            took.append(time.monotonic() - begin)
            for connection in held:
                connection.close()
    yield (
        f"`atp status` with {connections} idle connections, the slowest, s",
        max(took),
        "at most 1",
    )


def streams(readers, rounds):
    """A new stream of `atp view` beside others that are read, and opened again when they end."""
    took = []
    with Nodes() as nodes:
        server, _ = nodes.node("server")
        at = ("127.0.0.1", free_port())
        view = nodes.start((ATP, "view", "--listen", text(at), text(server)))
        wait_until(lambda: "atp view of" in output(view), "the page")
        with Readers(at, readers):
            for _ in range(rounds):
                begin = time.monotonic()
                with open_stream(at) as stream, stream.makefile() as lines:
                    if not any(line.startswith("data: {") for line in lines):
                        raise SystemExit("a stream of atp view ended without a view")
                took.append(time.monotonic() - begin)
    yield (
        f"a stream of `atp view` beside {readers} that are read: the slowest first view, s",
        max(took),
        "at most 1",
    )


ENDLESS = ("-b", "1M", "-e", "1M", "-n", "1000000", "-w", "0")


def kill_a_server():
    """Kills one of three servers: seconds until the first rank ends, and from there to the last."""
    with Nodes() as nodes:
        switch, _ = nodes.node("switch")
        servers = [nodes.node("server") for _ in range(3)]
        route = ";".join(f"{text(switch)},{text(at)}" for at, _ in servers)
        ranks = nodes.ranks(3, route, *ENDLESS)
        wait_until(lambda: "# " in output(ranks[0]), "all to join")
        time.sleep(0.5)
        at, victim = servers[1]
        begin = time.monotonic()
        victim.kill()
        wait_until(lambda: any(rank.poll() is not None for rank in ranks), "a rank to end")
        known = time.monotonic()
        wait_until(lambda: all(rank.poll() is not None for rank in ranks), "all ranks to end")
        took = (known - begin, time.monotonic() - known)
        for rank in ranks:
            if text(at) not in output(rank) and "left the job" not in output(rank):
                raise SystemExit(f"a rank does not name {text(at)}:\n{output(rank)}")
    return took


def kill_a_rank():
    """Kills a rank of `atp run`: seconds until the others name it."""
    named = re.compile(r"rank 2 .*left the job.*signal 9")
    with Nodes() as nodes:
        run = nodes.start(
            (ATP, "run", "-n", "4", "--switch", "--", ATP, "bench", "allreduce", *ENDLESS)
        )
        wait_until(lambda: "# " in output(run), "all to join")
        time.sleep(0.5)
        begin = time.monotonic()
        os.kill(rank_of(run.pid, 2), signal.SIGKILL)
        wait_until(lambda: len(named.findall(output(run))) >= 3, "three ranks to name it")
        return time.monotonic() - begin


def rank_of(ancestor, rank):
    """The process of a rank that `atp run` started."""
    parents, candidates = {}, []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            )
            if f"RANK={rank}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                candidates.append(int(entry.name))
        except OSError:  # the process has ended
            continue
    for found in candidates:
        above = found
        while above not in (0, ancestor):
            above = parents.get(above, 0)
        if above == ancestor:
            return found
    raise SystemExit(f"rank {rank} of process {ancestor} was not found")


def deaths(trials):
    servers = [kill_a_server() for _ in range(trials)]
    known, spread = ([trial[i] for trial in servers] for i in (0, 1))
    yield "one of three servers killed: the first rank ends after, s", statistics.median(known), ""
    yield "… and the last rank after the first, the slowest trial, s", max(spread), "at most 1"
    ranks = [kill_a_rank() for _ in range(trials)]
    median = statistics.median(ranks)
    yield "a rank of `atp run` killed: all others name it after, s", median, "at most 0.5"
    yield "… the slowest trial, s", max(ranks), ""


def measures(short):
    yield from churn(1 if short else 7, 6000)
    yield from loop(60)
    yield from multiplication()
    for addresses in (1, 20) if short else (1, 1000):
        yield from flood(2_000 if short else 100_000, addresses)
    yield from idle(50 if short else 500, 1 if short else 5)
    yield from streams(50 if short else 300, 3 if short else 50)
    yield from deaths(1 if short else 7)
    yield from hosts.cut_offs(1 if short else 5)
    yield from hosts.forged_icmp(1 if short else 7, 600)


def main():
    parser = report.parser(__doc__, "out/defence")
    parser.add_argument("--short", action="store_true", help="a tiny form, for automated tests")
    arguments = parser.parse_args()
    rows = []
    for what, value, wanted in measures(arguments.short):
        shown = f"{value:.2f}" if isinstance(value, float) else f"{value:,}"
        print(f"{what:66} {shown:>9}  {wanted}", flush=True)
        rows.append({"what": what, "value": value, "wanted": wanted})
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "defence.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"wrote {folder / 'defence.csv'}")


if __name__ == "__main__":
    main()
