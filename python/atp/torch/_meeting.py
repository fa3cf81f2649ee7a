"""How the ranks of a new group find one another and agree on their job, through the group's store.

Every rank claims its number and announces itself; rank 0 draws the job and the incarnation. No rank
continues before all have joined, so a missing or a duplicate rank is reported here, by name, and
not by a time-out in a lower layer.

A store may outlive a group: torch reuses group names after a new init_process_group(), even for
other ranks, and torchrun's store keeps all keys. So each meeting under a name has a number and its
own keys. A rank takes the first number whose meeting is not over according to the store: the ranks
that meet need not all have met before.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
import secrets
import socket

import torch.distributed as dist

from atp.torch._keys import GroupKeys, Place, present_keys
from atp.torch._options import of_environment
from atp.torch._watch import Deadline, Watch

Job = tuple[int, int]

# Whether this process has already used the job that `atp run` gave it.
_environment_job_is_taken = False


@dataclasses.dataclass(frozen=True)
class Choice:
    """An option's value on this rank, which must be the same on all others."""

    name: str
    value: str
    where: str  # the places where it can be set


class Meeting:
    """One rank's side of a group's meeting."""

    def __init__(
        self,
        store,
        rank: int,
        size: int,
        group_id: str,
        global_ranks: list[int],
        watch: Watch | None = None,
    ):
        """watch: over the ranks that have come, from then on."""
        if not 0 <= rank < size:
            raise ValueError(
                f"rank {rank} of group {group_id!r}: expected 0 to {size - 1}, as it has {size} "
                "ranks (see RANK and WORLD_SIZE)"
            )
        self._all_meetings = dist.PrefixStore(f"atp/{_name_of_set(global_ranks)}/", store)
        self.store = None  # this meeting's; set by agree_on_job()
        self.on_one_host = False  # set by agree_on_job(), too
        self._number = None
        self._came_too_late = False  # for a meeting that the others gave up
        self._rank = rank
        self.is_first = rank == 0
        self._size = size
        self._group_id = group_id
        self._watch = watch or Watch()
        self._watches = watch is not None
        self.interruption = self._watch.interruption
        # torch lists no ranks for the default group, where both numberings are the same.
        self.is_default = not global_ranks
        self.global_ranks = global_ranks or list(range(size))

    def agree_on_job(
        self,
        deadline: Deadline,
        choices: list[Choice],
        address: str = "",
        host: str = "",
        keys: GroupKeys | None = None,
    ) -> Job:
        """Waits for all ranks and returns (job, incarnation), the same on each of them.

        choices: compared with those of all others; each rank compares the same ones, up to the
            first that differs.
        address: where this rank can be reached; published to all.
        host: where this rank runs; published to all. self.on_one_host is then whether all ranks
            published the same.
        keys: this rank's part in the keys of the group's packets. They are compared, too.
        """
        keys = keys or GroupKeys(are_used=False)
        self._join()
        if self._rank == 0:
            job, incarnation = self._draw(keys.job)
            self.store.set("job", f"{job} {incarnation} {keys.mark_as_first}".rstrip())
        self.store.set(f"address/{self._rank}", address)
        self.store.set(f"host/{self._rank}", host)
        if self.store.compare_set("host", "", host or "-").decode() != (host or "-"):
            self.store.set("other_host", "")
        for choice in choices:
            self._put(choice)
        self.store.set(f"present/{self._rank}", keys.with_mark(_whoami()))
        self._wait_for_all(deadline)
        self.on_one_host = not self.store.check(["other_host"])
        if self._rank == 0:
            self._all_meetings.set("last", str(self._number))
        for choice in choices:
            self._check(choice)
        job, incarnation, *mark = self.store.get("job").decode().split()
        place = Place(self.store, self._rank, self._size, self._name, self._group_id, self._watch)
        keys.settle(place, int(job), "".join(mark), deadline)
        return int(job), int(incarnation)

    def exchange(self, name: str, value: str, deadline: Deadline) -> list[str]:
        """The texts of all ranks under this name, by rank; each rank publishes one, once."""
        keys = [f"{name}/{rank}" for rank in range(self._size)]
        self.store.set(keys[self._rank], value)
        to_do = f"of group {self._group_id!r} to report its part ({name})"
        whom = functools.partial(self._whom, keys, to_do)
        for _ in self._watch.wait(self.store, keys, deadline, whom, _looks_every_s(self._size)):
            pass
        if missing := self._missing(keys):
            raise dist.DistStoreError(
                f"{self._name(missing)} of group {self._group_id!r} did not report its part "
                f"({name}) within {deadline}"
            )
        return [self.store.get(key).decode() for key in keys]

    def check(self) -> None:
        """Raises an error once a rank is known to be lost."""
        self._watch.check()

    def name_of(self, rank: int) -> str:
        return self._name([rank])

    def addresses(self) -> list[str]:
        """Where each rank can be reached, by rank; after agree_on_job()."""
        keys = [f"address/{rank}" for rank in range(self._size)]
        return [address.decode() for address in self.store.multi_get(keys)]

    def hosts(self) -> list[str]:
        """Where each rank runs, as it said."""
        return [self.store.get(f"host/{rank}").decode() for rank in range(self._size)]

    def host_of(self) -> list[int]:
        """The host of each rank; hosts are numbered from 0 in the order of their lowest ranks."""
        numbers: dict[str, int] = {}
        return [numbers.setdefault(host, len(numbers)) for host in self.hosts()]

    def _join(self) -> None:
        """Claims this rank's number in the first meeting that is not over."""
        # This is only where the search starts: rank 0 sets it once it has met all the others.
        last = int(self._all_meetings.get("last")) if self._all_meetings.check(["last"]) else -1
        for number in itertools.count(last + 1):
            self._number = number
            self.store = dist.PrefixStore(f"{number}/", self._all_meetings)
            is_first = self.store.add(f"claims/{self._rank}", 1) == 1
            if self._is_over():
                if is_first and self.store.check(["other_size"]):
                    # It ended before this rank came, for a reason that concerns this rank, too.
                    raise ValueError(self.store.get("other_size").decode())
                # The others may have begun anew, so this rank waits for them in the next one.
                self._came_too_late |= is_first
                continue
            self._agree_on_size()
            if not is_first:
                self._refuse()
            if self._watches:
                self._watch.begin(
                    self.store, self._rank, self._size, self._name_in_group, _whoami()
                )
            return

    def _is_over(self) -> bool:
        """Whether all its ranks came, however many they were, or those that came have given up."""
        if self.store.check(["failed"]):
            return True
        if not self.store.check(["size"]):
            return False
        return self.store.check(present_keys(int(self.store.get("size"))))

    def _agree_on_size(self) -> None:
        first = self.store.compare_set("size", "", str(self._size)).decode()
        if first != str(self._size):
            text = (
                f"{self._name([self._rank])} of group {self._group_id!r} has a group size of "
                f"{self._size} ranks, and another rank has {first}: all must agree (see WORLD_SIZE)"
            )
            self.store.set("other_size", text)
            self.store.set("failed", "")  # ranks that come again use another meeting
            raise ValueError(text)

    def _refuse(self) -> None:
        present = f"present/{self._rank}"
        holder = "another rank"
        if self.store.check([present]):
            holder = GroupKeys.name_in(self.store.get(present).decode())
        raise RuntimeError(
            f"{self._name([self._rank])} of group {self._group_id!r} is taken by {holder}, and "
            f"{_whoami()} also claims it: start each rank exactly once (see RANK)"
        )

    def _put(self, choice: Choice) -> None:
        """The first rank publishes its choice, and any rank with a different one reports it."""
        mine = f"{self._rank} {choice.value}"
        first = self.store.compare_set(f"choice/{choice.name}", "", mine).decode()
        if first.split()[1] != choice.value:
            self.store.set(f"other/{choice.name}", mine)

    def _check(self, choice: Choice) -> None:
        if not self.store.check([f"other/{choice.name}"]):
            return
        first, other = (
            self.store.get(f"{key}/{choice.name}").decode().split() for key in ("choice", "other")
        )
        if int(other[0]) == self._rank:  # each rank's message starts with another rank
            first, other = other, first
        raise ValueError(
            f"{self._name([int(other[0])])} of group {self._group_id!r} was given {choice.name} "
            f"{other[1]!r}, and {self._name([int(first[0])])} {first[1]!r}: all must agree (see "
            f"{choice.where})"
        )

    def _wait_for_all(self, deadline: Deadline) -> None:
        keys = present_keys(self._size)
        whom = functools.partial(self._whom, keys, f"to join group {self._group_id!r}")
        for _ in self._watch.wait(self.store, keys, deadline, whom, _looks_every_s(self._size)):
            if self.store.check(["other_size"]):
                self.store.set("failed", "")  # ranks that come later use another meeting
                raise ValueError(self.store.get("other_size").decode())
        missing = self._missing(keys)
        if not missing:
            return
        self.store.set("failed", "")
        late = (
            f"; other ranks had given up before {self._name([self._rank])} came: start all "
            "ranks within the time-out"
        )
        raise dist.DistStoreError(
            f"{self._name(missing)} of group {self._group_id!r} ({self._size} ranks) did "
            f"not join within {deadline}" + (late if self._came_too_late else "")
        )

    def _missing(self, keys: list[str]) -> list[int]:
        if self.store.check(keys):
            return []
        return [rank for rank, key in enumerate(keys) if not self.store.check([key])]

    def _whom(self, keys: list[str], to_do: str) -> str:
        missing = self._missing(keys)
        return f"{self._name(missing)} {to_do}" if missing else ""

    def _draw(self, job: int | None) -> Job:
        """job: the only number of which this rank has the keys."""
        if job is not None:
            return job, secrets.randbits(32)
        # `atp run` has drawn a job number for its processes, or got it from the user; `atp status`
        # shows it. Only one group may take it, once: every other group needs its own job.
        global _environment_job_is_taken
        drawn = secrets.randbits(32), secrets.randbits(32)
        if not self.is_default or _environment_job_is_taken:
            return drawn
        if (job := of_environment("ATP_JOB")) is None:
            return drawn
        _environment_job_is_taken = True
        incarnation = of_environment("ATP_INCARNATION")
        return job, drawn[1] if incarnation is None else incarnation

    def _name_in_group(self, rank: int) -> str:
        return f"{self._name([rank])} of group {self._group_id!r}"

    def _name(self, ranks: list[int]) -> str:
        numbers = [str(self.global_ranks[rank]) for rank in ranks]
        return ("rank " if len(numbers) == 1 else "ranks ") + ", ".join(numbers)


def _looks_every_s(size: int) -> float:
    """The longest pause between two looks: all ranks ask one store for the keys of all ranks."""
    return max(0.05, size * size * 1e-6)


def _name_of_set(global_ranks: list[int]) -> str:
    """A short text for any number of ranks; torch lists none for the default group."""
    if not global_ranks:
        return "default"
    return hashlib.sha256(str(global_ranks).encode()).hexdigest()[:16]


def _whoami() -> str:
    return f"{socket.gethostname()} (process {os.getpid()})"
