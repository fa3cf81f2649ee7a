"""Every kind of misuse ends in bounded time, with a message that says what, where and who.

Times are bounds after which a test fails, far above what is needed; none of them is a measurement.
Fragments that the path does not carry need a path of their own: tests/netns/test_path_mtu.py.
"""

import signal
import time

import pytest

RANKS = 4
SECONDS = 30  # a lease is five


def wait_for_the_middle_of_the_run(cluster, ranks):
    """Rank 0 of a benchmark prints its header once all have joined."""
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "all to join", SECONDS)
    time.sleep(0.5)


def assert_all_fail(ranks, *texts):
    for rank in ranks:
        code = rank.wait(SECONDS)
        output = rank.output()
        assert code not in (0, None), output
        assert code > 0, f"died of signal {-code}: {output}"
        for text in texts:
            assert text in output
    assert texts


def test_without_a_switch_at_the_address_the_job_goes_on_and_says_so(cluster):
    cluster.start_server()
    ranks = cluster.start_ranks(RANKS, cluster.bench("-b", "4K", "-e", "64K", "-n", "5"))
    for rank in ranks:
        assert rank.wait(SECONDS) == 0, rank.output()
        assert f"switch {cluster.switch_address} did not answer" in rank.output()
        assert f"going straight to server {cluster.server_address}" in rank.output()
    assert "# Out of bounds values : 0 OK" in ranks[0].output()


def test_without_a_server_joining_ends_and_names_the_server(cluster):
    cluster.start_switch()
    ranks = cluster.start_ranks(2, cluster.example("01_all_reduce"), ATP_JOIN_TIMEOUT=2)
    assert_all_fail(
        ranks, f"server {cluster.server_address}", "within 2 s", "is `atp server` running there?"
    )


def test_ranks_that_disagree_about_a_size_are_named(cluster):
    cluster.start_server()
    cluster.start_switch()
    # The benchmark's second operation is the first one of the size that it was given.
    small = cluster.bench("-b", "4K", "-e", "4K")
    large = cluster.bench("-b", "8K", "-e", "8K")
    ranks = [cluster.start_rank(r, RANKS, small if r < 3 else large) for r in range(RANKS)]
    assert_all_fail(ranks, "all_reduce #1 (", "ranks 0 to 2", "rank 3", "a different operation")


def test_ranks_that_disagree_about_the_order_are_named(cluster):
    cluster.start_server()
    cluster.start_switch()
    sums = cluster.bench("-b", "4K", "-e", "4K")
    averages = cluster.bench("-b", "4K", "-e", "4K", "--average")
    ranks = [cluster.start_rank(r, RANKS, averages if r == 1 else sums) for r in range(RANKS)]
    assert_all_fail(
        ranks, "all_reduce #1 (", "rank 1", "a different operation", "in the same order"
    )


def test_ranks_that_disagree_about_the_type_are_named(cluster):
    cluster.start_server()
    cluster.start_switch()
    # The same number of values, in the same number of packets.
    floats = cluster.bench("-b", "8K", "-e", "8K")
    brain_floats = cluster.bench("-b", "4K", "-e", "4K", "--dtype", "bfloat16")
    ranks = [cluster.start_rank(r, RANKS, floats if r else brain_floats) for r in range(RANKS)]
    assert_all_fail(ranks, "all_reduce #1 (", "rank 0", "a different operation")


def test_ranks_whose_types_have_no_fragment_in_common_are_told_of_each_other(cluster):
    cluster.start_server()
    cluster.start_switch()
    # Blocks begin with exponents, on a stream of their own.
    floats = cluster.bench("-b", "8K", "-e", "8K")
    integers = cluster.bench("-b", "8K", "-e", "8K", "--dtype", "int32")
    # Neither waits for the other for the whole time-out.
    ranks = [
        cluster.start_rank(r, RANKS, floats if r else integers, ATP_TIMEOUT=600)
        for r in range(RANKS)
    ]
    assert_all_fail(ranks, "all_reduce #1 (", "rank 0", "a different operation")


def test_a_rank_that_never_joins_is_named(cluster):
    cluster.start_server()
    cluster.start_switch()
    command = cluster.example("01_all_reduce")
    ranks = [cluster.start_rank(r, RANKS, command, ATP_JOIN_TIMEOUT=3) for r in (0, 1, 3)]
    assert_all_fail(ranks, "rank 2 has not joined within 3 s; the job has 4 ranks")


@pytest.mark.parametrize("wrong", [5, 65])  # 65 ranks need a wider bitmap than four
def test_a_rank_with_another_world_size_is_told_what_the_others_say(cluster, wrong):
    server = cluster.start_server("--stats-interval", "0.1")
    cluster.start_switch()
    command = cluster.bench("-b", "4K", "-e", "4K")
    ranks = [cluster.start_rank(r, RANKS, command, ATP_JOIN_TIMEOUT=8) for r in range(RANKS - 1)]
    # The server takes the first one's word; it does not matter which others have joined by then.
    cluster.wait_until(lambda: "1 job appeared" in server.output(), "the first rank")
    stray = cluster.start_rank(RANKS - 1, wrong, command, ATP_JOIN_TIMEOUT=8)
    assert_all_fail(
        [stray],
        f"rank 3 was refused: it says the job has {wrong:,} ranks, rank",
        " 4; start all ranks with the same world size",
    )
    assert_all_fail(ranks, "rank 3 has not joined within 8 s; the job has 4 ranks")


def test_of_two_workers_with_one_rank_the_second_is_refused(cluster):
    cluster.start_server()
    cluster.start_switch()
    ranks = cluster.start_ranks(RANKS, cluster.endless_bench())
    wait_for_the_middle_of_the_run(cluster, ranks)
    twin = cluster.start_rank(2, RANKS, cluster.endless_bench(), name="twin")
    assert_all_fail([twin], "rank 2 is taken by 127.0.0.1:")
    time.sleep(1)
    assert all(rank.running() for rank in ranks), "the twin has disturbed the job"


def test_a_killed_rank_is_named(cluster):
    cluster.start_server()
    cluster.start_switch()
    ranks = cluster.start_ranks(RANKS, cluster.endless_bench())
    wait_for_the_middle_of_the_run(cluster, ranks)
    ranks[3].signal(signal.SIGKILL)
    assert_all_fail(ranks[:3], "all_reduce #", "rank 3 (127.0.0.1) lost: no word from it for 5 s")


def test_a_frozen_rank_is_named(cluster):
    cluster.start_server()
    cluster.start_switch()
    ranks = cluster.start_ranks(RANKS, cluster.endless_bench())
    wait_for_the_middle_of_the_run(cluster, ranks)
    ranks[1].signal(signal.SIGSTOP)
    said = "rank 1 (127.0.0.1) lost: no word from it for 5 s"
    assert_all_fail([ranks[0], *ranks[2:]], "all_reduce #", said)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_gone_is_named(cluster, stop):
    server = cluster.start_server()
    cluster.start_switch()
    ranks = cluster.start_ranks(RANKS, cluster.endless_bench())
    wait_for_the_middle_of_the_run(cluster, ranks)
    server.signal(stop)
    assert_all_fail(
        ranks, "all_reduce #", f"server {cluster.server_address} does not answer", "refused"
    )


def test_a_server_that_restarted_is_named(cluster):
    server = cluster.start_server()
    cluster.start_switch()
    ranks = cluster.start_ranks(RANKS, cluster.endless_bench())
    wait_for_the_middle_of_the_run(cluster, ranks)
    server.kill()
    cluster.start_server()
    assert_all_fail(ranks, "all_reduce #", f"server {cluster.server_address} restarted")
