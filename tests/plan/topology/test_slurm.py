"""Slurm's topology.conf and topology.yaml."""

import pytest

from atp.topology import slurm

from .descriptions import error_of, has

TWO_TIERS = r"""# two leaves of four
SwitchName=leaf0 Nodes=tux[0-2],other
switchname=leaf1 nodes=tux[08-11] LinkSpeed=100
SwitchName=spine \
  Switches=leaf[0-1]
"""
YAML = """\
---
# two leaves of four
- topology: topo-default
  cluster_default: true
  tree:
    switches:
      - switch: leaf0
        nodes: "tux[0-2],other"   # quoted
      - switch: spine
        children: leaf[0-1]
      - nodes: tux[08-11]
        switch: leaf1
"""
UNEQUAL = """\
SwitchName=a Nodes=n[0-15]
SwitchName=b Nodes=n[16-31]
SwitchName=c Nodes=n[32-43]
SwitchName=top Switches=a,b,c
"""


def read(text, nodes="", **given):
    return slurm.read(text, "t", given, nodes)


@pytest.mark.parametrize("text", [TWO_TIERS, YAML], ids=["topology.conf", "topology.yaml"])
def test_a_tree_of_switches_becomes_levels(text):
    cluster = read(text)
    top, bottom = cluster.levels
    assert (top.name, top.count, top.bandwidth) == ("leaf switch", 2, 4 * 12.5e9)
    assert (bottom.name, bottom.count, bottom.bandwidth) == ("node", 4, 12.5e9)
    assert has(cluster.remarks, "tux0,tux1,tux2,other,tux08,tux09,tux10,tux11.")


def test_a_given_uplink_counts_per_leaf_switch_below():
    levels = read(
        "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\nSwitchName=c Nodes=n[4-5]\n"
        "SwitchName=d Nodes=n[6-7]\nSwitchName=x Switches=a,b\nSwitchName=y Switches=c,d\n"
        "SwitchName=top Switches=x,y\n",
        NODE=1e9,
        UPLINK=5e8,
    ).levels
    assert levels[0].name == "switch of tier 2"
    assert [level.bandwidth for level in levels] == [1e9, 5e8, 1e9]


@pytest.mark.parametrize(
    ("text", "given", "remark"),
    [
        (TWO_TIERS, {}, "the nodes' bandwidth is typical; a switch's uplinks"),
        (TWO_TIERS, {"NODE": 1e9}, "the nodes' bandwidth was given; a switch's uplinks"),
        (TWO_TIERS, {"UPLINK": 1e9}, "was given; the nodes' bandwidth is typical."),
        (TWO_TIERS, {"NODE": 1e9, "UPLINK": 1e9}, "were given."),
        ("SwitchName=a Nodes=n[0-3]\n", {"NODE": 1e9}, "were given."),
        ("SwitchName=a Nodes=n[0-3]\n", {}, "bandwidths: the nodes' bandwidth is typical."),
    ],
)
def test_it_says_which_bandwidths_were_given(text, given, remark):
    assert remark in read(text, **given).remarks[1]


def test_a_switch_above_one_switch_is_not_a_level():
    (level,) = read("SwitchName=a Nodes=n[0-3]\nSwitchName=top Switches=a\n").levels
    assert level.count == 4


def test_several_brackets_are_combined():
    assert has(read("SwitchName=a Nodes=r[0-1]n[1,3]\n").remarks, "r0n1,r0n3,r1n1,r1n3.")


def test_unequal_switches_are_one_switch_if_no_uplink_is_slower_than_its_nodes():
    for given in ({}, {"NODE": 1e9}, {"NODE": 1e9, "UPLINK": 16e9}):
        cluster = read(UNEQUAL, **given)
        (level,) = cluster.levels
        assert (level.name, level.count) == ("node", 44)
        assert level.bandwidth == given.get("NODE", 12.5e9)
        assert has(cluster.remarks, "The switches are unequal.")


def test_switches_of_unequal_depth_are_one_switch_in_the_order_of_the_tree():
    text = "SwitchName=r Switches=s,u\nSwitchName=s Switches=l\n"
    cluster = read(text + "SwitchName=u Nodes=n[2-4]\nSwitchName=l Nodes=n[0-1]\n")
    assert [level.count for level in cluster.levels] == [5]
    assert has(cluster.remarks, "n0,n1,n2,n3,n4.")


