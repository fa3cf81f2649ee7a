"""lab.ranks: torch's ranks on the hosts of a network, and the message about one that fails."""

import pytest

from lab.ranks import run_ranks


def shell(script):
    return "sh", "-c", script


@pytest.fixture
def two_hosts(make_network):
    return make_network("h0", "h1")


def test_each_host_gets_a_rank_and_the_address_of_the_first(two_hosts):
    script = shell('echo "$RANK of $WORLD_SIZE at $MASTER_ADDR: $MINE"')
    address = two_hosts["h0"].address
    assert run_ranks(two_hosts, script, 20, {"MINE": 7}) == [
        f"0 of 2 at {address}: 7\n",
        f"1 of 2 at {address}: 7\n",
    ]


def test_a_rank_that_fails_is_reported_at_once_with_what_it_said(two_hosts):
    script = shell("[ $RANK = 1 ] || exec sleep 1000; echo no such model; exit 3")
    with pytest.raises(SystemExit, match="rank 1 exited with code 3:\nno such model"):
        run_ranks(two_hosts, script, 500)


def test_a_rank_that_hangs_is_named(two_hosts):
    script = shell("[ $RANK = 0 ] || exit 0; echo here; exec sleep 1000")
    with pytest.raises(SystemExit, match=r"rank 0 is still running after 3 s:\nhere"):
        run_ranks(two_hosts, script, 3)
