"""Checks the oracle of the numbers against fractions and by hand, and that it finds errors."""

import math
from fractions import Fraction

import numpy as np
import pytest

from . import numbers_cases as cases
from . import numbers_judge as judge
from . import numbers_oracle as oracle

FLOAT32, FLOAT16, BFLOAT16 = (oracle.FORMATS[name] for name in ("float32", "float16", "bfloat16"))


@pytest.mark.parametrize(
    ("kind", "value", "rounded"),
    [
        (FLOAT32, Fraction(1), 1.0),
        (FLOAT32, 1 + Fraction(1, 2**24), 1.0),  # a tie goes to the even one
        (FLOAT32, 1 + Fraction(3, 2**24), 1 + 2.0**-22),
        (FLOAT32, -1 - Fraction(1, 2**24) - Fraction(1, 2**100), -1 - 2.0**-23),
        (FLOAT32, Fraction(2) ** 128 - Fraction(2) ** 103, math.inf),
        (FLOAT32, Fraction(2) ** 128 - Fraction(2) ** 103 - 1, float(np.finfo(np.float32).max)),
        (FLOAT32, Fraction(5, 2**149), 5 * 2.0**-149),
        (FLOAT16, Fraction(65520), math.inf),
        (FLOAT16, Fraction(65519), 65504.0),
        (FLOAT16, Fraction(3, 2**25), 2 * 2.0**-24),
        (FLOAT16, Fraction(1, 2**25), 0.0),
        (BFLOAT16, 1 + Fraction(1, 2**8), 1.0),
        (BFLOAT16, 1 + Fraction(3, 2**8), 1 + 2.0**-6),
    ],
)
def test_a_fraction_is_rounded_once_to_the_nearest(kind, value, rounded):
    assert kind.rounded(int(value * 2**149)) == rounded


def test_every_float32_and_its_quotients_match_the_processor():
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    for divisor in (1, 2, 3, 7, 8):
        mine = [oracle.narrowed(value, "float32", divisor) for value in values.tolist()]
        theirs = values / np.float32(divisor)
        assert np.array(mine).astype(np.float32).tobytes() == theirs.tobytes(), divisor


def test_a_block_of_four_ranks_by_hand():
    # The largest is 1.5, so E = 0, c = 2 and the unit 2^(0 + 1 + 2 - 30).
    unit = 2.0**-27
    ranks = [[1.5, unit / 2], [0.0, 1.5 * unit], [0.0, unit / 4], [0.0, -0.75 * unit]]
    counts = [[oracle.count_of(value) for value in own] for own in ranks]
    # In units: 0 (a tie), 2 (a tie), 0 and -1.
    assert oracle.block_sum(counts, "int32") == [1.5, unit]


def test_int16_is_clamped_by_hand():
    # E = 0, c = 1 for two ranks: the unit is 2^-13, and 15 - c bits are 16,383 of them at most.
    almost_two = 2 - 2.0**-23
    counts = [[oracle.count_of(value)] for value in (almost_two, almost_two)]
    assert oracle.block_sum(counts, "int16") == [2 * 16_383 * 2.0**-13]


def test_each_tensor_starts_a_new_block():
    found = list(oracle.blocks([300, 0, 256, 1]))
    assert found == [(0, 256), (256, 300), (300, 556), (556, 557)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
def test_the_oracles_results_are_within_the_promised_bound(world_size):
    for case in cases.drawn(1, world_size, 24)[1:]:
        assert not judge.outside_bound(case, judge.expected(case)), str(case)


def test_the_bound_in_units_equals_the_bound_by_the_largest_value():
    for case in (case for case in cases.drawn(2, 8, 24)[1:] if case.group == "int32"):
        for begin, end in oracle.blocks(list(case.lengths)):
            ranks = [oracle.counts(np.concatenate(case.inputs(r))[begin:end]) for r in range(8)]
            if case.kind in cases.INTEGERS or any(map(oracle.is_special, ranks)):
                continue
            most = max(abs(count) for own in ranks for count in own)
            log2 = oracle.unit(ranks, 8, "int32")
            # W/2 units against W 2^c 2^-30 m; the smallest unit loses nothing.
            assert log2 == 0 or Fraction(8, 2) * 2**log2 <= Fraction(8 * 2**3, 2**30) * most


# Errors that must be found in the product: each is planted in the oracle, whose results are then
# checked like the product's.
def c_one_too_small(monkeypatch):
    real = oracle.headroom
    monkeypatch.setattr(oracle, "headroom", lambda world_size: max(0, real(world_size) - 1))


def c_one_too_large(monkeypatch):
    real = oracle.headroom
    monkeypatch.setattr(oracle, "headroom", lambda world_size: real(world_size) + 1)


def a_block_shifted_by_one_value(monkeypatch):
    real = oracle.blocks

    def shifted(segments):
        ends = [end - (end < sum(segments)) for _, end in real(segments)]
        yield from ((b, e) for b, e in zip([0, *ends], ends, strict=False) if b < e)

    monkeypatch.setattr(oracle, "blocks", shifted)


def blocks_across_tensors(monkeypatch):
    real = oracle.blocks
    monkeypatch.setattr(oracle, "blocks", lambda segments: real([sum(segments)]))


def a_maximum_taken_as_a_minimum(monkeypatch):
    real = oracle.unit

    def unit(ranks, world_size, wire):
        least = min(ranks, key=lambda own: max(map(abs, own)))
        return real([least], world_size, wire)

    monkeypatch.setattr(oracle, "unit", unit)


def the_exponent_of_the_first_rank_alone(monkeypatch):
    real = oracle.unit
    monkeypatch.setattr(oracle, "unit", lambda ranks, *how: real(ranks[:1], *how))


def a_special_block_ignored(monkeypatch):
    real = oracle.block_sum

    def block_sum(ranks, wire):
        finite = [[0 if isinstance(one, float) else one for one in own] for own in ranks]
        return real(finite, wire)

    monkeypatch.setattr(oracle, "block_sum", block_sum)


def ties_away_from_zero(monkeypatch):
    def rounded(numerator, divisor):
        quotient, rest = divmod(abs(numerator), divisor)
        return (quotient + (2 * rest >= divisor)) * (-1 if numerator < 0 else 1)

    monkeypatch.setattr(oracle, "half_even", rounded)


def a_sum_cut_to_30_bits(monkeypatch):
    monkeypatch.setitem(oracle.BITS, "int32", 29)


def small_sums_in_blocks(monkeypatch):
    monkeypatch.setattr(oracle, "is_small", lambda length, world_size: length <= 16)


PLANTED = [
    c_one_too_small, c_one_too_large, a_block_shifted_by_one_value, blocks_across_tensors,
    a_maximum_taken_as_a_minimum, the_exponent_of_the_first_rank_alone, a_special_block_ignored,
    ties_away_from_zero, a_sum_cut_to_30_bits, small_sums_in_blocks,
]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.replace("_", " "))
@pytest.mark.parametrize("world_size", [3, 8])
def test_the_drawn_sums_find_a_planted_error(plant, world_size, monkeypatch):
    for case in cases.drawn(15_000, world_size, 90)[1:]:
        with monkeypatch.context() as planted:
            plant(planted)
            wrong = judge.expected(case)
        if judge.complaint(case, wrong):
            return
    pytest.fail("nothing differs")
