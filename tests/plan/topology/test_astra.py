"""Network descriptions of ASTRA-sim."""

import pytest

from atp.topology import astra

from .descriptions import error_of


def lists(topology, npus, bandwidth, latency):
    return (
        f"topology: [{topology}]\nnpus_count: [{npus}]\nbandwidth: [{bandwidth}]\n"
        f"latency: [{latency}]\n"
    )


def test_dimensions_come_innermost_first():
    text = lists("Ring, FullyConnected, Switch", "2, 8, 4", "200.0, 100.0, 50.0", "50, 500, 2000")
    top, middle, bottom = astra.read(text.replace("]\n", "]  # comment\n", 1), "net.yml").levels
    assert (top.kind, top.count, top.bandwidth) == ("switch", 4, 50 * 2**30 * 16)
    assert top.latency == pytest.approx(2e-6)
    assert (middle.kind, bottom.kind, bottom.bandwidth) == ("full", "ring", 200 * 2**30)


def test_rings_of_rings_become_a_torus():
    levels = astra.read(lists("Ring, Ring", "4, 4", "25, 25", "0, 0"), "n").levels
    assert [(level.kind, level.bandwidth) for level in levels] == [("torus", 25 * 2**30)] * 2


def test_lists_may_be_quoted_go_on_and_end_in_a_comma():
    text = (
        "---\n\n# a network\ntopology: [ 'Ring',\n  \"Switch\", ]\r\nnpus_count:\n  [4, # 4\n 2]\n"
    )
    levels = astra.read(text + "bandwidth: [25, 10]\nlatency: [100, 0]", "n").levels
    assert [(level.kind, level.count) for level in levels] == [("switch", 2), ("ring", 4)]


ERRORS = [
    (lists("Ring", "4, 2", "1", "0"), "n:2: npus_count: found 2 entries, expected 1"),
    (lists("", "", "", ""), "n:1: topology: found 0 entries, expected one per dimension"),
    (lists("Rings", "4", "1", "0"), 'n:1: topology[0]: found "Rings"'),
    (lists("Ring", "4", "-1", "0"), 'n:3: bandwidth[0]: found "-1"'),
    (lists("Ring", '"4"', "1", "0"), "n:2: npus_count[0]: found"),
    (lists("Ring", "4", "1", "0").replace("bandwidth", "bandwith"), "did you mean bandwidth"),
    ("topology: [Ring]\nbandwidth: [1]\nlatency: [0]\n", "npus_count: is missing"),
    ("topology: [Ring]\ntopology: [Ring]\n", "n:2: topology: duplicate key"),
    ("topology: [Ring]\nnpus_count: 4\n", 'n:2: found "npus_count: 4", expected KEY: [VALUE'),
    ("topology: [[Ring]]\n", "n:1: found"),
    ("topology: [Ring\n", "n:1: found"),
    (lists("Ring,,", "4", "1", "0"), "n:2: npus_count: found 1 entries, expected 2"),
    (lists("Ring", "1048577", "1", "0"), "n:2: npus_count[0]: found"),
    (
        lists("Ring, Switch", "1000000, 2", "1, 1", "0, 0"),
        "n:2: npus_count[1]: found 2000000 NPUs up to this dimension, expected at most 1048576",
    ),
    (
        lists(*(", ".join([one] * 13) for one in ("Ring", "1", "1", "0"))),
        "n: an interconnect needs 1 to 12 levels, found 13",
    ),
    (lists("Ring", "4", "1e-300", "0"), 'in the level "npu", expected 1 B/s to 1000000 TB/s'),
    (lists("Ring", "4", "1", "nan"), 'n:4: latency[0]: found "nan"'),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors_name_their_place(text, message):
    assert message in error_of(astra.read, text, "n")
