"""experiments/sharing in a tiny form: the order of the schemes, fairness, and right sums."""

import pytest

from experiments.report import publish
from experiments.sharing import contest, few_aggregators, fig14, neighbours, newcomers, phases


def goodput(rows, **wanted):
    (row,) = [r for r in rows if all(r[name] == value for name, value in wanted.items())]
    return row["goodput_gbit"]


def test_several_places_come_near_a_static_partition_and_one_without_rehash_does_not(tmp_path):
    rows = fig14.measure([4], operations=30)
    static = goodput(rows, scheme="static")
    assert goodput(rows, scheme="ours") > 0.97 * static
    assert goodput(rows, scheme="rehash") > 0.75 * static
    assert goodput(rows, scheme="hash") < 0.7 * static
    assert goodput(rows, scheme="linear") < 0.5 * static
    publish(tmp_path / "fig14", rows, fig14.plot(rows))
    assert "linear" in fig14.table(rows) and "paper:" in fig14.verdict(rows)


def test_jobs_that_never_pause_get_what_a_static_partition_gives_them(tmp_path):
    rows = few_aggregators.measure({2: [256, 64]}, operations=24)
    assert all(row["jain"] >= 0.95 for row in rows if row["scheme"] == "ours"), rows
    for n in (256, 64):
        static = goodput(rows, scheme="static", aggregators=n)
        assert goodput(rows, scheme="ours", aggregators=n) > 0.97 * static
    static = goodput(rows, scheme="static", aggregators=64)
    assert goodput(rows, scheme="paper", aggregators=64) < 0.7 * static
    publish(tmp_path / "few", rows, few_aggregators.plot(rows))
    lines = few_aggregators.table(rows).splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["256", "64"]
    assert "paper:" in few_aggregators.verdict(rows)


def test_jobs_that_pause_gain_from_each_other_s_aggregators(tmp_path):
    rows = phases.measure([1, 0.25], [8], operations=24)
    ours = {n: ratios[0] for _, n, _, ratios, _ in phases.side_by_side(rows)}
    assert 0.96 < ours[384] < 1.04
    assert ours[96] > 1.03  # a static partition in our place has 1
    publish(tmp_path / "phases", rows, phases.plot(rows))
    assert "96 ( 25%)" in phases.table(rows) and "paper:" in phases.verdict(rows)


def test_a_newcomer_gets_its_share_and_what_it_leaves_is_used(tmp_path):
    rows, results = newcomers.measure([192])
    (ours,) = [row for row in rows if row["scheme"] == "ours"]
    assert ours["has_share"] <= 20 and ours["is_used_up"] <= 20
    publish(tmp_path / "newcomers", rows, newcomers.plot(rows, results))
    assert "192" in newcomers.table(rows)


def test_a_speed_is_reached_when_it_stays():
    # 16 fragments every 10 µs, then every 5: half of the later speed at once, all of it later.
    slow = [ps * 10**6 for ps in range(0, 500, 10)]
    fast = [ps * 10**6 for ps in range(500, 1500, 5)]
    speed = newcomers.Speed([slow + fast])
    assert speed.reaches(0.4, 0, speed.last) <= 2 * newcomers.STEP_US
    assert 475 <= speed.reaches(0.9, 0, speed.last) <= 530
    assert newcomers.Speed([slow, fast]).last == 1495


def test_jobs_that_are_not_alike(tmp_path):
    for name, (measure, _, operations, series, columns, label) in neighbours.EXPERIMENTS.items():
        rows = measure([128], operations // 4)
        assert str(128) in neighbours.table(rows, ["aggregators", series], columns)
        if name == "sizes":
            assert all(row["together"] > 0.95 for row in rows if row["scheme"] == "ours"), rows
        publish(tmp_path / name, rows, neighbours.plot(rows, series, columns[0], label))


def test_a_job_that_ignores_collisions_leaves_the_others_more_than_without_parts():
    rows = {row["rules"]: row for row in neighbours.measure_deaf([128], neighbours.OPERATIONS)}
    assert rows["ours"]["others"] > 0.75 * rows["regions"]["others"]
    assert rows["no part"]["others"] < rows["ours"]["others"] / 2


def test_a_weight_makes_a_short_job_faster():
    rows = {row["who"]: row["short_us"] for row in neighbours.measure_weights([64], 100)}
    assert rows["alone"] < rows["weight 4"] < 0.9 * rows["weight 1"]


def test_another_seed_is_another_sample_and_the_same_seed_the_same():
    options = {"jobs": 2, "aggregators": 64, "window": 64, "operations": 9}
    one, again, other = contest.play_all([{**options, "seed": seed} for seed in (1, 1, 2)])
    assert one == again
    assert one["collisions"] != other["collisions"]
    assert one["goodput"] != other["goodput"]


def test_the_papers_rules_are_those_of_their_options():
    options = {"jobs": 2, "aggregators": 64, "window": 64, "operations": 9}
    options |= {"loss": 0.01, "aimd": True, "ecn_bytes": 20_000}
    sharing = {"places": 1, "first_come": True, "room": 0}
    losses = {"resend_only": True, "no_tolerance": True, "halve": True}
    apart = {**sharing, **losses}
    but_one = [{**apart, name: False} for name in losses]
    named, same, ours, *others = contest.play_all(
        [{**options, **rules} for rules in (contest.PAPER, apart, {}, *but_one)]
    )
    assert named == same
    assert named["collisions"] > ours["collisions"]
    assert all(named["goodput"] != other["goodput"] for other in others)


@pytest.mark.parametrize(
    "options", [{"jobs": 0}, {"places": 17}, {"room": "1,2"}, {"weights": "0"}], ids=str
)
def test_a_contest_that_cannot_be_played_is_an_error(options):
    with pytest.raises(RuntimeError, match=f"--{next(iter(options))}"):
        contest.play(options)
