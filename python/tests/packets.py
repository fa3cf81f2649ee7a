"""The packets and bytes of an operation, by docs/inside/protocol §3 and §5."""

BLOCK = 256


def small(ranks: int) -> int:
    """Up to this number of values, sums of floats are exact and have no exponents."""
    return max(16, 4096 // ranks)


def _packets(lanes: int, each: int, ranks: int, k: int) -> tuple[int, int]:
    """(packets, bytes) for `lanes` lanes of `each` bytes; k: values_per_fragment."""
    packets = -(-lanes // (4 * k // each))
    return packets, packets * (40 + 8 * -(-ranks // 64)) + each * lanes


def sent_for_sum(values: int, ranks: int, k: int, wire: int = 4) -> tuple[int, int]:
    """(packets, bytes) that a rank sends for the sum of a tensor of floats."""
    if values <= small(ranks):
        return _packets(values, 4, ranks, k)
    parts = _packets(values, wire, ranks, k), _packets(-(-values // BLOCK), 2, ranks, k)
    return sum(packets for packets, _ in parts), sum(size for _, size in parts)
