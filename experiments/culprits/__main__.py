"""Measures how soon the culprit is named: on each rank, in `atp status`, in the metrics, and on the
page of `atp view`.

    .venv/bin/python -m experiments.culprits [--trials N] [--only WORDS]... [--calm S] [FOLDER]
    .venv/bin/python -m experiments.culprits --merge RUN...

Real processes in namespaces: two racks of two workers with a switch each, a switch above both, and
a server. Each trial starts nodes and a job of four ranks under `atp run`, lets it run, and disturbs
it in one way (disturbances.py). A rank that names anybody whom that disturbance does not allow, as
silent, refusing, awaited, lost or the first to leave, has named the wrong one. `--calm S` runs an
undisturbed job for S seconds beside two busy processes; no rank and no place may then name anybody.
Writes trials.jsonl, a line per trial, and culprits.csv, their table, into FOLDER (default:
out/culprits). The trials mostly wait, so two runs with different `--only` fit side by side;
`--merge` makes one table of the trials in their folders.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments import report
from experiments.culprits import table
from experiments.culprits.disturbances import (
    AFTERWARDS_S,
    DISTURBANCES,
    KEYS,
    RECOVERY_S,
    SERVER,
    SPINE,
    SWITCH,
)
from experiments.report import BUILD
from lab.cluster import Cluster

ATP = BUILD / "bin" / "atp"
HERE = Path(__file__).parent
HOSTS = ("a1", "a2", "b1", "b2")
SWITCHES = {"a0": SWITCH, "b0": "10.77.2.1:5501", "s0": SPINE}
VIEW = "127.0.0.1:5580"
START_S = 40
TENANT = f"vision {'0f' * 32}\n"
# Whom a line blames: the first node that is silent or refuses, or the ranks that are missing.
BLAMED_NODE = re.compile(
    r"(?:switch|server) ([\d.]+:\d+) (?:no longer answers|did not answer|does not answer|refused)"
)
BLAMED_RANKS = re.compile(
    r"(?:waiting for|lost:?|by|because of) ranks? (\d[^:;,]*?)(?:, which|:|;|$| lost| left)"
    r"|^.*?\branks? (\d[^:;,]*?) (?:left|lost|receives? nothing|has received nothing)"
)


class Trial:
    """Nodes, the page, its watcher and a job of four ranks; all end with the `with` block."""

    def __init__(self, cluster, number, disturbance=DISTURBANCES[0]):
        self.cluster, self.number, self.disturbance = cluster, number, disturbance
        self.started, keys = [], disturbance.keys
        watched, folder = [], cluster.network.folder
        self.env = {"ATP_KEY_FILE": folder / "key"} if keys else {}
        for name in (KEYS, "key"):
            (folder / name).write_text(TENANT)
            (folder / name).chmod(0o600)
        for host, address in {**SWITCHES, "s1": SERVER}.items():
            metrics = address.replace(":5", ":9")
            lease = ("--lease", disturbance.lease_s)
            role = (
                ["server", *lease] if address == SERVER else ["switch", "--upstream", "10.0.0.0/8"]
            )
            options = ("--listen", address, "--status-from", "10.0.0.0/8", "--metrics", metrics,
                       *(("--keys", folder / KEYS) if keys else ()))  # fmt: skip
            self._start(host, ATP, *role, *options)
            watched.append(f"{address}=http://{metrics}/metrics")
        for process in self.started:
            cluster.network.wait_for_line(process, "listening on", START_S)
        nodes = (*SWITCHES.values(), SERVER)
        self._start("s1", ATP, "view", "--listen", VIEW, "--interval", 0.5, *nodes)
        self.start_job(7)
        for part in self.job:
            self._wait(lambda part=part: self.said(part), "the ranks")
        self._wait(lambda: "values per fragment" in self.said(self.job[0]), "all to join")
        page = f"http://{VIEW}/view.json"
        self.watcher = self._start("s1", sys.executable, HERE / "watcher.py", ATP, page, *watched)
        self._wait(lambda: self.said(self.watcher).count("{") > 2 * len(SWITCHES), "the watcher")
        time.sleep(1)

    def start_job(self, job):
        words = ("--ranks-per-host", 1, "--job", job, "--incarnation", self.number)
        bench = (ATP, "bench", "allreduce", "-b", "1M", "-e", "1M", "-n", 1_000_000, "-w", 0)
        self.job = self.cluster.start_job(HOSTS, *bench, options=words, env=self.env)
        self.started += self.job

    def _start(self, host, *words):
        process = self.cluster[host].start(*words)
        self.started.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
        for name in self.cluster.network.hosts:
            for pid in self.cluster[name].pids():
                subprocess.run(["kill", "-9", str(pid)], stderr=subprocess.DEVNULL, check=False)
        for process in self.started:
            process.wait()

    @staticmethod
    def said(process):
        return process.log.read_text(errors="replace")

    @staticmethod
    def _wait(condition, what):
        end = time.monotonic() + START_S
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"waited {START_S} s for {what}")
            time.sleep(0.02)

    def complaints(self, rank):
        """What a rank has said since it joined, without the table of the benchmark."""
        lines = self.said(self.job[rank]).splitlines()
        return [line for line in lines if re.search(r"rank \d|switch 10|server 10|ranks \d", line)
                and not re.search(r"started \d+ of|^#", line)]  # fmt: skip

    def blamed(self, line):
        """Whom a line of a rank names: nodes by address, ranks as "rank 1"."""
        if found := BLAMED_NODE.search(line):
            return {found[1]}
        names = set()
        for found in BLAMED_RANKS.finditer(line):
            text = re.sub(r"\([^)]*\)", "", found[1] or found[2])
            names |= {f"rank {number}" for number in re.findall(r"\d+", text)}
        return names

    def wrongly_named(self):
        """The lines that name anybody else from the disturbance on, or anybody at all after it."""
        disturbance, wrong = self.disturbance, []
        allowed = {disturbance.culprit, *disturbance.told.values(), *disturbance.also}
        for rank in range(len(HOSTS)):
            complaints = self.complaints(rank)
            afterwards = self.afterwards.get(rank, len(complaints))
            for number, line in enumerate(complaints[self.before[rank] :], self.before[rank]):
                if others := self.blamed(line) - (allowed if number < afterwards else set()):
                    wrong.append(f"rank {rank} names {', '.join(sorted(others))}: {line}")
        return wrong

    def in_places(self, since, culprit):
        """Seconds until each place named the culprit."""
        found = {}
        for line in self.said(self.watcher).rpartition("\n")[0].splitlines():
            if not line.startswith("{"):
                continue
            seen = json.loads(line)
            names = [n for n in seen["named"] if n == culprit or n.startswith(f"{culprit} ")]
            if seen["time"] >= since and names:
                found.setdefault(seen["place"], seen["time"] - since)
        return found

    def watch(self, since):
        """Seconds until each rank and place named the culprit, as far as they do in time."""
        disturbance, on_ranks, in_places = self.disturbance, {}, {}
        places = table.PLACES if disturbance.in_places else ()
        while time.time() < since + disturbance.patience_s:
            for rank in set(disturbance.told) - set(on_ranks):
                new = self.complaints(rank)[self.before[rank] :]
                if any(disturbance.told[rank] in self.blamed(line) for line in new):
                    on_ranks[rank] = time.time() - since
            in_places = self.in_places(since, disturbance.culprit)
            if disturbance.told and len(on_ranks) == len(disturbance.told):
                if all(place in in_places for place in places):
                    break
            time.sleep(0.02)
        return on_ranks, in_places

    def see_it_end(self, since):
        """Waits until the disturbance has been over for a while; returns whether a rank ended."""
        over = since + self.disturbance.over_s + RECOVERY_S
        time.sleep(max(0, over - time.time()))
        self.afterwards = {rank: len(self.complaints(rank)) for rank in range(len(HOSTS))}
        time.sleep(AFTERWARDS_S)
        return [f"rank {n} has ended: {self.said(part)[-500:]}"
                for n, part in enumerate(self.job) if part.poll() is not None]  # fmt: skip

    def run(self):
        """Seconds until each rank and place named the culprit, and the wrong names."""
        disturbance, ended, self.afterwards = self.disturbance, [], {}
        self.before = {rank: len(self.complaints(rank)) for rank in range(len(HOSTS))}
        since = time.time()
        end = disturbance.begin(self.cluster)
        if disturbance.keys:
            since = time.time()  # to find all processes, before, takes seconds with other load
        if disturbance.new_job:
            self.before = dict.fromkeys(range(len(HOSTS)), 0)
            since = time.time()
            self.start_job(8)
        on_ranks, in_places = self.watch(since)
        if disturbance.over_s:
            ended = self.see_it_end(since)
        wrong = self.wrongly_named() + ended
        end()
        all_named = len(on_ranks) == len(disturbance.told)
        return {
            "ranks": max(on_ranks.values(), default=None) if all_named else None,
            **{place: in_places.get(place) for place in table.PLACES},
            "wrong": wrong,
        }


def calm(cluster, seconds):
    """Lets a job run beside two busy processes; returns what was said about anybody."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        with Trial(cluster, 1) as trial:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(min(60, max(0, end - time.monotonic())))
                print(f"calm: {end - time.monotonic():.0f} s left", flush=True)
            said = [f"rank {n}: {line}" for n in range(len(HOSTS)) for line in trial.complaints(n)]
            for line in trial.said(trial.watcher).splitlines():
                # A line that is not JSON is the watcher's own error: a program was replaced, say.
                one = json.loads(line) if line.startswith("{") else {"place": line, "named": "?"}
                if one["named"]:
                    when = time.strftime("%H:%M:%S", time.localtime(one.get("time")))
                    said.append(f"{when} {one['place']}: {one['named']}")
            return said
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(chosen, words):
    """Runs the trials, each written as it ends; returns the lines that `--calm` must not have."""
    trials = table.Trials(words.folder)
    with tempfile.TemporaryDirectory() as name:
        cluster = Cluster(Path(name), ATP, HERE / "cluster.yaml")
        try:
            for disturbance in chosen:
                for trial in range(words.trials):
                    with Trial(cluster, trial + 1, disturbance) as running:
                        found = trials.add(disturbance.name, running.run())
                    print(f"{trial + 1} of {words.trials}: {found}", flush=True)
            return calm(cluster, words.calm) if words.calm else []
        finally:
            cluster.delete()


