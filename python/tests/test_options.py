"""What the environment says where a program is silent, and how it is told of a slip there."""

import datetime

import pytest

from atp.torch import Options

VARIABLES = (
    "ATP_TIMEOUT",
    "ATP_JOIN_TIMEOUT",
    "ATP_VALUES_PER_FRAGMENT",
    "ATP_SCALE",
    "ATP_CONGESTION",
    "ATP_ALGORITHM",
)
GROUP = datetime.timedelta(minutes=30)


def seconds(number):
    return datetime.timedelta(seconds=number)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ATP_ROUTE", "127.0.0.1:5500")
    return monkeypatch.setenv


SILENT = {
    "timeout": GROUP,
    "join_timeout": seconds(30),
    "values_per_fragment": 0,
    "scale": "automatic",
    "congestion": "aimd",
    "algorithm": "innetwork",
}
CASES = {
    "nothing said": ({}, Options(), {}),
    "a time-out in the environment": ({"ATP_TIMEOUT": "2.5"}, Options(), {"timeout": seconds(2.5)}),
    "a time-out in the options goes first": (
        {"ATP_TIMEOUT": "2.5"},
        Options(timeout=seconds(7)),
        {"timeout": seconds(7)},
    ),
    "a scale": ({"ATP_SCALE": "fixed"}, Options(), {"scale": "fixed"}),
    "a scale in the options goes first": (
        {"ATP_SCALE": "fixed"},
        Options(scale="automatic"),
        {"scale": "automatic"},
    ),
    "a fixed window": ({"ATP_CONGESTION": "none"}, Options(), {"congestion": "none"}),
    "an algorithm": ({"ATP_ALGORITHM": "ring"}, Options(), {"algorithm": "ring"}),
    "an algorithm in the options goes first": (
        {"ATP_ALGORITHM": "ring"},
        Options(algorithm="innetwork"),
        {},
    ),
    "a join time-out": ({"ATP_JOIN_TIMEOUT": "4"}, Options(), {"join_timeout": seconds(4)}),
    "a join time-out beyond the group's": (
        {"ATP_JOIN_TIMEOUT": "4000"},
        Options(),
        {"join_timeout": GROUP},
    ),
    "values": ({"ATP_VALUES_PER_FRAGMENT": "350"}, Options(), {"values_per_fragment": 350}),
    "values in the options go first": (
        {"ATP_VALUES_PER_FRAGMENT": "350"},
        Options(values_per_fragment=70),
        {"values_per_fragment": 70},
    ),
}


@pytest.mark.parametrize("variables, options, expected", CASES.values(), ids=CASES)
def test_what_is_silent_is_filled_in(environment, variables, options, expected):
    for name, value in variables.items():
        environment(name, value)
    resolved = options.resolved(GROUP)
    found = {name: getattr(resolved, name) for name in SILENT}
    assert found == SILENT | expected


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "0", "1e9"])
def test_what_cannot_be_read_is_named(environment, variable, text):
    environment(variable, text)
    with pytest.raises(ValueError, match=f"{variable}='{text}': expected"):
        Options().resolved(GROUP)


def test_a_scale_that_the_options_cannot_mean_is_named():
    with pytest.raises(ValueError, match="Options.scale='1e8': expected 'automatic' or 'fixed'"):
        Options(scale="1e8").resolved(GROUP)


def test_an_algorithm_that_the_options_cannot_mean_is_named():
    with pytest.raises(
        ValueError, match="Options.algorithm='tree': expected 'innetwork' or 'ring'"
    ):
        Options(algorithm="tree").resolved(GROUP)


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("timeout", 5, "expected a datetime.timedelta"),
        ("join_timeout", "5 s", "expected a datetime.timedelta"),
        ("values_per_fragment", 3.5, "expected a whole number"),
        ("route", ["127.0.0.1:5500"], "expected 'HOST:PORT,...'"),
        ("algorithm", True, "expected 'innetwork' or 'ring'"),
    ],
)
def test_an_option_of_another_kind_is_named(name, value, expected):
    with pytest.raises(TypeError, match=f"Options.{name}=.*{expected}"):
        Options(**{name: value})


def test_a_ring_needs_no_route(monkeypatch):
    monkeypatch.delenv("ATP_ROUTE")
    assert Options(algorithm="ring").resolved(GROUP).route == ""
    with pytest.raises(RuntimeError, match="ATP_ROUTE="):
        Options().resolved(GROUP)
    assert Options().resolved(GROUP, alone=True).route == "", "and so does a rank alone"
    monkeypatch.setenv("ATP_ROUTE", "nonsense")
    assert Options(algorithm="ring").resolved(GROUP).route == "", "it is not looked at"
