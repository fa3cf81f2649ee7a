"""Several hosts, each from its own file."""

import dataclasses

import pytest

from atp.topology import hosts, nvidia

from .descriptions import IRREGULAR, PAIRS, error_of, has, matrix


def host(name, text, network=0.0):
    machine = nvidia.read(text, f"{name}.txt", {})
    machine.network = network
    return hosts.Host(name, f"{name}.txt", machine)


def merge(*each, bandwidth=0.0):
    return hosts.merged(list(each), bandwidth)


def test_equal_hosts_are_the_children_of_one_switch():
    text = matrix(4, "NV12")
    cluster = merge(host("b", text), host("a", text), host("c", text), bandwidth=5e9)
    top, below = cluster.levels
    assert (top.name, top.count, top.kind, top.bandwidth) == ("host", 3, "switch", 5e9)
    assert below.count == 4
    assert "The hosts in the planner's order: b,a,c." in cluster.remarks


def test_a_hosts_link_is_that_of_its_cards_and_the_slowest_host_counts():
    text = matrix(2, "PIX")
    cluster = merge(host("a", text, 50e9), host("b", text, 25e9))
    assert cluster.levels[0].bandwidth == 25e9
    assert (
        "The links of hosts differ, from 25 GB/s per direction (b) to 50 GB/s per direction (a): "
        "the slowest counts."
    ) in cluster.remarks
    assert not has(cluster.remarks, "typical. Replace it")
    unknown = merge(host("a", text, 50e9), host("b", text))
    assert unknown.levels[0].bandwidth == 12.5e9
    assert has(unknown.remarks, "100 Gbit/s is typical")


def test_the_slower_hosts_links_count_in_a_level():
    cluster = merge(host("a", matrix(2, "NV4")), host("b", matrix(2, "NV2")))
    assert cluster.levels[1].bandwidth == 50e9
    assert has(cluster.remarks, "The links of level gpu differ")


def test_hosts_with_one_gpu_have_no_level_below():
    assert len(merge(host("a", matrix(1, "")), host("b", matrix(1, ""))).levels) == 1


def test_pairs_of_different_hosts_have_the_hosts_link():
    cluster = merge(host("a", IRREGULAR), host("b", IRREGULAR), bandwidth=5e9)
    assert len(cluster.pairs) == len(cluster.pairs[0]) == 6
    assert (cluster.pairs[3][5], cluster.pairs[2][3], cluster.pairs[5][0]) == (50e9, 5e9, 5e9)


def test_the_order_of_each_hosts_gpus_is_reported():
    cluster = merge(host("a", PAIRS), host("b", PAIRS))
    for name in "ab":
        assert has(cluster.remarks, f"CUDA_VISIBLE_DEVICES=0,2,1,3 on {name}.")


FOUR = matrix(4, "NV12")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            dataclasses.replace(host("a", FOUR), file="other/a.txt"),
            'other/a.txt: the host "a" occurs twice, also in a.txt; remove one, or name the hosts '
            "with --name HOST=FILE",
        ),
        (
            dataclasses.replace(host("b", FOUR), name=""),
            'b.txt: found the host name "", expected a name',
        ),
        (
            dataclasses.replace(host("b", FOUR), name="b\x1b[31m"),
            'b.txt: found the host name "b [31m"',
        ),
        (
            host("b", matrix(2, "NV12")),
            "b.txt: found 2 GPUs, expected 4 GPUs, like a.txt; the planner needs equal hosts",
        ),
        (
            host("b", PAIRS),
            "b.txt: found 2 x NVLink group (switch), 2 x gpu (pairs), expected 4 x gpu (switch), "
            "like a.txt",
        ),
    ],
    ids=["a host twice", "no name", "an escape sequence", "fewer GPUs", "other links"],
)
def test_hosts_that_cannot_be_merged_are_named(second, message):
    assert message in error_of(merge, host("a", FOUR), second)


def test_a_matrix_that_no_file_could_hold_is_refused():
    one = host("a", IRREGULAR)
    many = [dataclasses.replace(one, name=f"a{at}") for at in range(342)]
    assert "found 1026 GPUs whose pairs" in error_of(merge, *many)
