"""What an operation sends, as docs/protocol.md §3 and §5 have it."""

BLOCK = 256


def small(ranks: int) -> int:
    """Sums of floats of at most so many values are exact, and have no exponents."""
    return max(16, 4096 // ranks)


def _packets(lanes: int, each: int, ranks: int, k: int) -> tuple[int, int]:
    """(packets, bytes) of so many lanes, of `each` bytes; k: values_per_fragment."""
    packets = -(-lanes // (4 * k // each))
    return packets, packets * (40 + 8 * -(-ranks // 64)) + each * lanes


def sent_for_sum(values: int, ranks: int, k: int, wire: int = 4) -> tuple[int, int]:
    """(packets, bytes) that a rank sends for the sum of a tensor of floats."""
    if values <= small(ranks):
        return _packets(values, 4, ranks, k)
    parts = _packets(values, wire, ranks, k), _packets(-(-values // BLOCK), 2, ranks, k)
    return sum(packets for packets, _ in parts), sum(size for _, size in parts)
