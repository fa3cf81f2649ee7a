"""What `make bench` measures: networks, tensors, and the implementations to compare."""

import dataclasses

KIB, MIB = 1 << 10, 1 << 20
ALL = ("atp", "atp int16", "Gloo", "Gloo float16", "Open MPI ring")
FLOAT32 = ("atp", "Gloo")
ON_ONE_HOST = ("atp memory", "atp", "atp ring", "Gloo")


@dataclasses.dataclass(frozen=True)
class Workload:
    """One network and what runs on it. `layout` is "star" (one rack), "racks" (two racks with a
    switch each and one above, whose uplinks are as fast as a rank's link) or "host" (one host).
    """

    name: str  # for --only
    family: str  # of tables and pictures
    ranks: int
    sizes: tuple[int, ...]  # in bytes of float32
    ways: tuple[str, ...] = FLOAT32
    layout: str = "star"
    mbit: int | None = None  # per rank's link and direction; None: as fast as the machine
    wide: float = 1  # bandwidth of switches' and servers' links, as a multiple of mbit
    has_switch: bool = True
    servers: int = 1
    jobs: int = 1  # concurrent jobs on the same hosts
    loss_per_cent: float = 0  # of incoming packets at every host
    mtu: int = 1500
    rounds: int = 5

    @property
    def most_below_a_switch(self):
        return self.ranks if self.layout != "racks" else max(2, (self.ranks + 1) // 2)


def _wide_enough(ranks):
    """A switch's link carries what all ranks send, and the server's answer."""
    return ranks + 1


FULL = (
    # At the slower speed, the links and not the two cores limit even eight ranks.
    *(
        Workload(
            f"{name}-{ranks}",
            f"{speed} per rank",
            ranks,
            (64 * MIB,),
            ALL,
            mbit=mbit,
            wide=_wide_enough(ranks),
            rounds=rounds,
        )
        for name, speed, mbit, rounds in (
            ("gigabit", "1 Gbit/s", 1000, 5),
            ("slow", "300 Mbit/s", 300, 3),
        )
        for ranks in (2, 4, 8)
    ),
    Workload("jumbo-4", "MTU 9000", 4, (64 * MIB,), FLOAT32, mbit=1000, wide=5, mtu=9000),
    Workload("racks-4", "two racks", 4, (16 * MIB,), FLOAT32, "racks", mbit=300, wide=5),
    Workload("jobs-4", "two jobs at once", 4, (16 * MIB,), FLOAT32, mbit=300, wide=10, jobs=2),
    *(
        Workload(
            f"equal-{name}",
            "equal links",
            4,
            (16 * MIB,),
            ("atp", "atp ring", "atp auto", "Gloo"),
            mbit=300,
            has_switch=name == "switch",
            servers=servers,
        )
        for name, servers in (("switch", 1), ("1", 1), ("2", 2), ("4", 4))
    ),
    *(
        Workload(
            f"{name}-{loss}",
            f"{size} with loss",
            4,
            (bytes_each,),
            FLOAT32,
            mbit=200,
            wide=5,
            loss_per_cent=loss,
            rounds=rounds,
        )
        for name, size, bytes_each, losses, rounds in (
            ("loss", "64 KiB", 64 * KIB, (0, 0.1, 1), 200),
            ("loss-bulk", "16 MiB", 16 * MIB, (0, 1), 3),
        )
        for loss in losses
    ),
    *(
        Workload(
            f"host-{ranks}",
            "one host",
            ranks,
            (4 * KIB, 64 * KIB, MIB, 16 * MIB),
            ON_ONE_HOST,
            "host",
            rounds=9,
        )
        for ranks in (2, 4, 8)
    ),
)

# A small one of each kind, for CI: it checks that everything works, not how fast.
SHORT = (
    Workload("star", "star", 2, (MIB,), ALL, mbit=400, wide=3, rounds=2),
    Workload("racks", "two racks", 4, (MIB,), FLOAT32, "racks", mbit=300, wide=5, rounds=2),
    Workload("jobs", "two jobs at once", 2, (MIB,), FLOAT32, mbit=300, wide=6, jobs=2, rounds=2),
    Workload(
        "servers",
        "equal links",
        2,
        (MIB,),
        FLOAT32,
        mbit=300,
        has_switch=False,
        servers=2,
        rounds=2,
    ),
    Workload("loss", "loss", 2, (64 * KIB,), FLOAT32, mbit=200, wide=3, loss_per_cent=1, rounds=5),
    Workload("host", "one host", 2, (4 * KIB, MIB), ON_ONE_HOST, "host", rounds=2),
)
