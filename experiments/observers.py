"""Measures what it costs to be observed: everything on, compared with everything off.

    .venv/bin/python -m experiments.observers [--mbit N] [--rounds N] [FOLDER]

Four ranks on links of their own, a switch and a server on links of four times that. Off: no status,
no metrics, no flight recorder. On: counter files every second, JSON logs, metrics that are scraped
every second, `atp view` with a reader of its page every second, and a flight recorder with a folder
on each rank. The same all-reduces run with both, alternately, and the digests of all ranks must
agree. Here the view and its reader run on the job's own processors. So in a third setting they
observe nodes that the job does not use: what the job loses then, it loses only because they share
its processors.

Then it measures what one question costs a node whose ranks stand still: a scrape of its metrics,
or a status, which `atp view` asks for once per second. It asks each of them many times. Writes
observers.csv and questions.csv into FOLDER (default: out/observers).
"""

import csv
import signal
import sys
import time

from experiments import report
from experiments.fragment_costs import (
    ATP,
    all_reduces,
    alternate,
    cpu_us,
    rack,
    show,
    start_nodes,
    summary,
)

RANKS, WIDE = 4, 4
READ = "import sys, time, urllib.request as u\nwhile True:\n"
READ += " for url in sys.argv[1:]: u.urlopen(url, timeout=5).read()\n time.sleep(1)\n"


def observed(network, port):
    """Nodes with everything switched on."""

    def options(role):
        files = network.folder / f"{role}-{port}.jsonl"
        return (
            *("--stats", files, "--log-format", "json"),
            *("--metrics", f"{network[role].address}:{port + 100}"),
            *("--status-from", f"{network.subnet}.0/24"),
        )

    return start_nodes(network, port, options)


def metrics_of(network, role, port):
    return f"http://{network[role].address}:{port + 100}/metrics"


class Observers:
    """A view of the nodes, and a program that reads its page and the nodes' metrics."""

    def __init__(self, network, nodes, port):
        self.network, self.nodes = network, nodes
        self.urls = [metrics_of(network, role, port) for role in ("server", "switch")]
        self.urls.append("http://127.0.0.1:5580/view.json")

    def observe(self):
        """Starts; returns a function that stops them."""
        host = self.network["operator"]
        view = host.start(ATP, "view", *self.nodes.addresses)
        self.network.wait_for_line(view, "http://", 30)
        reader = host.start(sys.executable, "-c", READ, *self.urls)

        def end():
            if reader.poll() is not None:
                raise SystemExit(f"the reader ended:\n{reader.log.read_text()}")
            for process in (reader, view):
                process.kill()
                process.wait()

        return end


ASK = """
import socket, sys, urllib.request
kind, host, port, metrics, times = sys.argv[1:]
for _ in range(int(times)):
    if kind == "scrape":
        urllib.request.urlopen(metrics, timeout=5).read()
        continue
    with socket.create_connection((host, port), timeout=5) as connection:
        connection.sendall(b"atp-status 1\\n")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
"""
QUESTIONS = 300


def costs_of_questions(network, hosts, nodes, port):
    """Microseconds of a node's processor time per question, beyond what it needs anyway."""
    variables = {
        "WORLD_SIZE": len(hosts), "ATP_ROUTE": nodes.route, "ATP_JOB": 1, "ATP_INCARNATION": 1,
    }  # fmt: skip
    bench = (ATP, "bench", "allreduce", "-b", "1M", "-e", "1M", "-n", 1_000_000, "-w", 0)
    rows = []
    for role, node, address in zip(
        ("server", "switch"), (nodes.server, nodes.switch), nodes.addresses, strict=True
    ):
        for kind in ("scrape", "status"):
            variables["ATP_JOB"] += 1
            ranks = [h.start(*bench, env={**variables, "RANK": r}) for r, h in enumerate(hosts)]
            network.wait_for_line(ranks[0], "values per fragment", 30)
            time.sleep(1)
            for rank in ranks:
                rank.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            begin, before = time.monotonic(), cpu_us(node)
            words = (kind, *address.split(":"), metrics_of(network, role, port), QUESTIONS)
            network["operator"].exec(sys.executable, "-c", ASK, *map(str, words))
            length, used = time.monotonic() - begin, cpu_us(node) - before
            time.sleep(length)
            idle = cpu_us(node) - before - used
            for rank in ranks:
                rank.kill()
                rank.wait()
            rows.append({"node": role, "question": kind, "us": round((used - idle) / QUESTIONS, 1)})
    return rows


def main(words):
    with rack(RANKS, words.mbit, WIDE, ["operator"]) as (network, hosts):
        plain = start_nodes(network, 5600, lambda _: ("--no-status",))
        on, idle = observed(network, 5500), observed(network, 5700)
        off = {"ATP_FLIGHT_RECORDER_SIZE": 0}
        records = {"ATP_FLIGHT_RECORDER": network.folder / "records"}
        found = alternate(
            {
                "off": lambda: all_reduces(network, hosts, plain, off),
                "on": lambda: all_reduces(
                    network, hosts, on, records, Observers(network, on, 5500).observe
                ),
                "observers elsewhere": lambda: all_reduces(
                    network, hosts, plain, off, Observers(network, idle, 5700).observe
                ),
            },
            words.rounds,
        )
        asked = costs_of_questions(network, hosts, on, 5500)
    show(summary(found, "off"), "off", words.folder, "observers")
    with open(words.folder / "questions.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, asked[0])
        writer.writeheader()
        writer.writerows(asked)
    for row in asked:
        print(f"one {row['question']} costs a {row['node']} {row['us']} us of processor time")


if __name__ == "__main__":
    parser = report.parser(__doc__, "out/observers")
    parser.add_argument(
        "--mbit", type=int, default=300, help="bandwidth of a rank's link in Mbit/s (default: 300)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default: 5)")
    main(parser.parse_args())
