"""A switch is killed and comes back in mid-run: the job goes on, with the same bits.

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


def share_summed_in_the_switch(samples, start):
    """Of the fragments that completed after `start`: those whose first packet had all ranks."""
    before = [counters for when, counters in samples if when <= start][-1]
    after = samples[-1][1]

    def rise(name):
        return after[name] - before[name]

    assert rise("fragments_completed") > 1000, "too little happened to say anything"
    return rise("fragments_completed_by_one_packet") / rise("fragments_completed")


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


def test_the_job_outlives_its_switch_and_returns_to_it(cluster):
    server_stats = cluster.folder / "server.jsonl"
    cluster.start_server(*STATS, server_stats)
    switch = cluster.start_switch()
    iterations = min(5000, max(100, round(15 / run_undisturbed(cluster, 20))))
    total = iterations * FRAGMENTS

    def completed():
        samples = counters_over_time(server_stats)
        return samples[-1][1]["fragments_completed"] if samples else 0

    def wait_for_progress(fragments, what):
        wanted = completed() + fragments
        cluster.wait_until(lambda: completed() >= wanted, what, seconds=60)

    ranks = cluster.start_ranks(RANKS, bench(cluster, iterations))
    wait_for_progress(total // 5, "the first fifth of the run")
    switch.kill()
    wait_for_progress(total // 5, "progress without a switch")
    assert all(rank.running() for rank in ranks)

    switch_stats = cluster.folder / "switch.jsonl"
    cluster.start_switch(*STATS, switch_stats)
    returned = time.time()

    for rank in ranks:
        assert rank.wait(120) == 0, rank.output()
    assert "# Out of bounds values : 0 OK" in ranks[0].output()
    for rank in ranks:
        assert f"switch {cluster.switch_address} no longer answers" in rank.output()
        assert f"switch {cluster.switch_address} answers again" in rank.output()

    assert share_summed_in_the_switch(counters_over_time(server_stats), returned + 2) >= 0.95
    # The new switch has done it, and it began with empty tables.
    assert counters_over_time(switch_stats)[-1][1]["complete_sums_sent"] > 1000
