"""Slurm's topology/tree as levels of switches, with one device per node.

    SwitchName=leaf0 Nodes=tux[0-3]               # topology.conf
    SwitchName=leaf1 Nodes=tux[4-7]
    SwitchName=spine Switches=leaf[0-1]

topology.yaml, which replaces that file since Slurm 25.05, has the same in other words. Neither has
bandwidths: LinkSpeed is a number without a unit that Slurm ignores. So typical ones are used, which
the user may change.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import re
from collections.abc import Iterator

from atp.topology.cluster import MAX_DEVICES, Cluster, Level, base_name
from atp.topology.slurm_names import names_of
from atp.topology.text import FileError, listed, place, refuse, shown

CLASSES = ("NODE", "UPLINK")
_USUAL_NODE = 12.5e9  # bytes per second
_SHOWN = 16
_KEYS = ("SwitchName", "Nodes", "Switches", "LinkSpeed")
_YAML_KEYS = {"switch": "SwitchName", "nodes": "Nodes", "children": "Switches"}
_AROUND = ("topology", "cluster_default", "tree", "switches")  # the other keys of topology.yaml

Field = tuple[int, str, str]  # its line, key and value


@dataclasses.dataclass
class _Switch:
    line: int
    nodes: list[str] = dataclasses.field(default_factory=list)
    switches: list[str] = dataclasses.field(default_factory=list)

    def text(self) -> str:
        if self.nodes:
            return f"{len(self.nodes)} node" + ("s" if self.nodes[1:] else "")
        return f"{len(self.switches)} switch" + ("es" if self.switches[1:] else "")


def read(text: str, file: str, given: dict[str, float], nodes: str = "") -> Cluster:
    """`given` has bandwidths by the names in CLASSES; `nodes` selects a part of the cluster."""
    tree = _Tree(file)
    is_yaml = re.search(r"^[ \t]*(- *)?topology[ \t]*:", text, re.MULTILINE)
    for fields in _yaml_fields(text, file) if is_yaml else _conf_fields(text, file):
        tree.add(fields)
    tree.check_parents()
    if nodes:
        tree.select(nodes)
    tiers = tree.tiers()
    order = tree.order(tiers[0][0])
    if len(order) < 2:
        refuse(place(file), "one node", "two or more")
    node, uplink = given.get("NODE", _USUAL_NODE), given.get("UPLINK")
    remarks = [f"Imported from {file}, a topology of Slurm.", _bandwidths(given, len(tiers) > 1)]
    if _is_even(tiers, file, node, uplink):
        levels = _levels(tiers, len(order), node, uplink)
    else:
        levels = [Level("node", len(order), bandwidth=node)]
        remarks.append(
            "The switches are unequal. Their uplinks are as fast as the links of all nodes below "
            "them, so one switch with all nodes is as fast as this tree."
        )
    # The planner orders devices by the levels, which may differ from the order of their names.
    names = ",".join(order[:_SHOWN]) + (f",... of {len(order)}" if order[_SHOWN:] else "")
    remarks.append(f"The nodes, one device each, in the planner's order: {names}.")
    return Cluster(base_name(file), levels, remarks).check(file)


def _conf_fields(text: str, file: str) -> Iterator[list[Field]]:
    """Of each line, without comments; one that ends in a backslash goes on in the next one."""
    lines = re.sub("#.*|\r$", "", text, flags=re.MULTILINE).split("\n")
    joined, first = "", 1
    for number, line in enumerate(lines, 1):
        joined += line.removesuffix("\\")
        if line.endswith("\\") and number < len(lines):
            continue
        fields = []
        for word in re.findall("[^ \t\r]+", joined):
            key, equals, value = word.partition("=")
            if not equals:
                refuse(place(file, first, key), shown(word), "KEY=VALUE")
            fields.append((first, key, value))
        if fields:
            yield fields
        joined, first = "", number + 1


def _yaml_fields(text: str, file: str) -> Iterator[list[Field]]:
    """Of each switch, as Slurm's guide writes them: one key per line, in one topology, a tree."""
    topologies = 0
    fields: list[Field] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = re.sub("(^|[ \t])#.*", "", line).strip()
        entry = re.fullmatch(r"(- *)?(\w+)[ \t]*:([ \t].*)?", line)
        if line in ("", "---"):
            continue
        if not entry:
            refuse(place(file, number), shown(line), "KEY: VALUE")
        key, value = entry[2], (entry[3] or "").strip().strip("\"'")
        topologies += key == "topology"
        if key not in (*_AROUND, *_YAML_KEYS) or topologies > 1:
            expected = f"a single topology that is a tree, with {listed((*_AROUND, *_YAML_KEYS))}"
            refuse(place(file, number), shown(key), expected, "keep that tree alone")
        if entry[1] and fields:
            yield fields
            fields = []
        if key in _YAML_KEYS:
            fields.append((number, _YAML_KEYS[key], value))
    if fields:
        yield fields


