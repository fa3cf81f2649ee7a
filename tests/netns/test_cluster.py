"""Two racks of workers and a rack of servers, built from a cluster file and started by `atp run`.

One job trains on real images, the other sums a benchmark's values and compares every element with
the exact sum. The bits of a training run depend on its contributions alone (fixed scale), so its
weights must be those of a run without neighbours, faults or deaths.
"""

import contextlib
import json
import re
import sys
import time
from pathlib import Path

import pytest

from lab.cluster import Cluster

from .conftest import ATP

HERE = Path(__file__).resolve().parent
TRAIN = HERE.parents[1] / "examples" / "demo" / "train.py"
STEPS = ("--images", 2560, "--epochs", 4)  # 40 of 4 ranks
STATS_INTERVAL = 0.1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, needs_namespaces):
    """Its services are running; `alone` is a training run that had them to itself."""
    folder = tmp_path_factory.mktemp("cluster")
    cluster = Cluster(folder, ATP, HERE / "two-racks.yaml")
    try:
        cluster.folder = folder
        stats = ("--stats-dir", folder, "--stats-interval", STATS_INTERVAL)
        cluster.services = cluster.serve(*stats)
        cluster.alone = Training(cluster, 1).finish()
        yield cluster
    finally:
        cluster.delete()


class Training:
    """A job on a1 and b1; a directory of its own for what rank 0 writes."""

    def __init__(self, cluster, incarnation):
        self.cluster, self.out = cluster, cluster.folder / f"training{incarnation}"
        self.job = cluster.start_job(
            ("a1", "b1"),
            *(sys.executable, TRAIN, "--out", self.out, *STEPS),
            options=("--job", 1, "--incarnation", incarnation),
            env={"ATP_SCALE": "fixed", "ATP_CONGESTION": "aimd"},
        )

    def steps(self):
        progress = self.out / "progress.jsonl"
        return progress.read_text().count("\n") if progress.exists() else 0

    def runs(self):
        return all(part.poll() is None for part in self.job)

    def finish(self):
        """Its ranks must have the same weights."""
        self.cluster.finish(self.job, 180)
        result = json.loads((self.out / "result.json").read_text())
        summed = 4 * result["parameters"] * len(result["losses"])
        self.goodput = summed * 8 / result["seconds"] / 1e6
        self.digest = result["digests"][0]
        assert set(result["digests"]) == {self.digest}, "ranks have different weights"
        self.counters = [stats["counters"] for stats in result["stats"]]
        return self


class Benchmark:
    """A job on a2 and b2, two ranks each."""

    def __init__(self, cluster, incarnation, iterations):
        self.cluster = cluster
        sizes = ("-b", "1M", "-e", "1M", "-w", "0", "-n", iterations)
        self.job = cluster.start_job(
            ("a2", "b2"),
            *(ATP, "bench", "allreduce", *sizes),
            options=("--ranks-per-host", 2, "--job", 2, "--incarnation", incarnation),
            env={"ATP_SCALE": "fixed", "ATP_CONGESTION": "aimd"},
        )

    def runs(self):
        return all(part.poll() is None for part in self.job)

    def joined(self):
        return "values per fragment" in self.job[0].log.read_text()

    def finish(self):
        self.outputs = self.cluster.finish(self.job, 180)
        assert "# Out of bounds values : 0 OK" in self.outputs[0], self.outputs[0]
        row = re.search(r"^ +1048576 +262144 .*$", self.outputs[0], re.MULTILINE)[0].split()
        self.goodput = (8 << 20) / float(row[4])
        return self


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.05)


def counters_over_time(cluster, name):
    """[(time, counters)] of a switch or server; the last line may be half written."""
    lines = (cluster.folder / f"{name}.jsonl").read_text().splitlines(keepends=True)
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return [(entry["time_s"], entry["counters"]) for entry in whole]


def share_summed_in_switches(samples):
    """Of the fragments completed between the first sample and the last."""
    (_, before), (_, after) = samples[0], samples[-1]
    completed = after["fragments_completed"] - before["fragments_completed"]
    assert completed > 500, "too little happened to say anything"
    name = "fragments_completed_by_one_packet"
    return (after[name] - before[name]) / completed


