"""SipHash-2-4 with a result of 128 bits, from its paper (Aumasson and Bernstein, 2012)."""

_MASK = 2**64 - 1


def _rotate(value, bits):
    return (value << bits | value >> 64 - bits) & _MASK


def _rounds(v, count):
    for _ in range(count):
        v[0] = (v[0] + v[1]) & _MASK
        v[1] = _rotate(v[1], 13) ^ v[0]
        v[0] = _rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & _MASK
        v[3] = _rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & _MASK
        v[3] = _rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & _MASK
        v[1] = _rotate(v[1], 17) ^ v[2]
        v[2] = _rotate(v[2], 32)


def siphash_2_4_128(key: bytes, message: bytes) -> bytes:
    """The 16 bytes of the hash; `key` has 16 bytes."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]
    last = len(message) // 8 * 8
    words = [int.from_bytes(message[i : i + 8], "little") for i in range(0, last, 8)]
    words.append(int.from_bytes(message[last:], "little") | (len(message) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    halves = []
    for at, mark in ((2, 0xEE), (1, 0xDD)):
        v[at] ^= mark
        _rounds(v, 4)
        halves.append((v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little"))
    return b"".join(halves)
