"""Numbers, quantities and texts."""

import pytest

from atp.topology import text

from .descriptions import error_of


@pytest.mark.parametrize(
    ("words", "bandwidth"),
    [
        ("200 Gbit/s per direction", 25e9),
        ("600 GB/s both directions", 300e9),
        (" 25GB/s  per direction ", 25e9),
        ("1e3 kbit/s per direction", 125e3),
        ("+2.5MiB/s per direction", 2.5 * 2**20),
    ],
)
def test_a_bandwidth_has_a_unit_and_a_direction(words, bandwidth):
    assert text.parse_bandwidth("--link NV", words) == bandwidth


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", 'found "", expected a bandwidth such as "200 Gbit/s per direction"'),
        ("fast", "start with a number"),
        ("nan GB/s per direction", "start with a number"),
        ("0 GB/s per direction", 'the bandwidth "0 GB/s per direction"'),
        ("-1 GB/s per direction", "write one above 0"),
        ("25", '"25" without a unit'),
        ("25 Gb/s per direction", "which may mean bits or bytes, expected"),
        ("25 gbps", 'write "25 Gbit/s ..." for bits or "25 GB/s ..." for bytes'),
        ("25 parsec", "the unknown unit"),
        ("25 GB/s", "without a direction"),
        ("25 GB/s upwards", 'the direction "upwards"'),
        ("1e30 GB/s per direction", "from 1 B/s to 1000000 TB/s"),
        ("1e-30 GB/s per direction", "from 1 B/s to 1000000 TB/s"),
        ("\u0664 GB/s per direction", "start with a number"),
    ],
)
def test_anything_else_is_refused(words, found):
    error = error_of(text.parse_bandwidth, "--link NV", words)
    assert error.startswith("--link NV: found ") and found in error, error


def test_quantities_are_written_with_their_units():
    assert text.bandwidth_text(25e9) == "25 GB/s per direction"
    assert text.bandwidth_text(1.5) == "0.0015 kB/s per direction"
    assert text.duration_text(5e-6) == "5 us"


def test_what_is_shown_is_short_and_plain():
    assert text.shown("a\x1b[31m\udcff\u2028") == '"a [31m? "'
    assert text.shown("x" * 61) == '"' + "x" * 60 + '..."'
