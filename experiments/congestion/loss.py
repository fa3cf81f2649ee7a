"""Short all-reduces with packet loss: in the network and over Gloo, alternately.

    .venv/bin/python -m experiments.congestion.loss [FOLDER]

Each rank is a process in its own network namespace, with a link of --mbit in each direction. A
switch and a server have their own hosts, with links --ranks + 1 times as fast. Every host drops
incoming packets with a probability of --loss per cent, UDP and TCP alike. The time of an all-reduce
is that of the slowest rank, and each result is compared with the true sum. Reports medians and 90 %
quantiles of --iterations. Writes loss.csv and loss.svg into FOLDER (default: out/loss).
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from experiments import report
from experiments.congestion.loss_rank import PATHS
from experiments.congestion.shared_link import start_node
from experiments.report import BUILD, plt
from lab.network import Network
from lab.ranks import run_ranks

RANK = Path(__file__).with_name("loss_rank.py")
LIMIT_S = 600


def measure(arguments, per_cent, folder):
    """{path: seconds per all-reduce}"""
    ranks = [f"h{rank}" for rank in range(arguments.ranks)]
    with Network(folder, {"rack": [*ranks, "switch", "server"]}) as network:
        for name in ranks:
            network.shape_host(name, arguments.mbit)
        for name in ("switch", "server"):
            network.shape_host(name, arguments.mbit * (arguments.ranks + 1))
        atp = BUILD / "bin" / "atp"
        start_node(network, atp, "server", "server")
        upstream = f"{network['server'].address}/32"
        start_node(network, atp, "switch", "switch", "--upstream", upstream)
        if per_cent > 0:
            for host in network.hosts.values():
                host.drop(per_cent)
        hosts = [network[name] for name in ranks]
        result = folder / "result.json"
        words = (sys.executable, RANK, f"tcp://{hosts[0].address}:29600", result)
        route = f"{network['switch'].address}:5501,{network['server'].address}:5500"
        env = {"ATP_ROUTE": route, "ATP_VALUES_PER_FRAGMENT": 350}
        size = (str(arguments.bytes), str(arguments.iterations))
        run_ranks(network, [str(w) for w in words] + list(size), LIMIT_S, env, hosts)
        return json.loads(result.read_text())


def summarize(arguments):
    rows = []
    for per_cent in arguments.loss:
        with tempfile.TemporaryDirectory() as name:
            seconds = measure(arguments, per_cent, Path(name))
        row = {"loss_per_cent": per_cent}
        for path in PATHS:
            row[f"{path}_ms"] = statistics.median(seconds[path]) * 1e3
            row[f"{path}_p90_ms"] = statistics.quantiles(seconds[path], n=10)[-1] * 1e3
        rows.append(row)
        print(
            f"{per_cent:9} {row['innetwork_ms']:12.2f} {row['innetwork_p90_ms']:9.2f}"
            f" {row['gloo_ms']:9.2f} {row['gloo_p90_ms']:9.2f}",
            flush=True,
        )
    return rows


def plot(rows):
    figure, axis = plt.subplots(figsize=(5, 3.6), layout="constrained")
    loss = [row["loss_per_cent"] for row in rows]
    for path, label, style in (("innetwork", "in the network", "o-"), ("gloo", "Gloo", "s--")):
        axis.plot(loss, [row[f"{path}_ms"] for row in rows], style, label=f"{label}, median")
    axis.set(xlabel="packets lost at each host, %", ylabel="time, ms", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend()
    return figure


def parse():
    parser = report.parser(__doc__, "out/loss")
    parser.add_argument("--ranks", type=int, default=4, help="number of ranks (default: 4)")
    parser.add_argument(
        "--mbit", type=int, default=200, help="bandwidth of a rank's link in Mbit/s (default: 200)"
    )
    parser.add_argument("--bytes", type=int, default=65536, help="size of the float32 tensor")
    parser.add_argument(
        "--iterations", type=int, default=300, help="timed sums per loss rate (default: 300)"
    )
    parser.add_argument(
        "--loss",
        type=lambda text: [float(part) for part in text.split(",")],
        default=[0, 0.1, 0.3, 1],
        help="per cent, N,N,...",
    )
    return parser.parse_args()


def main():
    arguments = parse()
    print(
        f"{arguments.ranks} ranks, links of {arguments.mbit} Mbit/s, {arguments.bytes} bytes of"
        f" float32, {arguments.iterations} all-reduces each, alternately"
    )
    print(f"{'loss %':>9} {'in-network':>12} {'p90 ms':>9} {'Gloo':>9} {'p90 ms':>9}")
    rows = summarize(arguments)
    report.publish(Path(arguments.folder) / "loss", rows, plot(rows))


if __name__ == "__main__":
    main()
