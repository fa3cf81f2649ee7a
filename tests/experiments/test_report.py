"""experiments/report.py: what all experiments share."""

import pytest

from experiments import report


@pytest.mark.parametrize(
    ("shares", "index"),
    [([1, 1], 1), ([1, 0], 0.5), ([3, 1], 0.8), ([2, 2, 2, 2], 1), ([1, 0, 0, 0], 0.25)],
)
def test_jains_index_is_one_for_equal_shares_and_falls_with_the_difference(shares, index):
    assert report.jain(shares) == pytest.approx(index)
