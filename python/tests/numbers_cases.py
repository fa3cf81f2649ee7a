"""Operations drawn from a seed, the same in every process: what the ranks sum, and how.

A case is one call. Its inputs depend only on its seed and the rank, so the rank that sums them and
the test that checks the sums need not exchange anything.
"""

import dataclasses

import numpy as np

MOST = 100_003
FLOATS = ("float32", "bfloat16", "float16")
INTEGERS = ("int32", "int16", "int8", "uint8", "bool")
FACTOR = 0.5  # of PREMUL_SUM; exact in every type except for the smallest numbers


@dataclasses.dataclass(frozen=True)
class Case:
    seed: int
    world_size: int
    kind: str  # a type of torch
    op: str  # SUM, AVG, PREMUL_SUM, MAX, MIN
    group: str  # int32, int16: the wire; exact
    fill: str  # a name of FILLS
    lengths: tuple[int, ...]  # several: coalesced

    def __str__(self) -> str:
        return f"{self.op} of {self.kind} {self.lengths}, {self.fill}, {self.group}: {self.seed}"

    def inputs(self, rank: int) -> list[np.ndarray]:
        """Float types as float32 whose bits fit the type; bool as uint8 of 0 and 1."""
        draw = np.random.default_rng([self.seed, rank])
        shared = np.random.default_rng([self.seed, 1 << 20])
        length = sum(self.lengths)
        if self.kind in INTEGERS:
            most = 2 if self.kind == "bool" else 1 << 32
            bits = draw.integers(0, most, length, dtype=np.uint64)
            values = bits.astype(np.uint32).astype("uint8" if self.kind == "bool" else self.kind)
        else:
            with np.errstate(over="ignore", under="ignore"):
                values = FILLS[self.fill](self, rank, length, draw, shared)
                values = (values * self._tensors_apart()).astype(np.float32)
            values = narrow(values, self.kind)
        return np.split(values, np.cumsum(self.lengths)[:-1])

    def _tensors_apart(self) -> np.ndarray:
        """Each tensor of a coalesced call is smaller than the one before it."""
        return np.repeat(np.exp2(-7.0 * np.arange(len(self.lengths))), self.lengths)


def narrow(values: np.ndarray, kind: str) -> np.ndarray:
    """float32 values that the type can hold: truncated for bfloat16, also clamped for float16."""
    if kind == "bfloat16":
        return (values.view(np.uint32) & 0xFFFF0000).view(np.float32)
    if kind == "float16":
        finite = np.isfinite(values)
        values = np.where(finite, np.clip(values, -65504, 65504), values)
        return values.astype(np.float16).astype(np.float32)
    return values


def magnitude(case, shared, most=30):
    """A power of ten for a whole operation; float16 can hold only a few."""
    most = 3 if case.kind == "float16" else most
    return 10.0 ** shared.uniform(-most, most)


def _like_gradients(case, rank, length, draw, shared):
    return draw.standard_normal(length) * magnitude(case, shared)


def _every_magnitude(case, rank, length, draw, shared):
    powers = draw.uniform(-149, 126, length)
    return draw.choice([-1, 1], length) * np.exp2(powers)


def _a_few_magnitudes(case, rank, length, draw, shared):
    powers = shared.uniform(0, 34) - draw.uniform(0, 60, length)
    return draw.choice([-1, 1], length) * np.exp2(powers)


def _denormal(case, rank, length, draw, shared):
    return draw.integers(-(2**20), 2**20, length) * 2.0**-149


def _ranks_apart(case, rank, length, draw, shared):
    return draw.standard_normal(length) * magnitude(case, shared, 10) * 1e-4**rank