class _Tree:
    def __init__(self, file: str) -> None:
        self._file = file
        self._switches: dict[str, _Switch] = {}
        self._nodes = 0

    def add(self, fields: list[Field]) -> None:
        found = {}
        for line, key, value in fields:
            where = place(self._file, line, key)
            known = {name.lower(): name for name in _KEYS}
            if key.lower() not in known:
                near = difflib.get_close_matches(key.lower(), known, 1)
                advice = f"did you mean {known[near[0]]}?" if near else f"use {listed(_KEYS)}"
                refuse(where, shown(key), "a key of topology/tree", advice)
            name = known[key.lower()]
            found[name] = [] if name == "LinkSpeed" else names_of(value, where)
            if name == "SwitchName" and len(found[name]) != 1:
                refuse(where, shown(value), "the name of one switch")
        switch = _Switch(fields[0][0], found.get("Nodes", []), found.get("Switches", []))
        where = place(self._file, switch.line)
        if "SwitchName" not in found:
            refuse(where, "no SwitchName", "the name of the line's switch")
        if bool(switch.nodes) == bool(switch.switches):
            what = "both Nodes and Switches" if switch.nodes else "neither Nodes nor Switches"
            expected = "one of them, because a level of the planner has children of one kind"
            refuse(where, what, expected)
        (name,) = found["SwitchName"]
        if name in self._switches:
            raise FileError(where, f"duplicate switch {shown(name)}; remove one")
        self._switches[name] = switch
        self._nodes += len(switch.nodes)
        if self._nodes > MAX_DEVICES:
            refuse(where, f"more than {MAX_DEVICES} nodes", f"at most {MAX_DEVICES}")

    def check_parents(self) -> None:
        """Every switch and node belongs to at most one switch."""
        if not self._switches:
            refuse(place(self._file), "no switch", "lines with SwitchName=, or a tree in YAML")
        parents: set[str] = set()
        switch_of_node: dict[str, str] = {}
        for name, switch in self._switches.items():
            where = place(self._file, switch.line)
            for child in switch.switches:
                if child not in self._switches:
                    refuse(where, f"the switch {shown(child)}", "a switch with its own line")
                if child in parents:
                    problem = f"the switch {shown(child)} already belongs to another one"
                    raise FileError(where, problem)
                parents.add(child)
            for node in switch.nodes:
                if node in switch_of_node:
                    owner = shown(switch_of_node[node])
                    problem = f"the node {shown(node)} already belongs to the switch {owner}"
                    raise FileError(where, problem)
                switch_of_node[node] = name

    def select(self, nodes: str) -> None:
        """Removes all other nodes, and the switches that then have none."""
        wanted = set(names_of(nodes, "--nodes"))
        known = {node for switch in self._switches.values() for node in switch.nodes}
        if unknown := wanted - known:
            refuse("--nodes", shown(min(unknown)), f"nodes that {self._file} has")
        for switch in self._switches.values():
            switch.nodes = [node for node in switch.nodes if node in wanted]
        owners = {child: name for name, each in self._switches.items() for child in each.switches}
        left = {name: len(each.nodes or each.switches) for name, each in self._switches.items()}
        empty = [name for name, children in left.items() if children == 0]
        for name in empty:  # which grows
            del self._switches[name]
            owner = owners.get(name, "")
            left[owner] = left.get(owner, 0) - 1
            if left[owner] == 0:
                empty.append(owner)
        for switch in self._switches.values():
            switch.switches = [child for child in switch.switches if child in self._switches]

    def tiers(self) -> list[list[_Switch]]:
        """The switches of each tier, from the root downwards."""
        below = collections.Counter(c for each in self._switches.values() for c in each.switches)
        roots = sorted(name for name in self._switches if name not in below)
        if len(roots) > 1:
            found = f"no switch above both {shown(roots[0])} and {shown(roots[1])}"
            advice = "select the nodes below one of them with --nodes"
            where = place(self._file, self._switches[roots[1]].line)
            refuse(where, found, "a single tree", advice)
        tiers = [[self._switches[name] for name in roots]]
        while names := [child for switch in tiers[-1] for child in switch.switches]:
            tiers.append([self._switches[name] for name in names])
        if sum(map(len, tiers)) != len(self._switches):
            expected = "a single tree with all of them"
            refuse(place(self._file), "switches in a cycle", expected)
        return tiers

    def order(self, root: _Switch) -> list[str]:
        """The nodes, from left to right."""
        nodes: list[str] = []
        left = [root]
        while left:
            switch = left.pop()
            nodes += switch.nodes
            left += [self._switches[child] for child in reversed(switch.switches)]
        return nodes