@contextlib.contextmanager
def disturbed(host, rule):
    """Adds a rule for incoming packets; returns a function that counts the packets it matched."""
    host.exec("nft", "add table inet disturb")
    host.exec("nft", "add chain inet disturb in { type filter hook input priority 0 ; }")
    host.exec("nft", f"add rule inet disturb in meta l4proto udp {rule}")

    def packets():
        rules = json.loads(host.exec("nft", "-j", "list table inet disturb"))["nftables"]
        words = [e for rule in rules for e in rule.get("rule", {}).get("expr", [])]
        return sum(word["counter"]["packets"] for word in words if "counter" in word)

    yield packets
    host.exec("nft", "delete table inet disturb")


def test_two_jobs_that_come_and_go_through_loss_and_marks_sum_exactly(cluster):
    before = counters_over_time(cluster, "server-s1")[-1]
    benchmarks = []
    with (
        disturbed(cluster["a0"], "numgen random mod 500 == 0 counter drop") as lost,
        disturbed(cluster["s0"], "numgen random mod 50 == 0 counter ip ecn set ce") as marked,
    ):
        training = Training(cluster, 2)
        while training.runs() or len(benchmarks) < 2:
            benchmarks.append(Benchmark(cluster, len(benchmarks) + 1, iterations=10).finish())
        training.finish()
        assert lost() > 0
        assert marked() > 0
        packets = f"packets lost {lost()}, marked {marked()}"

    after = counters_over_time(cluster, "server-s1")[-1]
    rates = ", ".join(f"{benchmark.goodput:.0f}" for benchmark in benchmarks)
    print(
        f"goodput in Mbit/s: training {training.goodput:.1f} (alone {cluster.alone.goodput:.1f}), "
        f"benchmark {rates}; {packets}; "
        f"summed in the switches {share_summed_in_switches([before, after]):.1%}"
    )
    assert training.digest == cluster.alone.digest
    assert sum(counters["parameters_ecn"] for counters in training.counters) > 0
    # All ranks have left: nothing remains of any job.
    wait_until(lambda: jobs_at_the_server(cluster) == 0, "the server to have forgotten all jobs")
    assert counters_over_time(cluster, "server-s1")[-1][1]["ranks_lost"] == 0


def jobs_at_the_server(cluster):
    _, counters = counters_over_time(cluster, "server-s1")[-1]
    return counters["jobs_made"] - counters["jobs_ended"]


def test_two_jobs_outlive_a_racks_switch_and_return_to_it_within_two_seconds(cluster):
    training = Training(cluster, 3)
    wait_until(lambda: training.steps() >= 3, "the training's first steps")
    benchmark = Benchmark(cluster, 100, iterations=60)
    wait_until(benchmark.joined, "the benchmark to begin")

    log = cluster.services["a0"].log
    cluster.kill_switch("a")
    wait_until(lambda: log.read_text().count("switch-a on ") == 2, "the switch's return")
    returned = time.time()
    time.sleep(2)
    # A job that has ended by now would not show whether it returned.
    assert training.runs()
    assert benchmark.runs()

    training.finish()
    benchmark.finish()
    assert training.digest == cluster.alone.digest
    for job, host in ((training.job, "a1"), (benchmark.job, "a2")):
        said = job[0].log.read_text()
        assert "no longer answers" in said, f"{host} has not noticed"
        assert "answers again" in said, f"{host} has not returned"

    samples = counters_over_time(cluster, "server-s1")
    share = share_summed_in_switches([entry for entry in samples if entry[0] >= returned + 2])
    _, counters = counters_over_time(cluster, "switch-a")[-1]
    print(
        f"goodput in Mbit/s: training {training.goodput:.1f} (alone {cluster.alone.goodput:.1f}), "
        f"benchmark {benchmark.goodput:.0f}; from 2 s after the return on {share:.1%} summed in "
        f"the switches, {counters['complete_sums_sent']} sums by the new one"
    )
    assert share >= 0.95
    assert counters["complete_sums_sent"] > 500
