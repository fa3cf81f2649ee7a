"""experiments/report.py: what all experiments share."""

import pytest

from experiments import report


@pytest.mark.parametrize(
    ("shares", "index"),
    [([1, 1], 1), ([1, 0], 0.5), ([3, 1], 0.8), ([2, 2, 2, 2], 1), ([1, 0, 0, 0], 0.25)],
)
def test_jains_index_is_one_for_equal_shares_and_falls_with_the_difference(shares, index):
    assert report.jain(shares) == pytest.approx(index)


def test_what_is_published_is_the_same_for_the_same_rows(tmp_path, capsys):
    rows = [{"ranks": 1, "ms": 0.5}, {"ranks": 2, "ms": 0.25}]
    for folder in ("one", "other"):
        figure, axes = report.plt.subplots()
        axes.plot([row["ranks"] for row in rows], [row["ms"] for row in rows])
        report.publish(tmp_path / folder / "scaling", rows, figure)
    assert (tmp_path / "one/scaling.csv").read_text() == "ranks,ms\n1,0.5\n2,0.25\n"
    one, other = (tmp_path / folder / "scaling.svg" for folder in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    assert str(other) in capsys.readouterr().out
