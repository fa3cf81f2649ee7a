"""However aggregators are placed and shared, the sums are the same."""

import json
import re

import pytest

from .conftest import atp

SECONDS = 30


def counters(path):
    return json.loads(path.read_text().splitlines()[-1])["counters"]


@pytest.mark.parametrize(
    ("switch_options", "server_options", "counted"),
    [
        (["--partition", "2"], [], None),
        (["--quota", "3"], [], "forwarded_over_quota"),
        (["--aggregators", "8"], ["--placement", "linear", "--aggregators", "8"], "collisions"),
        (["--aggregators", "8"], ["--placement", "hash"], "collisions"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_sums_are_right(cluster, tmp_path, switch_options, server_options, counted):
    stats = tmp_path / "switch.jsonl"
    cluster.start_server(*server_options)
    switch = cluster.start_switch("--stats", stats, *switch_options)
    ranks = cluster.start_ranks(2, cluster.bench("-b", "64K", "-e", "64K", "-n", "5"))
    for rank in ranks:
        assert rank.wait(SECONDS) == 0, rank.output()
    assert "# Out of bounds values : 0 OK" in ranks[0].output()
    switch.popen.terminate()
    assert switch.wait(SECONDS) == 0
    assert counters(stats)["complete_sums_sent"] > 0
    if counted:
        assert counters(stats)[counted] > 0


def test_a_job_beyond_the_partition_is_summed_by_the_server(cluster, tmp_path):
    stats = tmp_path / "switch.jsonl"
    cluster.start_server()
    switch = cluster.start_switch("--stats", stats, "--partition", "1")
    first = cluster.start_ranks(2, cluster.bench("-b", "64K", "-e", "64K", "-n", "1000000"))
    cluster.wait_until(lambda: "values per fragment" in first[0].output(), "the first job", SECONDS)
    cluster.job += 1
    second = [
        cluster.start_rank(r, 2, cluster.bench("-b", "64K", "-e", "64K", "-n", "5"), f"second {r}")
        for r in range(2)
    ]
    for rank in second:
        assert rank.wait(SECONDS) == 0, rank.output()
    assert "# Out of bounds values : 0 OK" in second[0].output()
    for rank in first:
        rank.kill()
    switch.popen.terminate()
    assert switch.wait(SECONDS) == 0
    assert counters(stats)["forwarded_no_region"] > 0


def test_two_jobs_share_few_aggregators_and_the_status_says_how(cluster):
    cluster.start_server()
    cluster.start_switch("--aggregators", "16")
    bench = cluster.bench("-b", "64K", "-e", "64K", "-n", "500")
    jobs = {
        job: [cluster.start_rank(r, 4, bench, f"job {job} {r}", ATP_JOB=job) for r in range(4)]
        for job in (7, 8)
    }
    held = set()

    def both_have_held_and_collided():
        status = json.loads(atp("status", cluster.switch_address, "--json").stdout)
        assert (status["aggregators"]["places"], status["aggregators"]["first_come"]) == (16, False)
        of = {job["job"]: job["aggregators"] for job in status["jobs"]}
        held.update(job for job, its in of.items() if its["held"] > 0)
        assert all(its["part"] in (8, 16) and its["limit"] == 16 for its in of.values())
        share = {job: its["collided"] / max(1, its["gradients"]) for job, its in of.items()}
        assert all(its["gain"] == pytest.approx(3 * share[job]) for job, its in of.items())
        assert (status["aggregators"]["enough"] > 16) == any(share.values())
        return held == {7, 8} and all(share.values())

    cluster.wait_until(both_have_held_and_collided, "collisions of both jobs", SECONDS)
    for ranks in jobs.values():
        for rank in ranks:
            assert rank.wait(2 * SECONDS) == 0, rank.output()
        assert "# Out of bounds values : 0 OK" in ranks[0].output()


def test_a_worker_by_the_papers_rules_has_no_room_that_collisions_cut(cluster):
    cluster.start_server()
    cluster.start_switch("--aggregators", "2", "--places", "1", "--first-come")
    bench = cluster.bench("-b", "256K", "-e", "256K", "-n", "20", "--counters")
    cuts = {}
    for cluster.job, policy in enumerate(("aimd", "paper"), 1):
        ranks = [
            cluster.start_rank(r, 2, bench, f"{policy} {r}", ATP_CONGESTION=policy)
            for r in range(2)
        ]
        for rank in ranks:
            assert rank.wait(SECONDS) == 0, rank.output()
        said = ranks[0].output()
        assert "# Out of bounds values : 0 OK" in said
        found = dict(re.findall(r"^# +(\w+) (\d+)$", said, re.MULTILINE))
        assert int(found["parameters_collided"]) > 0, said
        cuts[policy] = int(found.get("room_cuts", 0))
    assert cuts["aimd"] > 0 and cuts["paper"] == 0, cuts


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["switch", "--aggregators", "10", "--partition", "11"], "use at most --partition 10"),
        (["switch", "--quota", "0"], "--quota"),
        (["switch", "--places", "0"], "--places"),
        (["switch", "--places", "17"], "--places"),
        (["server", "--placement", "random"], "--placement"),
        (["server", "--placement", "linear", "--aggregators", "65536"], "--aggregators"),
        (["server", "--aggregators", "8"], "--aggregators requires --placement linear"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_wrong_use_is_refused(cluster, command, message):
    process = cluster.start("wrong", [cluster.atp, *command])
    assert process.wait(SECONDS) == 2
    assert message in process.output()


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ([], []),
        (["--quota", "8"], []),
        (["--partition", "4"], ["--weights has no effect with --partition"]),
        (["--first-come"], ["--weights has no effect with --first-come"]),
        (["--partition", "4", "--first-come"], ["--first-come has no", "--weights has no"]),
    ],
    ids=str,
)
def test_a_switch_says_which_options_have_no_effect(cluster, tmp_path, beside, said):
    weights = tmp_path / "weights.yaml"
    weights.write_text("jobs: [{job: 7, weight: 3}]\n")
    output = cluster.start_switch("--weights", weights, *beside).output()
    assert all(words in output for words in said), output
    assert output.count("no effect") == len(said), output
