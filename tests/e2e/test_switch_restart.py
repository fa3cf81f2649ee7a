"""A switch is killed and returns in the middle of a run: the job continues, with the same bits.

The benchmark compares every element of every result, on every rank, with the exact integer sum, so
that "0 OK" at its end means the bits of an undisturbed run. The counters of server and switch tell
where fragments were summed.
"""

import json
import time

RANKS = 4
FRAGMENTS = 749  # of 1 MiB, at 350 values each
STATS = ("--stats-interval", "0.05", "--stats")


def counters_over_time(path):
    """[(time in seconds, counters)]; the last line may be half written."""
    lines = path.read_text().splitlines(keepends=True)
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return [(entry["time_s"], entry["counters"]) for entry in whole]


def counted_since(samples, start):
    """What has been counted after `start`, by name."""
    before = [counters for when, counters in samples if when <= start][-1]
    return {name: count - before.get(name, 0) for name, count in samples[-1][1].items()}


def run_undisturbed(cluster, iterations):
    """The seconds that an iteration takes on this machine, checks included."""
    start = time.monotonic()
    command = bench(cluster, iterations)
    ranks = [
        cluster.start_rank(r, RANKS, command, name=f"undisturbed{r}", ATP_INCARNATION=2)
        for r in range(RANKS)
    ]
    for rank in ranks:
        assert rank.wait(120) == 0, rank.output()
    return (time.monotonic() - start) / iterations


def bench(cluster, iterations):
    return cluster.bench("-b", "1M", "-e", "1M", "-w", "0", "-n", str(iterations))


def run_while_the_switch_restarts(cluster, switch, iterations, incarnation, stats):
    """The ranks after they have ended, the new switch, and the time when it returned."""
    total = iterations * FRAGMENTS

    def completed():
        samples = counters_over_time(stats["server"])
        return samples[-1][1]["fragments_completed"] if samples else 0

    def wait_for_progress(fragments, what):
        wanted = completed() + fragments
        cluster.wait_until(lambda: completed() >= wanted, what, seconds=60)

    ranks = [
        cluster.start_rank(
            r, RANKS, bench(cluster, iterations), f"run{incarnation}rank{r}",
            ATP_INCARNATION=incarnation,
        )
        for r in range(RANKS)
    ]  # fmt: skip
    wait_for_progress(total // 5, "the first fifth of the run")
    switch.kill()
    wait_for_progress(total // 5, "progress without a switch")
    assert all(rank.running() for rank in ranks)

    switch = cluster.start_switch(*STATS, stats["switch"])
    returned = time.time()
    for rank in ranks:
        assert rank.wait(120) == 0, rank.output()
    assert "# Out of bounds values : 0 OK" in ranks[0].output()
    return ranks, switch, returned


def test_the_job_outlives_its_switch_and_returns_to_it(cluster):
    stats = {name: cluster.folder / f"{name}.jsonl" for name in ("server", "switch")}
    cluster.start_server(*STATS, stats["server"])
    switch = cluster.start_switch()
    iterations = min(5000, max(100, round(15 / run_undisturbed(cluster, 20))))
    for incarnation in range(3, 6):
        ranks, switch, returned = run_while_the_switch_restarts(
            cluster, switch, iterations, incarnation, stats
        )
        since = counted_since(counters_over_time(stats["server"]), returned + 2)
        if since["fragments_completed"] > 1000:
            break
        iterations *= 4  # other work on this machine has ended, so the run ended early
    assert since["fragments_completed"] > 1000, "too little happened to say anything"

    for rank in ranks:
        assert f"switch {cluster.switch_address} no longer answers" in rank.output()
        assert f"switch {cluster.switch_address} answers again" in rank.output()
    assert since["fragments_completed_by_one_packet"] >= 0.95 * since["fragments_completed"]
    # The new switch made these sums, and it started with empty tables.
    assert counters_over_time(stats["switch"])[-1][1]["complete_sums_sent"] > 1000
