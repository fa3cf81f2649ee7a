"""What the values of an operation travel as: docs/inside/protocol §5, *Numbers* and *Fingerprint*.

Written from that page alone. An operation has one or two *parts*, each a sequence of values of one
kind that is cut into fragments: exponents, for which the values behind them wait, and values.
"""

import numpy as np

PLAIN_SUM, PLAIN_MAX, EXPONENTS, BLOCKS, BLOCKS_16, EXACT = 0x00, 0x01, 0x03, 0x10, 0x12, 0x1C
LANES = {EXPONENTS: ">i2", BLOCKS_16: ">i2", EXACT: ">f4"}  # §3, Kinds; the others are ">i4"
FORMAT_BLOCKS, FORMAT_BLOCKS_16, FORMAT_EXACT = 1, 2, 3  # §3.1; not 0, the fixed scale
TYPES = {"float32": 1, "bfloat16": 2, "float16": 3, "int32": 4}
REDUCTIONS = {"sum": 0, "avg": 1, "max": 2, "min": 3}
BLOCK, ALL_ZEROS, SPECIAL, NAN = 256, -32768, 32767, np.int32(2**31 - 1)


def fmix32(h):  # Index
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return h ^ (h >> 16)


def hashed(h, words):  # Fingerprint, rule 1
    for word in words:
        h = (fmix32(h ^ word) + 0x9E3779B9) & 0xFFFFFFFF
    return h


def words_of(numbers):  # of each the lower word first
    return np.array(numbers, "<u8").view("<u4").tolist()


def layout_of(segments):  # Fingerprint, rule 3
    lengths = [length for length in segments if length]
    return hashed(0, words_of(np.cumsum(lengths))) if len(lengths) > 1 else 0


def fingerprint(number, length, type_, reduction, kind, small=False, layout=0, tag=0):
    what = small << 24 | TYPES[type_] << 16 | REDUCTIONS[reduction] << 8 | kind
    return hashed(0x61747032, [*words_of([number, length]), what, layout, tag])


class Part:
    """Integers that the switches add or compare, or floats for the server, as they are."""

    def __init__(self, kind, values):
        self.kind, self.values, self.result = kind, values, np.zeros_like(values)
        self.pending = set()  # the beginnings of the fragments that have no PARAMETER yet

    def cut(self, k):
        """The fragments: K values of four bytes, or 2K of two (§3, Length and K, rule 2)."""
        size = 2 * k if LANES.get(self.kind) == ">i2" else k
        self.pending = set(range(0, len(self.values), size))
        return [(start, min(len(self.values), start + size)) for start in sorted(self.pending)]

    def ready(self, _end):
        return True

    def numbers(self, start, end):
        """The kind of a fragment, and what it holds."""
        return self.kind, self.values[start:end]

    def encode(self, start, end):
        kind, numbers = self.numbers(start, end)
        return kind, numbers.astype(LANES.get(kind, ">i4")).tobytes()

    def decode(self, start, end, kind, payload):
        sums = np.frombuffer(payload, LANES.get(kind, ">i4"))
        with np.errstate(over="ignore"):
            self.result[start:end] = self.floats(start, end, kind, sums)
        self.pending.discard(start)

    def floats(self, _start, _end, _kind, sums):
        return sums


class Blocks(Part):
    """*Blocks*: the numbers in comments are those of its rules."""

    def __init__(self, kind, values, segments, world_size):
        super().__init__(kind, values)
        c = (world_size - 1).bit_length()
        self.limit = 2 ** (15 - c) - 1 if kind == BLOCKS_16 else 2**31 - 1  # 5
        self.unit_above_exponent = 1 + c - (15 if kind == BLOCKS_16 else 30)  # 4
        ends = zip(np.cumsum(segments), segments, strict=True)
        starts = np.concatenate([np.arange(end - length, end, BLOCK) for end, length in ends])  # 1
        self.block_of = np.searchsorted(starts, np.arange(len(values)), side="right") - 1
        largest = np.maximum.reduceat(np.abs(values), starts).astype(np.float64)  # NaN where one is
        cases = [largest == 0, ~np.isfinite(largest)]
        numbers = np.select(cases, [ALL_ZEROS, SPECIAL], np.frexp(largest)[1] - 1)  # 2
        self.exponents = Part(EXPONENTS, numbers.astype(np.int16))

    def ready(self, end):  # 8
        return self.block_of[end - 1] < min(self.exponents.pending, default=len(self.values))

    def units(self, start, end):  # 3, 4; and which values are in special blocks
        agreed = self.exponents.result[self.block_of[start:end]].astype(np.int64)
        exponents = np.where(agreed > 127, 0, agreed) + self.unit_above_exponent
        return np.ldexp(1.0, np.maximum(exponents, -149)), agreed > 127

    def numbers(self, start, end):
        units, special = self.units(start, end)
        values = self.values[start:end].astype(np.float64)
        multiples = np.rint(np.where(special, 0, values) / units).clip(-self.limit, self.limit)  # 5
        if self.kind == BLOCKS_16:  # 10
            classes = [values == np.inf, values == -np.inf, np.isnan(values)]
            return self.kind, np.where(special, np.select(classes, [1, 128, 129]), multiples)
        if special.any():  # 11
            return EXACT, np.where(special, values, multiples * units)
        return self.kind, multiples

    def floats(self, start, end, kind, sums):
        if kind == EXACT:  # 11
            return sums
        units, special = self.units(start, end)
        floats = sums.astype(np.float32) * units  # 6
        if special.any():  # 10
            plus, minus = sums % 128 > 0, sums >= 128
            classes = np.select([plus & ~minus, minus & ~plus], [np.inf, -np.inf], np.nan)
            floats = np.where(special, classes, floats)
        return floats


def flipped(bits):  # Plain, rule 2; it undoes itself
    return np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


class Operation:
    """One all-reduce. `whole` is the length of what was cut for several servers, else None."""

    def __init__(self, number, values, reduction, world_size, number_format, segments, tag, whole):
        self.type, self.reduction, self.world_size = values.dtype.name, reduction, world_size
        self.small = (whole or len(values)) <= max(16, 4096 // world_size)
        self.floating = self.type != "int32"
        if reduction in ("max", "min"):  # Plain, rules 2 to 4
            nan = np.isnan(values)
            values = flipped(values.astype(np.float32).view(np.int32)) if self.floating else values
            values = ~values if reduction == "min" else values
            self.parts = [Part(PLAIN_MAX, np.where(nan, NAN, values))]
        elif not self.floating:
            self.parts = [Part(PLAIN_SUM, values)]
        elif self.small or number_format == FORMAT_EXACT:
            self.parts = [Part(EXACT, values.astype(np.float32))]
        else:
            kind = BLOCKS_16 if number_format == FORMAT_BLOCKS_16 else BLOCKS
            blocks = Blocks(kind, values.astype(np.float32), segments, world_size)
            self.parts = [blocks.exponents, blocks]
        how = self.type, reduction, self.parts[-1].kind, self.small, layout_of(segments), tag
        self.fingerprint = fingerprint(number, len(values), *how)

    @property
    def done(self):
        return not any(part.pending for part in self.parts)

    def result(self):
        values = self.parts[-1].result
        if self.reduction in ("max", "min"):
            nan, values = values == NAN, ~values if self.reduction == "min" else values
            if self.floating:
                values = np.where(nan, np.float32(np.nan), flipped(values).view(np.float32))
        values = values / np.float32(self.world_size) if self.reduction == "avg" else values
        with np.errstate(over="ignore"):
            return values.astype(self.type)  # Blocks, rule 6
