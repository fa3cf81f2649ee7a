"""What the values of an operation travel as: *Numbers* and *Fingerprint* of docs/protocol.md §5.

Written from that page alone, like worker.py. An operation has one or two *parts*, each a sequence
of values that is cut into fragments: exponents, which the parts behind them wait for, and values.
"""

import numpy as np

PLAIN_SUM, PLAIN_MAX, EXPONENTS, BLOCKS, BLOCKS_16, EXACT = 0x00, 0x01, 0x03, 0x10, 0x12, 0x1C
FORMAT_BLOCKS, FORMAT_BLOCKS_16, FORMAT_EXACT = 1, 2, 3
TYPES = {"float32": 1, "bfloat16": 2, "float16": 3, "int32": 4}
REDUCTIONS = {"sum": 0, "avg": 1, "max": 2, "min": 3}
BLOCK = 256
ALL_ZEROS, SPECIAL = -32768, 32767


def fmix32(h):
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return h ^ (h >> 16)


def taken_in(h, words):
    for word in words:
        h = (fmix32(h ^ word) + 0x9E3779B9) & 0xFFFFFFFF
    return h


def low_and_high(number):
    return number & 0xFFFFFFFF, number >> 32


def layout_of(segments):
    """The layout's hash, from the lengths of the segments."""
    lengths = [length for length in segments if length]
    if len(lengths) <= 1:
        return 0
    ends = np.cumsum(lengths)
    return taken_in(0, [word for end in ends for word in low_and_high(int(end))])


def fingerprint(number, length, type_, reduction, kind, small=False, layout=0, tag=0):
    what = small << 24 | TYPES[type_] << 16 | REDUCTIONS[reduction] << 8 | kind
    words = (*low_and_high(number), *low_and_high(length), what, layout, tag)
    return taken_in(0x61747032, words)


class Part:
    """Values already known: integers that the switches add or compare, or floats for the server."""

    def __init__(self, kind, values):
        self.kind = kind
        self.values = values
        self.result = np.zeros_like(values)
        self.length = len(values)
        self.per_word = 2 if values.dtype.itemsize == 2 else 1  # values in four bytes

    def ready(self, _end):
        return True

    def encode(self, start, end):
        """The kind of the fragment and its values as bytes."""
        values = self.values[start:end]
        return self.kind, values.astype(values.dtype.newbyteorder(">")).tobytes()

    def decode(self, start, end, kind, payload):
        assert kind == self.kind
        self.result[start:end] = np.frombuffer(payload, self.values.dtype.newbyteorder(">"))

    def finish(self):
        return self.result


