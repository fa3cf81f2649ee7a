"""Reads the counters that switch and server write while they run, as JSON lines."""

import json
import pathlib


def read(path: pathlib.Path) -> list[dict]:
    """Records of {"time_s", "role", "counters"}, the last one from the end of the run."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def share_summed_in_switch(record: dict | None, before: dict | None = None) -> float | None:
    """The share of completed fragments (since `before`) that arrived as one packet with all ranks.

    None if no fragment was completed.
    """
    if record is None:
        return None
    completed = _rise("fragments_completed", record, before)
    if completed == 0:
        return None
    return _rise("fragments_completed_by_one_packet", record, before) / completed


def _rise(name: str, record: dict, before: dict | None) -> int:
    return record["counters"][name] - (before["counters"][name] if before else 0)