def test_slower_uplinks_need_a_regular_part_which_nodes_select():
    error = error_of(read, UNEQUAL, NODE=1e9, UPLINK=15e9)
    assert error.startswith("t:3: found 12 nodes, expected 16 nodes, like the switch on line 1; ")
    assert "select one with --nodes" in error
    for nodes in ("n[0-31]", "n[0-15],n[16-31]"):
        levels = read(UNEQUAL, nodes, NODE=1e9, UPLINK=15e9).levels
        assert [(level.count, level.bandwidth) for level in levels] == [(2, 15e9), (16, 1e9)]
    assert [level.count for level in read(UNEQUAL, "n[0-11,16-27,32-43]").levels] == [3, 12]
    assert [level.count for level in read(UNEQUAL, "n[0-3]").levels] == [4]


def test_nodes_select_one_of_several_trees():
    two = "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n"
    assert [level.count for level in read(two, "n[2-3]").levels] == [2]


ERRORS = [
    ("", "t: found no switch"),
    ("SwitchName=a\n", "t:1: found neither Nodes nor Switches"),
    ("SwitchName=a Nodes=n0 Switches=b\n", "found both Nodes and Switches"),
    ("Nodes=n[0-1]\n", "found no SwitchName"),
    ("SwitchName=a Nodes=n[0-\n", "t:1: Nodes: found"),
    ("SwitchName=a Nodes=n[3-1]\n", "expected an ascending range"),
    ("SwitchName=a Nodes=n[0-999999]\n", "of at most 65536 numbers"),
    ("SwitchName=a Nodes=n[0-60000,0-60000]\n", "at most 65536 names"),
    ("SwitchName=a Nodes=n[0-999]m[0-999]\n", "at most 65536 names"),
    ("SwitchName=a Nodes=n0,,n1\n", 't:1: Nodes: found ""'),
    ("SwitchName=a Nodes=n]\n", 't:1: Nodes: found "n]"'),
    ("SwitchName=a Node=n0\n", "did you mean Nodes?"),
    ("BlockName=a Nodes=n0\n", 'found "BlockName", expected a key of topology/tree'),
    ("SwitchName=a Nodes\n", "expected KEY=VALUE"),
    ("SwitchName=a,b Nodes=n[0-1]\n", "the name of one switch"),
    ("SwitchName=a Nodes=n0\nSwitchName=a Nodes=n1\n", 't:2: duplicate switch "a"'),
    (
        "SwitchName=a Nodes=n0\nSwitchName=b Nodes=n0\n",
        'already belongs to the switch "a"',
    ),
    ("SwitchName=a Switches=b\n", 't:1: found the switch "b"'),
    (
        "SwitchName=a Nodes=n[0-1]\nSwitchName=b Switches=a,a\n",
        't:2: the switch "a" already belongs to another one',
    ),
    ("SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n", "no switch above both"),
    ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "switches in a cycle"),
    (
        "SwitchName=t Nodes=n[0-1]\nSwitchName=a Switches=b\nSwitchName=b Switches=a\n",
        "switches in a cycle",
    ),
    ("SwitchName=a Nodes=n0\n", "one node"),
    ("SwitchName=a Nodes=n0\n" * 2000, "t:2: duplicate"),
    (
        "".join(f"SwitchName=s{at} Nodes=r{at}n[0-65535]\n" for at in range(40000)),
        "t:17: found more than 1048576 nodes",
    ),
    ("- topology: a\n  flat: true\n", 't:2: found "flat", expected a single topology that is a'),
    ("- topology: a\n  tree:\n    switches: []\n", "t: found no switch"),
    (YAML + "- topology: b\n", 't:13: found "topology", expected a single topology'),
    ("- topology: a\n  tree\n", 't:2: found "tree", expected KEY: VALUE'),
    ("- topology: a\n- switch: b\n  nodes: n[\n", 't:3: Nodes: found "n["'),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors_name_their_place(text, message):
    assert message in error_of(read, text)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("tux[0-5]", '--nodes: found "tux3", expected nodes that t has'),
        ("tux[", '--nodes: found "tux["'),
        ("tux0", "t: found one node, expected two or more"),
    ],
)
def test_nodes_that_cannot_be_selected_are_named(nodes, message):
    assert message in error_of(read, TWO_TIERS, nodes)


def test_a_long_chain_of_switches_is_read_in_little_time():
    names = range(20000)
    text = "".join(f"SwitchName=s{at} Switches=s{at + 1}\n" for at in names)
    text += "SwitchName=s20000 Nodes=n[0-3]\n"
    assert [level.count for level in read(text, "n[0-1]").levels] == [2]
