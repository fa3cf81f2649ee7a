"""Measures what keys cost, and what somebody without one can do.

    .venv/bin/python -m experiments.defence.keys [--mbit N] [--rounds N] [--forged N] [FOLDER]

Four ranks on links of their own, a switch and a server on links of four times that: the same
all-reduces without and with keys, alternately; then with keys while a fifth host sends forged
packets to the switch, in which every field is right but the tag (forge_tags.py). The switch must
count each of them, and the digests of all ranks must agree. Writes keys.csv into FOLDER (default:
out/keys).
"""

import json
import sys
import time
from pathlib import Path

from experiments import report
from experiments.fragment_costs import (
    ATP,
    LIMIT_S,
    VALUES,
    all_reduces,
    alternate,
    rack,
    show,
    start_nodes,
    summary,
)

FORGE = Path(__file__).with_name("forge_tags.py")
RANKS, WIDE = 4, 4
DATAGRAM = 40 + 8 + 4 * VALUES + 12


class Forger:
    """A host that listens to one rank, and then sends what it has heard with changed tags."""

    def __init__(self, network, switch, count, per_second):
        self.network, self.switch = network, switch
        self.words = (count, per_second, DATAGRAM)
        self.sent = self.counted = 0

    def attack(self):
        """Starts; returns a function that waits for the end and adds up what the switch counted."""
        file = self.network.folder / f"captured-{time.monotonic_ns()}"
        before = self.wrong_keys()
        listener = self.network["h0"].start(sys.executable, FORGE, "listen", file)
        forger = self.network["stranger"].start(sys.executable, FORGE, "send", file, *self.words)

        def end():
            self.network.wait(forger, LIMIT_S)
            listener.kill()
            listener.wait()
            time.sleep(0.5)
            self.sent += self.words[0]
            self.counted += self.wrong_keys() - before

        return end

    def wrong_keys(self):
        status = self.network["switch"].exec(ATP, "status", self.switch, "--json")
        return json.loads(status)["counters"]["udp_wrong_key"]


def main(words):
    with rack(RANKS, words.mbit, WIDE, ["stranger"]) as (network, hosts):
        key = network.folder / "vision.key"
        network["switch"].exec(ATP, "key", "vision", key)
        plain = start_nodes(network, 5600)
        keyed = start_nodes(network, 5500, lambda _: ("--keys", key))
        switch = keyed.addresses[1]
        forger = Forger(network, switch, words.forged // words.rounds, words.per_second)
        with_key = {"ATP_KEY_FILE": key}
        found = alternate(
            {
                "no keys": lambda: all_reduces(network, hosts, plain),
                "keys": lambda: all_reduces(network, hosts, keyed, with_key),
                "keys, forged packets": lambda: all_reduces(
                    network, hosts, keyed, with_key, forger.attack
                ),
            },
            words.rounds,
        )
    show(summary(found, "no keys"), "without keys", words.folder, "keys")
    counts = f"{forger.sent:,} sent, {forger.counted:,} counted by the switch as wrong"
    print(f"forged: {counts}, none accepted")
    # What the switch's receive buffer drops is not counted, and not accepted either.
    if forger.counted < 0.9 * forger.sent:
        raise SystemExit("too few of the forged packets reached the switch")


if __name__ == "__main__":
    parser = report.parser(__doc__, "out/keys")
    parser.add_argument(
        "--mbit",
        type=int,
        default=1000,
        help="bandwidth of a rank's link in Mbit/s (default: 1000)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument(
        "--forged", type=int, default=1_000_000, help="forged packets to send (default: 1,000,000)"
    )
    parser.add_argument(
        "--per-second", type=int, default=20_000, help="forged packets per second (default: 20,000)"
    )
    main(parser.parse_args())