def _is_even(tiers: list[list[_Switch]], file: str, node: float, uplink: float | None) -> bool:
    """Whether all switches of a tier have as many children of the same kind.

    If not, no uplink may be slower than the links of all nodes below it together.
    """
    unequal = [
        (switch, tier[0]) for tier in tiers for switch in tier if switch.text() != tier[0].text()
    ]
    most = max(len(switch.nodes) for tier in tiers for switch in tier)
    if unequal and uplink is not None and uplink < most * node:
        switch, first = unequal[0]
        expected = f"{first.text()}, like the switch on line {first.line}"
        advice = (
            "the planner needs a regular tree if uplinks are slower than the nodes' links "
            "together: select one with --nodes"
        )
        refuse(place(file, switch.line), switch.text(), expected, advice)
    return not unequal


def _levels(
    tiers: list[list[_Switch]], nodes: int, node: float, uplink: float | None
) -> list[Level]:
    """A higher switch has the given uplink per leaf switch below it."""
    levels = []
    for at, tier in enumerate(tiers):
        below = len(tiers) - 1 - at
        count = len(tier[0].nodes or tier[0].switches)
        if count == 1:
            continue  # this level offers no choice
        total = node * nodes if uplink is None or below == 0 else uplink * len(tiers[-1])
        name = ("node", "leaf switch")[below] if below < 2 else f"switch of tier {below}"
        levels.append(Level(name, count, bandwidth=total / (len(tier) * count)))
    return levels


def _bandwidths(given: dict[str, float], has_uplinks: bool) -> str:
    """Which were given and which are assumed."""
    node = "was given" if "NODE" in given else "is typical"
    if has_uplinks and "UPLINK" not in given:
        said = (
            f"the nodes' bandwidth {node}; a switch's uplinks together are assumed to be as fast "
            "as its nodes' links."
        )
    elif "NODE" in given:
        said = "both were given."
    else:
        above = "the bandwidth above leaf switches was given; " if "UPLINK" in given else ""
        said = f"{above}the nodes' bandwidth {node}."
    return f"It contains no bandwidths: {said} Replace them with yours."
