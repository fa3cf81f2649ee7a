"""The keys of a group's packets, and how ranks without any get them (docs/operate/operations.md).

A rank with a key file (ATP_KEY_FILE) makes the keys of any job of its tenant. If rank 0 of a group
has one and others have none, it gives them the keys of the group's job through the store: never
the tenant's, and not if all have the file. Without keys this adds
no access to the store: whether a rank has a key is part of what it publishes anyway, which is the
job's number on rank 0 and its presence on the others.

A process keeps the keys that it was given. If it is rank 0 of a later group, without the rank that
has the file, that group takes the number of the job whose keys it has, with another incarnation.
"""

import dataclasses
from collections.abc import Callable

import torch.distributed as dist

from atp.torch._watch import Deadline, Watch

_SEPARATOR = "\n"  # between a rank's name and its mark in what it publishes


@dataclasses.dataclass(frozen=True)
class _Given:
    mark: str
    job: int
    keys: str  # as the extension reads them


# The last keys that this process was given.
_given: _Given | None = None


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the ranks of a group meet, and how messages name them."""

    store: dist.Store
    rank: int
    size: int
    names: Callable[[list[int]], str]
    group: str
    watch: Watch

    def name(self, rank: int) -> str:
        return self.names([rank])

    @property
    def whom(self) -> str:
        return f"all ranks of group {self.group!r}, or to {self.name(0)} alone (see ATP_KEY_FILE)"


class GroupKeys:
    """One rank's part in agreeing on the keys, in one meeting of a group."""

    def __init__(self, own=None, are_used: bool = True):
        """own: the key in this rank's file, an `atp._C.Tenant`. are_used: whether keys are used."""
        self._own = own
        self._led = _given if are_used and own is None else None
        self.are_in_use = False  # whether the group's packets have tags, once all have met
        self.text = ""  # for a rank without a file, once all have met: the keys of the group's job

    @property
    def job(self) -> int | None:
        """The number that the group's job must have if this rank leads it; None: any."""
        return self._led.job if self._led else None

    @property
    def mark_as_first(self) -> str:
        """What rank 0 publishes: whose key it has; "" without one."""
        return self._led.mark if self._led else self._own_mark

    def with_mark(self, name: str) -> str:
        """What a rank publishes with its presence: its name, and whose key its file has."""
        return name + _SEPARATOR + self._own_mark if self._own_mark else name

    @staticmethod
    def name_in(text: str) -> str:
        """The name in with_mark()."""
        return text.partition(_SEPARATOR)[0]

    @property
    def _own_mark(self) -> str:
        return self._own.mark if self._own else ""

    def settle(self, place: Place, job: int, first: str, deadline: Deadline) -> None:
        """Compares the ranks' keys, and passes those of the job to ranks without a file.

        first: what rank 0 has published with the job's number.
        """
        self.are_in_use = bool(first)
        if not first:
            if self._own_mark:
                raise ValueError(
                    f"{place.name(place.rank)} has the key of {_tenant(self._own_mark)}, and "
                    f"{place.name(0)} has none: give the file to {place.whom}"
                )
            return
        marks = [
            text.decode().partition(_SEPARATOR)[2]
            for text in place.store.multi_get(present_keys(place.size))
        ]
        for rank, mark in enumerate(marks):
            if mark and mark != first:
                raise ValueError(
                    f"{place.name(rank)} has {_difference(mark, first, place.name(0))}: give the "
                    f"same file to {place.whom}"
                )
        takers = [rank for rank, mark in enumerate(marks) if not mark and rank != 0]
        if place.rank == 0:
            self.text = self._led.keys if self._led else ""
            if takers:
                place.store.set("keys", self.text or self._own.keys_of_job(job))
        elif place.rank in takers:
            self._take(place, job, first, len(takers), deadline)

    def _take(self, place: Place, job: int, first: str, takers: int, deadline: Deadline) -> None:
        global _given
        whom = f"{place.name(0)} of group {place.group!r} to give the keys of its job"
        for _ in place.watch.wait(place.store, ["keys"], deadline, lambda: whom):
            pass
        if not place.store.check(["keys"]):
            raise dist.DistStoreError(
                f"{place.name(0)} did not give the keys of its job to the ranks of group "
                f"{place.group!r} that have no key file within {deadline}"
            )
        self.text = place.store.get("keys").decode()
        _given = _Given(first, job, self.text)
        if place.store.add("keys_taken", 1) == takers:
            place.store.delete_key("keys")  # a store may outlive the group by hours


def present_keys(size: int) -> list[str]:
    """Where in the store the ranks of a group publish that they are present."""
    return [f"present/{rank}" for rank in range(size)]


def _tenant(mark: str) -> str:
    return f"tenant {mark.partition('/')[0]!r}"


def _difference(mark: str, first: str, leader: str) -> str:
    if _tenant(mark) == _tenant(first):
        return f"a key of {_tenant(mark)} that differs from {leader}'s"
    return f"the key of {_tenant(mark)}, and {leader} that of {_tenant(first)}"
