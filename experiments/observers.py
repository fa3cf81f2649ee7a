"""Measures what it costs to be observed: everything on, compared with everything off.

    .venv/bin/python -m experiments.observers [--mbit N] [--rounds N] [FOLDER]

Four ranks on links of their own, a switch and a server on links of four times that. Off: no status,
no metrics, no flight recorder. On: counter files every second, JSON logs, metrics that are scraped
every second, `atp view` with a reader of its page every second, and a flight recorder with a folder
on each rank. The same all-reduces run with both, alternately, and the digests of all ranks must
agree. Here view and reader run on the job's own processors, so in a third setting they observe
nodes that the job does not use: what that costs the job would disappear if they had hosts of their
own.
Writes observers.csv into FOLDER (default: out/observers).
"""

import sys

from experiments import report
from experiments.fragment_costs import (
    ATP,
    all_reduces,
    alternate,
    rack,
    show,
    start_nodes,
    summary,
)

RANKS, WIDE = 4, 4
READ = "import sys, time, urllib.request as u\nwhile True:\n"
READ += " for url in sys.argv[1:]: u.urlopen(url, timeout=5).read()\n time.sleep(1)\n"


def observed(network, port):
    """Nodes with all that can be switched on."""

    def options(role):
        files = network.folder / f"{role}-{port}.jsonl"
        return (
            *("--stats", files, "--log-format", "json"),
            *("--metrics", f"{network[role].address}:{port + 100}"),
            *("--status-from", f"{network.subnet}.0/24"),
        )

    return start_nodes(network, port, options)


class Observers:
    """A view of the nodes, and a program that reads its page and the nodes' metrics."""

    def __init__(self, network, nodes, port):
        self.network, self.nodes = network, nodes
        self.urls = [
            f"http://{network[role].address}:{port + 100}/metrics" for role in ("server", "switch")
        ]
        self.urls.append("http://127.0.0.1:5580/view.json")

    def observe(self):
        """Starts; returns what stops them."""
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
    show(summary(found, "off"), "off", words.folder, "observers")


if __name__ == "__main__":
    parser = report.parser(__doc__, "out/observers")
    parser.add_argument(
        "--mbit", type=int, default=300, help="bandwidth of a rank's link in Mbit/s (default: 300)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default: 5)")
    main(parser.parse_args())