def _layers(case, rank, length, draw, shared):
    return draw.standard_normal(length) * 10.0 ** -(np.arange(length) * 9 // max(1, length))


def _zero(case, rank, length, draw, shared):
    return draw.choice([0.0, -0.0], length)


def _sparse(case, rank, length, draw, shared):
    full = draw.standard_normal(length) * magnitude(case, shared)
    return full * (shared.random(length) < 0.003)


def _just_below_a_power_of_two(case, rank, length, draw, shared):
    """Each block needs all the bits of the sum; a smaller c would overflow."""
    power = np.exp2(float(shared.integers(-100, 100) if case.kind == "float32" else 3))
    values = np.full(length, np.nextafter(np.float32(power), np.float32(0)))
    return values * shared.choice([-1, 1])


def _ties(case, rank, length, draw, shared):
    """Halves of units, which round to even; the largest value sets the unit."""
    half, most = (0.25, 2**10) if case.group == "int16" else (2.0**-17, 2**16)
    values = (2 * draw.integers(-most // 2, most // 2, length) + 1) * half
    values[::8] = 2.0 ** (13 - int(np.ceil(np.log2(case.world_size))))
    return values * np.exp2(float(shared.integers(-60, 60) if case.kind == "float32" else 0))


def _nearly_cancelling(case, rank, length, draw, shared):
    common = shared.standard_normal(length) * (-1) ** rank
    return (common + draw.standard_normal(length) * 1e-6) * magnitude(case, shared, 20)


def _near_overflow(case, rank, length, draw, shared):
    most = 65504 if case.kind == "float16" else 3.4e38
    return draw.uniform(-1, 1, length) * most


def _special_at_one_rank(case, rank, length, draw, shared):
    values = _like_gradients(case, rank, length, draw, shared)
    chosen = int(shared.integers(case.world_size))
    places = shared.random(length) < 3 / max(length, 3)
    if rank == chosen:
        values[places] = shared.choice([np.nan, np.inf, -np.inf], places.sum())
    return values


def _specials_that_meet(case, rank, length, draw, shared):
    values = _like_gradients(case, rank, length, draw, shared)
    places = shared.random(length) < 0.001
    values[places] = draw.choice([np.nan, np.inf, -np.inf, 1], places.sum())
    return values


def _special_everywhere(case, rank, length, draw, shared):
    return draw.choice([np.nan, np.inf, -np.inf, 1.0, -1e-30], length)


FILLS = {
    fill.__name__.strip("_").replace("_", " "): fill
    for fill in (
        _like_gradients, _every_magnitude, _a_few_magnitudes, _denormal, _ranks_apart, _layers,
        _zero, _sparse, _just_below_a_power_of_two, _ties, _nearly_cancelling, _near_overflow,
        _special_at_one_rank, _specials_that_meet, _special_everywhere,
    )
}  # fmt: skip


def drawn(seed: int, world_size: int, count: int) -> list[Case]:
    """The first case has all kinds of numbers in the longest tensor."""
    draw = np.random.default_rng([seed, world_size])
    first = Case(seed, world_size, "float32", "SUM", "int32", "like gradients", (MOST,))
    fills = list(FILLS)
    return [first] + [
        _case(seed + 1 + number, world_size, fills[number % len(fills)], draw)
        for number in range(count - 1)
    ]


def _case(seed, world_size, fill, draw) -> Case:
    kind = str(draw.choice(FLOATS, p=[0.7, 0.2, 0.1]))
    op = str(
        draw.choice(["SUM", "AVG", "PREMUL_SUM", "MAX", "MIN"], p=[0.6, 0.2, 0.04, 0.08, 0.08])
    )
    if draw.random() < 0.08:
        kind, fill = str(draw.choice(INTEGERS)), "whole numbers"
        op = str(draw.choice(["SUM", "MAX", "MIN"]))
    group = str(draw.choice(["int32", "int16", "exact"], p=[0.7, 0.2, 0.1]))
    tensors = 1 if draw.random() < 0.7 else int(draw.integers(2, 6))
    lengths = tuple(_length(draw, world_size) for _ in range(tensors))
    return Case(seed, world_size, kind, op, group, fill, lengths)


def _length(draw, world_size) -> int:
    """Lengths around every limit: of blocks, of fragments, of small tensors; and any other."""
    borders = [0, 1, 16, 255, 256, 257, 350, 512, 700, 2226, 4096 // world_size]
    if draw.random() < 0.6:
        return max(0, int(draw.choice(borders)) + int(draw.integers(-1, 2)))
    return int(draw.integers(0, 10 ** draw.integers(1, 5)))


def a_thousandfold_a_step(world_size: int) -> list[Case]:
    """Magnitudes of one length from 1e30 down to 1e-30 and up again, then other lengths."""
    powers = [*range(30, -31, -3), *range(-30, 31, 3)]
    steps = [(power, 1500, power) for power in powers]
    steps += [(100 + turn, (1500, 6500)[turn % 2], (-9, 6)[turn % 2]) for turn in range(10)]
    return [
        Magnitude(seed, world_size, "float32", "SUM", "int32", f"10^{power}", (length,), power)
        for seed, length, power in steps
    ]


@dataclasses.dataclass(frozen=True)
class Magnitude(Case):
    power: int = 0

    def inputs(self, rank: int) -> list[np.ndarray]:
        draw = np.random.default_rng([self.seed + 1000, rank])
        values = draw.standard_normal(self.lengths[0]) * 10.0**self.power
        return [values.astype(np.float32)]
