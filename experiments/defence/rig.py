"""Two racks with a switch each, a switch above, a server, a page, a job of four torch ranks; and a
stranger's host and a third one, which have nothing to do with the job."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from experiments.report import BUILD, REPOSITORY
from lab.network import Network
from lab.requirements import privileged

ATP = BUILD / "bin" / "atp"
HERE = Path(__file__).parent
RACKS = {"a": ("a0", "a1", "a2"), "b": ("b0", "b1", "b2"), "s": ("s0", "s1"), "x": ("x1", "x2")}
ADDRESSES = {
    name: f"10.77.{number}.{10 + int(name[1])}"
    for number, names in enumerate(RACKS.values(), 1)
    for name in names
}
RANKS = ("a1", "a2", "b1", "b2")
STRANGER, BYSTANDER = "x1", "x2"
NODES = {name: (ADDRESSES[name], 5501) for name in ("a0", "b0", "s0")} | {
    "s1": (ADDRESSES["s1"], 5500)
}
METRICS_PORT, VIEW_PORT, FIRST_PORT, LAST_PORT = 9500, 5580, 40000, 40003
JOB = 7
DOUBLE = (ADDRESSES["s1"], 5600)
LIMIT_S = 60
# The stranger's host would have processors of its own, and others use this machine, too. (An
# ordinary user may not ask for this, and gets a warning.)
FIRST = ("nice", "-n", "-15")


class JobEnded(Exception):
    pass


class Rig:
    """Ends all that it has started with the `with` block."""

    def __init__(self, folder, keyed):
        self.folder, self.keyed = Path(folder), keyed
        self.incarnation = time.monotonic_ns() % 2**31
        self.network = Network(self.folder, RACKS, addresses=ADDRESSES)
        self.nodes, self.starts = {}, 0
        self.python = {"PYTHONPATH": os.pathsep.join(map(str, (REPOSITORY, REPOSITORY / "python")))}

    def __enter__(self):
        try:
            self._write_keys()
            for name in NODES:
                self.start_node(name)
            at = f"{ADDRESSES['s1']}:{VIEW_PORT}"
            words = ("view", "--listen", at, *(text(address) for address in NODES.values()))
            self.nodes["view"] = self.network["s1"].start(*FIRST, ATP, *words)
            self.start_job()
            return self
        except BaseException:
            self.network.delete()
            raise

    def __exit__(self, *_):
        self.network.delete()

    def _write_keys(self):
        self.key_options, self.rank_keys = (), {}
        if self.keyed:
            for tenant in ("vision", "speech"):
                self.network["s1"].exec(ATP, "key", tenant, self.folder / tenant)
            both = self.folder / "keys"
            lines = [(self.folder / tenant).read_text() for tenant in ("vision", "speech")]
            both.write_text("".join(lines))
            both.chmod(0o600)
            self.key_options = ("--keys", both)
            self.rank_keys = {"ATP_KEY_FILE": str(self.folder / "vision")}

    def start_node(self, name):
        address = NODES[name]
        role = ("server",) if name == "s1" else ("switch", "--upstream", "10.77.3.0/24")
        metrics = ("--metrics", f"{address[0]}:{METRICS_PORT}")
        node = self.network[name].start(
            *FIRST, ATP, *role, "--listen", text(address), *metrics, *self.key_options
        )
        self.network.wait_for_line(node, "listening on", LIMIT_S)
        self.nodes[name] = node

    def restart_nodes(self, *names):
        """These, or all."""
        for name in names or NODES:
            self.nodes[name].kill()
            self.nodes[name].wait()
            self.start_node(name)

    def start_double(self):
        double = self.network["s1"].start(sys.executable, HERE / "double.py", *DOUBLE)
        self.network.wait_for_line(double, "listening on", LIMIT_S)
        self.nodes["double"] = double

    def start_job(self, algorithm="innetwork"):
        """Starts the ranks, and waits for their first steps."""
        self.starts += 1
        self.logs = [str(self.folder / f"rank-{self.starts}-{rank}") for rank in range(len(RANKS))]
        spec = {
            "namespaces": [self.network[name].namespace for name in RANKS],
            "store": f"tcp://{ADDRESSES['a1']}:{29500 + self.starts}",
            "routes": [
                ",".join(text(NODES[node]) for node in (f"{name[0]}0", "s0", "s1"))
                for name in RANKS
            ],
            "metrics": [f"{ADDRESSES[name]}:{METRICS_PORT}" for name in RANKS],
            "logs": self.logs,
            "env": {
                "ATP_ALGORITHM": algorithm, "ATP_JOB": str(JOB), "GLOO_SOCKET_IFNAME": "eth0",
                "ATP_INCARNATION": str(self.incarnation), "ATP_HOST_MEMORY": "0",
                "ATP_PORT_RANGE": f"{FIRST_PORT}-{LAST_PORT}", **self.rank_keys,
            },
        }  # fmt: skip
        file = self.folder / f"job-{self.starts}.json"
        file.write_text(json.dumps(spec))
        # torch's store asks for names of addresses, and no host here has a name server.
        resolver = {"RES_OPTIONS": "timeout:1 attempts:1"}
        env = {**os.environ, **self.python, **resolver, "OMP_NUM_THREADS": "1"}
        words = privileged(*FIRST, sys.executable, HERE / "job.py", file)
        with open(self.folder / f"job-{self.starts}.log", "wb") as out:
            self.job = subprocess.Popen(
                words, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        self.network.processes.append(self.job)
        self.wait(
            lambda: all(self.steps(rank) > 2 for rank in range(len(RANKS))), "the first steps"
        )

    def met_s(self):
        """How long the slowest rank took to make its group."""
        lines = [self.lines(rank) for rank in range(len(RANKS))]
        times = [{said: when for when, said in one if not said.isdigit()} for one in lines]
        return max(one["created"] - one["begins"] for one in times)

    def end_job(self):
        self.job.send_signal(signal.SIGTERM)
        self.job.wait(LIMIT_S)

    def lines(self, rank):
        """[(time, what was said)] of a rank."""
        if not Path(self.logs[rank]).exists():
            return []
        complete = Path(self.logs[rank]).read_text(errors="replace").rpartition("\n")[0]
        found = [line.split(" ", 1) for line in complete.splitlines()]
        return [(float(one[0]), one[1]) for one in found if one[0].replace(".", "").isdigit()]

    def steps(self, rank):
        return sum(said.isdigit() for _, said in self.lines(rank))

    def said(self):
        return [Path(log).read_text(errors="replace") for log in self.logs if Path(log).exists()]

    def wrong(self):
        """How many sums were wrong so far, on any rank."""
        return sum(int(s) for rank in range(len(RANKS)) for _, s in self.lines(rank) if s.isdigit())

    def rate(self, seconds):
        """Steps per second of the slowest rank in the next seconds."""
        begin = time.monotonic()
        time.sleep(seconds)
        end = time.monotonic()
        if self.job.poll() is not None:
            causes = [
                line for said in self.said() for line in said.splitlines() if "Error: " in line
            ]
            raise JobEnded(causes[0] if causes else "for no reason that a rank gives")
        steps = [
            sum(begin < when <= end and said.isdigit() for when, said in self.lines(rank))
            for rank in range(len(RANKS))
        ]
        return min(steps) / (end - begin)

    def wait(self, condition, what):
        end = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > end or self.job.poll() is not None:
                raise SystemExit(f"waited for {what}:\n" + "\n".join(self.said()))
            time.sleep(0.02)

    # --- What an attack costs ---

    def processes(self):
        """The processes that listen: the nodes and the page, and the ranks, by name."""
        return {**{name: node.pid for name, node in self.nodes.items()},
                **{f"rank {n}": pid for n, pid in enumerate(self.rank_pids())}}  # fmt: skip

    def rank_pids(self):
        words = (self.folder / f"job-{self.starts}.log").read_text().split()
        return [int(word) for word in words[words.index("ranks") + 1 :][: len(RANKS)]]

    def costs(self):
        """Descriptors, bytes of log and of memory, by process."""
        logs = {**{name: node.log for name, node in self.nodes.items()},
                **{f"rank {n}": Path(log) for n, log in enumerate(self.logs)}}  # fmt: skip
        return {
            name: {
                "files": len(os.listdir(f"/proc/{pid}/fd")),
                "log": sum(len(line) for line in logs[name].read_text().splitlines()
                           if len(line.split()) > 2),
                "memory": int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096,
                "cpu_s": cpu_seconds(pid),
            }
            for name, pid in self.processes().items()
            if os.path.exists(f"/proc/{pid}/fd")
        }  # fmt: skip

    def sums(self):
        """Fragments that the server has completed, and those for which no switch was bypassed."""
        words = (ATP, "status", text(NODES["s1"]), "--json")
        counters = json.loads(self.network["s1"].exec(*words))["counters"]
        all_sums = counters["fragments_completed"] - counters["fragments_completed_float"]
        return all_sums, counters["fragments_completed_in_least_packets"]

    def traffic(self):
        """Bytes on the wire that the stranger's host has sent, and that the third has received."""
        one, other = (self.network[name].counters() for name in (STRANGER, BYSTANDER))
        return one["tx_bytes"], other["rx_bytes"]

    # --- The stranger ---

    @contextlib.contextmanager
    def capturing(self, name):
        """Captures on the path, in the `with` block, into this file."""
        listeners = []
        for host in NODES:
            one = self.network[host].start(
                sys.executable, "-m", "experiments.defence.capture", self.folder / name,
                env=self.python,
            )  # fmt: skip
            self.network.wait_for_line(one, "capturing", LIMIT_S)
            listeners.append(one)
        yield
        for one in listeners:
            one.kill()
            one.wait()

    def world(self, captures):
        """What the stranger is told, as a file."""
        ranks = [
            (ADDRESSES[name], sorted(map(int, self.network[name].udp_ports()))) for name in RANKS
        ]
        metrics = [(ADDRESSES[name], METRICS_PORT) for name in (*NODES, *RANKS)]
        view = [(ADDRESSES["s1"], VIEW_PORT)]
        peers = [
            (ADDRESSES[name], port) for name in RANKS for port in tcp_ports(self.network[name])
        ]
        meeting = [
            (ADDRESSES[name], port) for name in RANKS for port in range(FIRST_PORT, LAST_PORT + 1)
        ]
        facts = {
            "nodes": NODES, "ranks": ranks, "job": JOB, "incarnation": self.incarnation,
            "stranger": ADDRESSES[STRANGER], "bystander": ADDRESSES[BYSTANDER],
            "capture": str(captures[0]), "earlier_capture": str(captures[1]),
            "rank_pids": self.rank_pids(), "double": DOUBLE,
            "other_key": (self.folder / "speech").read_text() if self.keyed else "",
            "tcp": {
                "metrics of a0": metrics[:1], "view": view, "status": list(NODES.values()),
                "http": metrics + view, "ranks": peers, "meeting": meeting,
                "all": metrics + view + list(NODES.values()) + peers,
            },
        }  # fmt: skip
        file = self.folder / "world.json"
        file.write_text(json.dumps(facts))
        return file

    def strike(self, world, row):
        """Begins an attack."""
        self.striker = self.network[STRANGER].start(
            sys.executable, "-m", "experiments.defence.strike", world, row.name, env=self.python
        )
        self.network.wait_for_line(self.striker, "attacking", LIMIT_S)

    def end_strike(self):
        """Returns what was sent and heard."""
        self.striker.terminate()
        code, said = self.network.wait(self.striker, LIMIT_S)
        if code != 0:
            raise SystemExit(f"the attack failed:\n{said}")
        return json.loads(said.splitlines()[-1])


def text(address):
    return f"{address[0]}:{address[1]}"


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tcp_ports(host):
    """Where a rank listens for its peers."""
    lines = host.exec("ss", "-Hltn").splitlines()
    ports = {int(line.split()[3].rpartition(":")[2]) for line in lines}
    return sorted(port for port in ports if FIRST_PORT <= port <= LAST_PORT)
