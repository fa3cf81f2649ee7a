"""Compares the ranks' results with those of numbers_oracle.py, and with the promised bound."""

import numpy as np

from . import numbers_oracle as oracle
from .numbers_cases import FACTOR, INTEGERS, Case


def expected(case: Case) -> np.ndarray:
    """All tensors of the case, concatenated: float types as float32, others unchanged."""
    inputs = [np.concatenate(case.inputs(rank)) for rank in range(case.world_size)]
    if case.kind in INTEGERS:
        return _integers(case, inputs)
    if case.op in ("MAX", "MIN"):
        return _largest(inputs) if case.op == "MAX" else -_largest([-one for one in inputs])
    sums = oracle.float_sum(_scaled(case, inputs), list(case.lengths), *_way(case))
    divisor = case.world_size if case.op == "AVG" else 1
    results = [oracle.narrowed(value, case.kind, divisor) for value in sums]
    return np.array(results, np.float64).astype(np.float32)


def outside_bound(case: Case, result: np.ndarray) -> list[int]:
    """The places where a sum is further from the exact one than promised."""
    if case.kind in INTEGERS or case.op in ("MAX", "MIN"):
        return []
    inputs = [np.concatenate(case.inputs(rank)) for rank in range(case.world_size)]
    divisor = case.world_size if case.op == "AVG" else 1
    return oracle.outside_bound(
        result, _scaled(case, inputs), list(case.lengths), *_way(case), divisor, case.kind
    )


def complaint(case: Case, result: np.ndarray) -> str | None:
    """The error in a case's result, or None."""
    wanted = expected(case)
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return f"{case}: {result.dtype}{result.shape} instead of {wanted.dtype}{wanted.shape}"
    wrong = np.flatnonzero(bits(result) != bits(wanted))
    far = outside_bound(case, result)
    if not len(wrong) and not far:
        return None
    place = far[0] if far else wrong[0]
    into = [np.concatenate(case.inputs(rank))[place].item() for rank in range(case.world_size)]
    return (
        f"{case}: {len(wrong)} of {len(wanted)} have wrong bits, {len(far)} are outside the "
        f"bound; [{place}] of {into[:8]} is {result[place]!r}, expected {wanted[place]!r}"
    )


def bits(values: np.ndarray) -> np.ndarray:
    """Makes all NaNs the same NaN."""
    if values.dtype != np.float32:
        return values
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


def _way(case: Case) -> tuple[str, bool]:
    return ("int16" if case.group == "int16" else "int32", case.group == "exact")


def _scaled(case: Case, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Multiplies like PREMUL_SUM: in float32, even if the tensor is narrower."""
    return [one * np.float32(FACTOR) for one in inputs] if case.op == "PREMUL_SUM" else inputs


def _largest(inputs: list[np.ndarray]) -> np.ndarray:
    """+0 is greater than -0, and NaN wins."""
    most = np.maximum.reduce(inputs)
    plus = np.any([(one == 0) & ~np.signbit(one) for one in inputs], axis=0)
    return np.where(most == 0, np.where(plus, np.float32(0), np.float32(-0.0)), most)


def _integers(case: Case, inputs: list[np.ndarray]) -> np.ndarray:
    wide = np.array(inputs, np.int64)
    if case.op == "MAX":
        result = wide.max(axis=0)
    elif case.op == "MIN":
        result = wide.min(axis=0)
    elif case.kind == "bool":
        result = wide.any(axis=0)
    else:
        result = wide.sum(axis=0)  # the cast reduces it modulo the type's range
    return result.astype(inputs[0].dtype)
