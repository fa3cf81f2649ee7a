"""The planner's interconnect, as a cluster file (docs/plan/planner.md describes its keys)."""

from __future__ import annotations

import dataclasses

from atp.topology.text import (
    LEAST_BANDWIDTH,
    MOST_BANDWIDTH,
    FileError,
    bandwidth_text,
    duration_text,
    made_plain,
    place,
)

MAX_DEVICES = 2**20
_MAX_LEVELS = 12
Pairs = list[list[float]]  # bytes per second from each device to each other


@dataclasses.dataclass
class Level:
    name: str
    count: int
    kind: str = "switch"
    bandwidth: float = 0.0  # bytes per second, per link and direction
    latency: float = 0.0  # seconds


@dataclasses.dataclass
class Cluster:
    name: str
    levels: list[Level]  # from top to bottom
    remarks: list[str]  # comments at the top, on what was assumed
    pairs: Pairs | None = None

    def check(self, file: str) -> Cluster:
        """Refuses what the planner would refuse to read."""
        where = place(file)
        if not 1 <= len(self.levels) <= _MAX_LEVELS:
            found = f"found {len(self.levels)}"
            raise FileError(where, f"an interconnect needs 1 to {_MAX_LEVELS} levels, {found}")
        devices = 1
        for level in self.levels:
            devices *= level.count
            if not LEAST_BANDWIDTH <= level.bandwidth <= MOST_BANDWIDTH:
                rate = bandwidth_text(level.bandwidth)
                problem = (
                    f'found {rate} in the level "{level.name}", expected 1 B/s to 1000000 TB/s'
                )
                raise FileError(where, problem)
        if devices > MAX_DEVICES:
            raise FileError(
                where,
                f"the levels multiply to more than {MAX_DEVICES} devices; plan for the part that "
                "one tensor-parallel group uses",
            )
        return self

    def text(self) -> str:
        lines = [f"# {made_plain(remark)}" for remark in self.remarks]
        lines += [f"name: {_quoted(self.name)}", "levels:"]
        for level in self.levels:
            lines += [f"  - name: {_quoted(level.name)}", f"    count: {level.count}"]
            lines += [f"    kind: {level.kind}"]
            lines += [f"    bandwidth: {bandwidth_text(level.bandwidth)}"]
            if level.latency > 0:
                lines.append(f"    latency: {duration_text(level.latency)}")
        if self.pairs:
            lines += ["point_to_point:", "  unit: GB/s per direction", "  rows:"]
            lines += [f"    - [{', '.join(map(_gigabytes, row))}]" for row in self.pairs]
        return "\n".join(lines) + "\n"


def base_name(file: str) -> str:
    return made_plain(file.rpartition("/")[2])


def _quoted(text: str) -> str:
    """Always in double quotes, so that yes, 2 and a: b stay text."""
    plain = made_plain(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def _gigabytes(value: float) -> str:
    return f"{value / 1e9:f}".rstrip("0").rstrip(".")