def main(words):
    chosen = [one for one in DISTURBANCES if any(only in one.name for only in words.only or [""])]
    if not chosen:
        raise SystemExit(f"--only: no disturbance's name contains {words.only}; the names are: "
                         + ", ".join(one.name for one in DISTURBANCES))  # fmt: skip
    said = [] if words.merge else run(chosen, words)
    wrong = table.publish(table.read(words.merge or [words.folder]), words.folder)
    if words.calm:
        print(*said, f"{words.calm} s undisturbed beside two busy processes: {len(said)} lines "
              "blame anyone", sep="\n")  # fmt: skip
    if wrong or said:
        raise SystemExit("somebody was blamed who had done nothing")


if __name__ == "__main__":
    parser = report.parser(__doc__, "out/culprits")
    parser.add_argument("--trials", type=int, default=20, help="per disturbance (default: 20)")
    parser.add_argument(
        "--only",
        metavar="WORDS",
        action="append",
        help="only disturbances whose name has these words; may be repeated",
    )
    parser.add_argument("--calm", type=float, default=0, help="seconds without any disturbance")
    parser.add_argument(
        "--merge",
        metavar="RUN",
        nargs="+",
        type=Path,
        help="run nothing: one table of the trials in these runs' folders",
    )
    main(parser.parse_args())  # fmt: skip
