"""algorithm="auto": which paths to sum a group has, and how long each is expected to take.

All decisions use only values that the ranks have exchanged through the group's store, so every rank
decides the same. The figures found here, and later the ranks' measurements, determine which path an
operation takes (atp/collective/tuner.h); the results are the same.
"""

import dataclasses
import datetime
import json
import logging
import os
import re

import torch.distributed as dist

from atp.torch._watch import Deadline

TIMES_VARIABLE = "ATP_EXPECTED_TIMES"

_PATHS = ("innetwork", "ring")
_JUDGED_EVERY = 256  # operations
# Sizes of the probe's sums in values, each by both paths. The next size gets as many rounds as fit
# into the limit. The largest matters most: only from there on are sums spread over servers.
_PROBED = (1024, 16384, 262144)
_ROUNDS = 3
_PROBE_LIMIT_NS = 800_000_000

NO_ROUTE = "no route to a server was given: set ATP_ROUTE or Options.route"
# The end of an error: why "auto" does not use the other path.
WHY_NO_RING = (
    "this job has a key (ATP_KEY_FILE), and the connections of a ring have none, so only an "
    "explicit choice makes its ranks sum over one: ATP_ALGORITHM=ring or Options(algorithm='ring')"
)

_log = logging.getLogger("atp.torch")


@dataclasses.dataclass(frozen=True)
class Figures:
    """The time of a float32 sum on each path: a latency, and a time per byte."""

    innetwork: tuple[int, int]  # nanoseconds, picoseconds
    ring: tuple[int, int]
    text: str  # the source of these numbers

    def are_ever_better_by_ring(self) -> bool:
        return self.ring[0] < self.innetwork[0] or self.ring[1] < self.innetwork[1]


def given_figures(meeting) -> Figures | None:
    """The figures that `atp run --cluster` passes; they apply only to the group of all ranks."""
    text = os.environ.get(TIMES_VARIABLE)
    if not text or not meeting.is_default:
        return None
    found = dict(re.findall(r"(\w+)=([^;\s]+)", text))
    try:
        read = {path: _figures(found[path]) for path in _PATHS}
    except (KeyError, ValueError):
        raise ValueError(
            f"{TIMES_VARIABLE}={text!r}: expected innetwork=SECONDS,SECONDS_PER_BYTE;"
            "ring=SECONDS,SECONDS_PER_BYTE, e.g. innetwork=1e-4,4e-8;ring=6e-4,1.5e-8"
        ) from None
    return Figures(**read, text=text.strip())


def _figures(text: str) -> tuple[int, int]:
    latency, per_byte = (float(number) for number in text.split(","))
    if not 0 <= latency <= 1e3 or not 0 < per_byte <= 1:
        raise ValueError(text)
    return round(latency * 1e9), max(1, round(per_byte * 1e12))


def made_in_memory(meeting, make, deadline):
    """(the group that sums in its host's memory, "") or, on all ranks, (None, why that failed)."""
    group, why = _made_by_all(meeting, "memory", make, deadline)
    if group is not None:
        group.choice = "the host's memory: all ranks are on one host"
    # What follows is advice for those who cannot do without.
    return group, why.partition(", and no route to a server")[0]


def choose_paths(meeting, options, deadline, figures, *, network, peers, around_ring, no_memory=""):
    """The group's backend, with both paths or the only possible one; `choice` has the reason.

    network: creates a backend for sums in the network, or raises a RuntimeError.
    peers: the connections between ranks (_backend.Peers).
    around_ring: creates a backend whose sums only go around a ring.
    no_memory: why ranks of one host cannot sum in its memory, after they have tried.
    """
    if no_memory and meeting.is_first:
        _log.warning("atp: all ranks are on one host, but cannot sum in its memory: %s", no_memory)
    make = network if options.route else _no_route
    group, why_no_network = _made_by_all(meeting, "innetwork", make, deadline)
    if group is not None and figures is not None and not figures.are_ever_better_by_ring():
        return _chosen(
            meeting, group, f"in the network: faster for all sizes according to {TIMES_VARIABLE}"
        )
    ring, why_no_ring = _made_by_all(meeting, "ring", peers.connect, deadline)
    if group is None and ring is None:
        in_memory = f"in the host's memory ({no_memory}) nor " if no_memory else ""
        raise dist.DistBackendError(
            f"this group can sum neither {in_memory}in the network ({why_no_network}) nor over a "
            f"ring ({why_no_ring}); if one of these addresses is wrong, set ATP_SOCKET_IFNAME on "
            "that rank's host"
        )
    if group is None:
        reason = f"over a ring: the ranks cannot sum in the network ({why_no_network})"
        # Not a problem but the usual case, where nobody has set up a switch or a server.
        is_wanted = why_no_network == NO_ROUTE
        level = logging.INFO if is_wanted else logging.WARNING
        return _chosen(meeting, around_ring(), reason, level)
    if ring is None:
        _drop(meeting, peers, deadline)
        reason = (
            f"in the network: the ranks cannot connect to form a ring ({why_no_ring}); barriers, "
            "broadcasts and all that is not a sum in the network need such TCP connections, too, "
            "in at least one direction between any two ranks"
        )
        return _chosen(meeting, group, reason, logging.WARNING)
    source = TIMES_VARIABLE
    if figures is None:
        figures, failed = _probe(meeting, options, deadline, group, ring)
        source = "what the ranks measured"
        if "innetwork" in failed and "ring" in failed:
            raise dist.DistBackendError(
                f"this group can sum neither in the network ({failed['innetwork']}) nor over a "
                f"ring ({failed['ring']})"
            )
        if "innetwork" in failed:
            reason = f"over a ring: a sum in the network has failed ({failed['innetwork']})"
            return _chosen(meeting, around_ring(), reason, logging.WARNING)
        if "ring" in failed:
            reason = f"in the network: a sum over a ring has failed ({failed['ring']})"
            _drop(meeting, peers, deadline)
            return _chosen(meeting, group, reason, logging.WARNING)
    group.set_peers(ring)
    group.add_ring(
        network_figures=figures.innetwork,
        ring_figures=figures.ring,
        judged_every=_JUDGED_EVERY,
    )
    return _chosen(meeting, group, f"{_described(group, figures)}, according to {source}")


