"""The correct result of a sum over the network, in Python's integers, without the product's code.

A finite float32 is an integer multiple of 2^-149; the multiple is its *count*. Sums of counts are
exact; the design's roundings are the only ones. NaN and the infinities stay Python floats.
"""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

BLOCK = 256
BITS = {"int32": 30, "int16": 15}  # of a sum, without the sign


@dataclasses.dataclass(frozen=True)
class Format:
    precision: int  # bits of a value
    least: int  # log2 of the smallest count that is not zero
    top: int  # log2 of the smallest count that is too large

    def rounded(self, numerator: int, divisor: int = 1) -> float:
        """The nearest value of this format, ties to even; like IEEE 754 division and conversion."""
        sign = -1.0 if numerator < 0 else 1.0
        numerator = abs(numerator)
        shift = max(0, numerator.bit_length() - divisor.bit_length())
        size = shift + (numerator >= divisor << shift)  # bits of the quotient
        drop = max(size - self.precision, self.least)
        count = half_even(numerator, divisor << drop) << drop
        return sign * (math.inf if count >> self.top else math.ldexp(count, -149))

    def ulp(self, count: int) -> int:
        """The distance between a value's neighbours, as a count."""
        return 1 << max(abs(count).bit_length() - self.precision, self.least)


FLOAT32 = Format(24, 0, 128 + 149)
FORMATS = {
    "float32": FLOAT32,
    "bfloat16": Format(8, 16, 128 + 149),
    "float16": Format(11, 125, 16 + 149),
}


def half_even(numerator: int, divisor: int) -> int:
    quotient, rest = divmod(numerator, divisor)
    return quotient + (2 * rest > divisor or (2 * rest == divisor and quotient & 1))


def count_of(value: float) -> int:
    return int(math.ldexp(value, 149))


def counts(values: np.ndarray) -> list[int | float]:
    """The counts of float32 values; NaN and the infinities unchanged."""
    bits = values.view(np.uint32)
    exponents = (bits >> 23 & 255).astype(np.int64)
    mantissas = (bits & 0x7FFFFF).astype(np.int64) + np.where(exponents > 0, 1 << 23, 0)
    signed = np.where(bits >> 31, -mantissas, mantissas).tolist()
    shifts = np.maximum(exponents, 1) - 1
    found = [mantissa << shift for mantissa, shift in zip(signed, shifts.tolist(), strict=True)]
    for place in np.flatnonzero(exponents == 255).tolist():
        found[place] = float(values[place])
    return found


def headroom(world_size: int) -> int:
    """The design's c: the bits by which a sum of `world_size` values may exceed the largest."""
    return math.ceil(math.log2(world_size))