class Blocks:
    """The values of a sum in blocks, for which the exponents must be agreed first."""

    def __init__(self, values, segments, world_size, kind):
        self.values, self.kind, self.length = values, kind, len(values)
        self.per_word = 2 if kind == BLOCKS_16 else 1
        spread = (world_size - 1).bit_length()  # c
        self.bits = 15 if kind == BLOCKS_16 else 30
        self.limit = 2 ** (15 - spread) - 1 if kind == BLOCKS_16 else 2**31 - 1
        self.offset = 1 + spread - self.bits
        starts, begin = [], 0
        for length in segments:
            starts += range(begin, begin + length, BLOCK)
            begin += length
        ends = [*starts[1:], len(values)]
        self.block_of = np.repeat(np.arange(len(starts)), np.subtract(ends, starts))
        largest = np.maximum.reduceat(np.abs(values), starts)  # NaN where one is
        finite = np.isfinite(largest)
        exponents = np.frexp(np.where(finite, largest, 1).astype(np.float64))[1] - 1
        exponents = np.where(largest == 0, ALL_ZEROS, np.where(finite, exponents, SPECIAL))
        self.exponents = Part(EXPONENTS, exponents.astype(np.int16))
        self.agreed = 0  # blocks, from the first one on; the worker counts
        self.result = np.zeros(len(values), np.float32)

    def ready(self, end):
        return self.block_of[end - 1] < self.agreed

    def _of_fragment(self, start, end):
        """For each value: its unit (as a float64), and whether its block is special or zero."""
        exponents = self.exponents.result[self.block_of[start:end]].astype(np.int64)
        special, zeros = exponents > 127, exponents < -149
        powers = np.where(special | zeros, 0, np.maximum(exponents + self.offset, -149))
        return np.ldexp(1.0, powers), special, zeros

    def encode(self, start, end):
        unit, special, zeros = self._of_fragment(start, end)
        values = self.values[start:end].astype(np.float64)
        ordinary = np.where(special | zeros, 0, values)
        multiples = np.clip(np.rint(ordinary / unit), -self.limit, self.limit)
        if self.kind == BLOCKS_16:
            marks = np.where(values == np.inf, 1, np.where(values == -np.inf, 128, 0))
            marks = np.where(np.isnan(values), 129, marks)
            return BLOCKS_16, np.where(special, marks, multiples).astype(">i2").tobytes()
        if special.any():
            floats = np.where(special, values, multiples * unit)
            return EXACT, floats.astype(">f4").tobytes()
        return BLOCKS, multiples.astype(">i4").tobytes()

    def decode(self, start, end, kind, payload):
        unit, special, zeros = self._of_fragment(start, end)
        if kind == EXACT:
            self.result[start:end] = np.frombuffer(payload, ">f4")
            return
        assert kind == self.kind
        sums = np.frombuffer(payload, ">i2" if kind == BLOCKS_16 else ">i4").astype(np.int64)
        floats = sums.astype(np.float32).astype(np.float64) * unit
        if kind == BLOCKS_16:
            low, high = sums % 128 > 0, sums >= 128
            marked = np.where(low & ~high, np.inf, np.where(high & ~low, -np.inf, np.nan))
            floats = np.where(special, marked, floats)
        with np.errstate(over="ignore"):
            self.result[start:end] = np.where(zeros, 0, floats).astype(np.float32)

    def finish(self):
        return self.result


def ordered(floats):
    """Integers that order as the floats do, -0 below +0, and any NaN above all."""
    bits = floats.astype(np.float32).view(np.int32)
    return np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int32)


class Operation:
    """One all-reduce: its parts, its fingerprint, and its result."""

    def __init__(self, number, values, reduction, world_size, number_format, segments, tag, whole):
        self.type, self.reduction, self.world_size = values.dtype.name, reduction, world_size
        segments = segments or [len(values)]
        assert sum(segments) == len(values)
        self.small = (whole or len(values)) <= max(16, 4096 // world_size)
        self.floating = self.type != "int32"
        if self.floating and reduction in ("sum", "avg"):
            floats = values.astype(np.float32)
            if self.small or number_format == FORMAT_EXACT:
                self.parts = [Part(EXACT, floats)]
            else:
                kind = BLOCKS_16 if number_format == FORMAT_BLOCKS_16 else BLOCKS
                blocks = Blocks(floats, segments, world_size, kind)
                self.parts = [blocks.exponents, blocks]
        elif reduction == "sum":
            self.parts = [Part(PLAIN_SUM, values)]
        else:
            self.nan = np.isnan(values) if self.floating else np.zeros(len(values), bool)
            integers = ordered(values) if self.floating else values
            integers = ~integers if reduction == "min" else integers
            integers = np.where(self.nan, np.int32(2**31 - 1), integers)
            self.parts = [Part(PLAIN_MAX, integers.astype(np.int32))]
        kind = self.parts[-1].kind
        layout = layout_of(segments)
        self.fingerprint = fingerprint(
            number, len(values), self.type, reduction, kind, self.small, layout, tag
        )
        self.missing = 0  # fragments without their PARAMETER; the worker counts
        self.answered = False  # one at least

    @property
    def done(self):
        return self.missing == 0

    def result(self):
        values = self.parts[-1].finish()
        if self.reduction in ("max", "min"):
            nan = values == 2**31 - 1
            values = ~values if self.reduction == "min" else values
            if not self.floating:
                return values
            values = np.where(values < 0, values ^ 0x7FFFFFFF, values).astype(np.int32)
            values = np.where(nan, np.float32(np.nan), values.view(np.float32))
        if self.reduction == "avg":
            values = values / np.float32(self.world_size)
        with np.errstate(over="ignore"):
            return values.astype(self.type)