def _drop(meeting, peers, deadline):
    """Ends the ranks' connections at all ranks, so that none takes a new one for an old one."""
    peers.drop()
    meeting.exchange("path/dropped", "-", deadline)


def _no_route():
    raise RuntimeError(NO_ROUTE)


def _chosen(meeting, group, reason: str, level: int = logging.INFO):
    group.choice = reason
    if group.rank() == 0:
        _log.log(level, "atp: group of %d ranks sums %s", group.size(), reason)
    return group


def _made_by_all(meeting, path: str, make, deadline: Deadline):
    """(the result of `make`, "") or, on all ranks, (None, why a rank could not make it)."""
    made, error = None, ""
    try:
        made = make()
    except RuntimeError as failure:
        error = _first_line(failure)
    errors = meeting.exchange(f"path/{path}", error or "-", deadline)
    if set(errors) == {NO_ROUTE}:
        return None, NO_ROUTE
    why = _first_failure(meeting, {rank: e for rank, e in enumerate(errors) if e != "-"})
    return (None, why) if why else (made, "")


def _probe(meeting, options, deadline, group, ring):
    """(figures, the paths that failed and why)."""
    measures = {
        "innetwork": group.measure,
        "ring": ring.measure,
    }
    points = {path: [] for path in _PATHS}
    rounds = _ROUNDS
    for values in _PROBED:
        said = {}
        for path in _PATHS:
            longest = min(options.join_timeout, deadline.most)
            said[path] = _measured(measures[path], values, rounds, longest, meeting.interruption)
        of_all = [
            json.loads(text)
            for text in meeting.exchange(f"probe/{values}", json.dumps(said), deadline)
        ]
        failed = {}
        for path in _PATHS:
            errors = {r: said[path] for r, said in enumerate(of_all) if isinstance(said[path], str)}
            if errors:
                failed[path] = _first_failure(meeting, errors)
            else:
                points[path].append((4 * values, max(said[path] for said in of_all)))
        if failed:
            return None, failed
        rounds = _rounds_of_next([points[path][-1][1] for path in _PATHS])
        if rounds == 0:
            break
    return Figures(**{path: line_through(points[path]) for path in _PATHS}, text="measured"), {}


def _rounds_of_next(nanoseconds: list[int]) -> int:
    """How many rounds of a size 16 times as large fit into the limit, after one that is not timed.

    nanoseconds: what each path took for the last size.
    """
    return min(_ROUNDS, max(0, _PROBE_LIMIT_NS // (16 * max(1, sum(nanoseconds))) - 1))


def _measured(
    measure, values: int, rounds: int, timeout: datetime.timedelta, interruption
) -> int | str:
    try:
        return measure(values=values, rounds=rounds, timeout=timeout, interruption=interruption)
    except RuntimeError as failure:
        return _first_line(failure)


def line_through(points: list[tuple[int, int]]) -> tuple[int, int]:
    """(latency in ns, ps per byte), whole numbers, from the first and the last of (bytes, ns)."""
    (small, short), (large, long) = points[0], points[-1]
    if large == small:
        return 0, max(1, 1000 * short // small)
    per_byte = max(1, 1000 * (long - short) // (large - small))
    return max(0, short - per_byte * small // 1000), per_byte


def _described(group, figures: Figures) -> str:
    begins = group.tuner_counts()["ring_from_bytes"]
    if begins is None:
        return f"in the network, and never over a ring ({_numbers(figures)})"
    if begins <= 1:
        return f"over a ring ({_numbers(figures)})"
    return f"in the network, and over a ring from {begins} bytes up ({_numbers(figures)})"


def _numbers(figures: Figures) -> str:
    def of(path):
        latency, per_byte = getattr(figures, path)
        return f"{path} {latency / 1e3:.0f} us and {per_byte / 1e3 * 1.048576:.3g} ms per MiB"

    return " ".join(f"{of(path)}{',' if path == _PATHS[0] else ''}" for path in _PATHS)


def _first_failure(meeting, errors: dict[int, str]) -> str:
    """Of a rank that knows why, if there is one: others may only have waited for it."""
    for rank in sorted(errors, key=lambda rank: ("not joined within" in errors[rank], rank)):
        return f"{meeting.name_of(rank)}: {errors[rank]}"
    return ""


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