def is_small(length: int, world_size: int) -> bool:
    return length <= max(16, 4096 // world_size)


def blocks(segments: list[int]):
    """The [begin, end) of each block; each tensor of an operation starts a new block."""
    begin = 0
    for length in segments:
        for first in range(begin, begin + length, BLOCK):
            yield first, min(first + BLOCK, begin + length)
        begin += length


def unit(ranks: list[list[int]], world_size: int, wire: str) -> int:
    """log2 of the block's unit as a count, from the counts of each rank's values in it."""
    largest = max(abs(count) for counts in ranks for count in counts)
    exponent = largest.bit_length() - 1 - 149  # E; for zero it does not matter
    return max(exponent + 1 + headroom(world_size) - BITS[wire], -149) + 149


def quantized(count: int, unit_log2: int, world_size: int, wire: str) -> int:
    whole = half_even(count, 1 << unit_log2)
    if wire == "int16":
        most = (1 << 15 - headroom(world_size)) - 1
        whole = max(-most, min(most, whole))
    return whole


def is_special(counts: Iterable[int | float]) -> bool:
    return any(isinstance(count, float) for count in counts)


def exact(column: tuple[int | float, ...]) -> float:
    """The correctly rounded sum; a sum of zero is +0."""
    specials = [count for count in column if isinstance(count, float)]
    # inf - inf is NaN, and so is any sum with a NaN.
    return sum(specials) if specials else FLOAT32.rounded(sum(column))


def block_sum(ranks: list[list[int | float]], wire: str) -> list[float]:
    """The sum of one block, given each rank's values; a special block is not quantized.

    With 16 bits there is no room for floats: finite values become NaN.
    """
    if any(is_special(counts) for counts in ranks):
        lost = wire == "int16"
        return [
            math.nan if lost and not is_special(column) else exact(column)
            for column in zip(*ranks, strict=True)
        ]
    world_size = len(ranks)
    log2 = unit(ranks, world_size, wire)
    return [
        FLOAT32.rounded(sum(quantized(one, log2, world_size, wire) for one in column) << log2)
        for column in zip(*ranks, strict=True)
    ]


def float_sum(inputs: list[np.ndarray], segments: list[int], wire: str, exactly: bool):
    """The float32 sum of the ranks' float32 values, as Python floats; for one rank a copy."""
    if len(inputs) == 1:
        return inputs[0].tolist()
    ranks = [counts(values) for values in inputs]
    if exactly or is_small(sum(segments), len(ranks)):
        return [exact(column) for column in zip(*ranks, strict=True)]
    sums = []
    for begin, end in blocks(segments):
        sums += block_sum([own[begin:end] for own in ranks], wire)
    return sums


def narrowed(value: float, kind: str, divisor: int = 1) -> float:
    """A float32 divided in float32, then rounded to the tensor's type."""
    if not math.isfinite(value):
        return value
    if divisor > 1:
        value = math.copysign(FLOAT32.rounded(count_of(value), divisor), value)
    if kind == "float32" or not math.isfinite(value):
        return value
    return math.copysign(FORMATS[kind].rounded(count_of(value)), value)


def outside_bound(result, inputs, segments, wire, exactly, divisor=1, kind="float32") -> list[int]:
    """The places where a result is further from the exact sum than the design promises.

    The bound is W/2 units of the block (W with the clamp of int16) and half an ulp per rounding.
    Values in a special block, and small or exact sums, differ only by the roundings.
    """
    ranks = [counts(values) for values in inputs]
    world_size = len(ranks)
    exactly = exactly or is_small(sum(segments), world_size)
    wrong = []
    for begin, end in blocks(segments):
        own = [values[begin:end] for values in ranks]
        special = any(is_special(values) for values in own)
        if special and wire == "int16" and not exactly:
            continue  # finite values are lost there, visibly, as NaN
        rounded_too = not exactly and not special
        lost = 0  # twice the loss that quantizing may cause, as a count
        if rounded_too and world_size > 1:
            units = world_size * (2 if wire == "int16" else 1)
            # Every float32 is a multiple of the smallest unit, which therefore loses nothing.
            log2 = unit(own, world_size, wire)
            lost = units << log2 if log2 > 0 or wire == "int16" else 0
        for place, column in enumerate(zip(*own, strict=True), begin):
            if not _is_within(float(result[place]), column, lost, divisor, FORMATS[kind]):
                wrong.append(place)
    return wrong


def _is_within(value, column, lost, divisor, kind: Format) -> bool:
    if is_special(column):
        true = exact(column)
        return value == true or (math.isnan(value) and math.isnan(true))
    true = sum(column)
    slack = lost + FLOAT32.ulp(abs(true) + lost)  # twice the sum's allowed error
    most = (abs(true) + slack) // divisor + 1  # of the quotient
    roundings = [FLOAT32] * (divisor > 1) + [kind] * (kind is not FLOAT32)
    slack_after = divisor * sum(rounding.ulp(most) for rounding in roundings)
    if math.isinf(value):  # right if the exact sum, with its error, is too large
        least_infinite = (1 << kind.top) - (1 << kind.top - kind.precision - 1)
        ends = (2 * abs(true) + slack + slack_after) >= 2 * divisor * least_infinite
        sum_ends = 2 * abs(true) + slack >= 2 * ((1 << 277) - (1 << 252))
        return (ends or sum_ends) and (value > 0) == (true > 0)
    return math.isfinite(value) and (
        2 * abs(count_of(value) * divisor - true) <= slack + slack_after
    )
