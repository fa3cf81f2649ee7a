"""The environment variables that set unset options, and the errors for wrong values."""

import dataclasses
import datetime
import itertools
import types

import pytest

from atp import _C
from atp.torch import Options, _address, _choice, _meeting, _metrics

Kind = _C.VariableKind
ROWS = {row.name: row for row in _C.VARIABLES.values() if row.option}
VARIABLES = [name for name, row in ROWS.items() if row.kind not in (Kind.TEXT, Kind.SWITCH)]
SWITCHES = [name for name, row in ROWS.items() if row.kind == Kind.SWITCH]
GROUP = datetime.timedelta(minutes=30)


def seconds(number):
    return datetime.timedelta(seconds=number)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for variable in _C.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ATP_ROUTE", "127.0.0.1:5500")
    return monkeypatch.setenv


SILENT = {
    "timeout": GROUP,
    "join_timeout": seconds(30),
    "values_per_fragment": 0,
    "scale": "blocks",
    "wire": "int32",
    "exact": False,
    "digest": False,
    "digest_every": 0,
    "overflow": "reactive",
    "congestion": "aimd",
    "algorithm": "auto",
}
CASES = {
    "nothing set": ({}, Options(), {}),
    "a time-out in the environment": ({"ATP_TIMEOUT": "2.5"}, Options(), {"timeout": seconds(2.5)}),
    "a time-out in the options takes precedence": (
        {"ATP_TIMEOUT": "2.5"},
        Options(timeout=seconds(7)),
        {"timeout": seconds(7)},
    ),
    "a scale, which only the network has": (
        {"ATP_SCALE": "fixed"},
        Options(),
        {"scale": "fixed", "algorithm": "innetwork"},
    ),
    "a scale in the options takes precedence": (
        {"ATP_SCALE": "fixed"},
        Options(scale="blocks"),
        {"scale": "blocks"},
    ),
    "a wire": ({"ATP_WIRE": "int16"}, Options(), {"wire": "int16"}),
    "a wire in the options takes precedence": ({"ATP_WIRE": "int16"}, Options(wire="int32"), {}),
    "exact sums": ({"ATP_EXACT": "1"}, Options(), {"exact": True}),
    "exact sums in the options take precedence": ({"ATP_EXACT": "1"}, Options(exact=False), {}),
    "a digest": ({"ATP_DIGEST": "1"}, Options(), {"digest": True}),
    "no digest": ({"ATP_DIGEST": "0"}, Options(), {}),
    "digests that are never compared": ({"ATP_DIGEST_EVERY": "0"}, Options(), {"digest_every": 0}),
    "digests that are compared": ({"ATP_DIGEST_EVERY": "7"}, Options(), {"digest_every": 7}),
    "digests that the options do not compare": (
        {"ATP_DIGEST_EVERY": "7"},
        Options(digest_every=0),
        {},
    ),
    "an overflow policy": ({"ATP_OVERFLOW": "proactive"}, Options(), {"overflow": "proactive"}),
    "an overflow policy in the options takes precedence": (
        {"ATP_OVERFLOW": "proactive"},
        Options(overflow="reactive"),
        {},
    ),
    "a fixed window": ({"ATP_CONGESTION": "none"}, Options(), {"congestion": "none"}),
    "the paper's rules": ({"ATP_CONGESTION": "paper"}, Options(), {"congestion": "paper"}),
    "an algorithm": ({"ATP_ALGORITHM": "ring"}, Options(), {"algorithm": "ring"}),
    "an automatic choice": ({"ATP_ALGORITHM": "auto"}, Options(), {}),
    "an automatic choice with a fixed scale is the network": (
        {"ATP_ALGORITHM": "auto", "ATP_SCALE": "fixed"},
        Options(),
        {"scale": "fixed", "algorithm": "innetwork"},
    ),
    "an algorithm in the options takes precedence": (
        {"ATP_ALGORITHM": "ring"},
        Options(algorithm="innetwork"),
        {"algorithm": "innetwork"},
    ),
    "a join time-out": ({"ATP_JOIN_TIMEOUT": "4"}, Options(), {"join_timeout": seconds(4)}),
    "a join time-out beyond the group's": (
        {"ATP_JOIN_TIMEOUT": "4000"},
        Options(),
        {"join_timeout": GROUP},
    ),
    "values": ({"ATP_VALUES_PER_FRAGMENT": "350"}, Options(), {"values_per_fragment": 350}),
    "values in the options take precedence": (
        {"ATP_VALUES_PER_FRAGMENT": "350"},
        Options(values_per_fragment=70),
        {"values_per_fragment": 70},
    ),
}


@pytest.mark.parametrize("variables, options, expected", CASES.values(), ids=CASES)
def test_unset_options_get_their_defaults(environment, variables, options, expected):
    for name, value in variables.items():
        environment(name, value)
    resolved = options.resolved(GROUP)
    found = {name: getattr(resolved, name) for name in SILENT}
    assert found == SILENT | expected


UNREADABLE = [
    (variable, text)
    for variable, text in itertools.product(VARIABLES, ["soon", "-1", "nan", "inf", "0", "1e9"])
    if text != "0" or ROWS[variable].kind != Kind.WHOLE
]


@pytest.mark.parametrize("variable, text", UNREADABLE)
def test_an_unreadable_variable_is_named(environment, variable, text):
    environment(variable, text)
    with pytest.raises(ValueError, match=f"{variable}='{text}': expected"):
        Options().resolved(GROUP)


def test_an_invalid_scale_in_the_options_is_named():
    with pytest.raises(ValueError, match="Options.scale='1e8': expected 'blocks' or 'fixed'"):
        Options(scale="1e8").resolved(GROUP)


@pytest.mark.parametrize("variable", SWITCHES)
def test_a_switch_that_cannot_be_read_is_named(environment, variable):
    environment(variable, "yes")
    with pytest.raises(ValueError, match=f"{variable}='yes': expected '0' or '1'"):
        Options().resolved(GROUP)


def test_every_option_has_a_row_and_a_text():
    options = {field.name for field in dataclasses.fields(Options)}
    assert {row.option for row in ROWS.values()} == options
    for row in ROWS.values():
        assert row.name == f"ATP_{row.option.upper()}"
        assert f"\n    {row.option}: " in Options.__doc__
        assert f"Default: {row.name}" in " ".join(Options.__doc__.split())


def join_over_wrong_server():
    options = dataclasses.asdict(Options().resolved(GROUP)) | {"numbers": "blocks"}
    for name in ("algorithm", "scale", "wire", "exact", "hierarchy"):
        del options[name]
    others = {"route_name": "", "host_of": [], "job_keys": "", "interruption": None}
    _C.InNetworkGroup(rank=0, size=2, job=(1, 1), recorded=None, **options | others)


# Who reads those that are no options.
READERS = {
    "ATP_COLOCATED_SERVER": join_over_wrong_server,
    "ATP_JOB": lambda: _meeting.of_environment("ATP_JOB"),
    "ATP_INCARNATION": lambda: _meeting.of_environment("ATP_INCARNATION"),
    "ATP_EXPECTED_TIMES": lambda: _choice.given_figures(types.SimpleNamespace(is_default=True)),
    "ATP_SOCKET_IFNAME": lambda: _address.own_host(""),
    "ATP_KEY_FILE": _C.own_key,
    "ATP_PORT_RANGE": lambda: _C.Listener("127.0.0.1"),
    "ATP_METRICS": _metrics.start,
    "ATP_FLIGHT_RECORDER_SIZE": lambda: _C.open_record(name="", job=(1, 1), rank=0, ranks=[0]),
}
ANY_TEXT = {"ATP_WILLS", "ATP_FLIGHT_RECORDER"}  # folders


@pytest.mark.parametrize("variable", sorted(_C.VARIABLES.keys() - ANY_TEXT))
def test_every_variable_that_torch_reads_is_named_if_it_is_wrong(environment, variable):
    environment(variable, "/wrong")
    with pytest.raises(ValueError, match=variable):
        if variable in READERS:
            READERS[variable]()
        else:
            route = Options().resolved(GROUP).route
            _C.check_route(route, Options().route_name)


# Python's own conversions would take them.
@pytest.mark.parametrize("text", ["1 ", "1_0", "\u0663", "inf", "nan", "0x10", "+5"])
@pytest.mark.parametrize("variable", ["ATP_TIMEOUT", "ATP_JOIN_TIMEOUT", "ATP_DIGEST_EVERY"])
def test_numbers_are_read_as_in_c_plus_plus(environment, variable, text):
    environment(variable, text)
    with pytest.raises(ValueError, match=variable):
        Options().resolved(GROUP)


FORMATS = {
    "nothing set": ({}, Options(), "blocks"),
    "int16": ({"ATP_WIRE": "int16"}, Options(), "int16"),
    "exact": ({}, Options(exact=True), "exact"),
    "fixed": ({"ATP_SCALE": "fixed"}, Options(wire="int32"), "fixed"),
}


@pytest.mark.parametrize("variables, options, numbers", FORMATS.values(), ids=FORMATS)
def test_three_options_make_one_format(environment, variables, options, numbers):
    for name, value in variables.items():
        environment(name, value)
    assert options.resolved(GROUP).numbers == numbers


CONTRADICTIONS = [
    ({"ATP_SCALE": "fixed"}, Options(wire="int16"), "ATP_SCALE='fixed' and Options.wire='int16'"),
    ({"ATP_EXACT": "1"}, Options(wire="int16"), "Options.wire='int16' and ATP_EXACT=1"),
    ({}, Options(scale="fixed", exact=True), "Options.scale='fixed' and Options.exact=True"),
]


@pytest.mark.parametrize("variables, options, named", CONTRADICTIONS)
def test_formats_that_exclude_each_other_are_named(environment, variables, options, named):
    for name, value in variables.items():
        environment(name, value)
    with pytest.raises(ValueError, match=f"{named} exclude each other"):
        options.resolved(GROUP)


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
def test_sixteen_bits_are_for_up_to_64_ranks(algorithm):
    options = Options(wire="int16", algorithm=algorithm).resolved(GROUP)
    options.check_size(64)
    with pytest.raises(ValueError, match="up to 64 ranks, and this group has 65"):
        options.check_size(65)


def test_the_fixed_scale_is_for_the_network():
    Options(scale="fixed").resolved(GROUP).check_size(2)
    ring = Options(scale="fixed", algorithm="ring").resolved(GROUP)
    ring.check_size(1)
    with pytest.raises(ValueError, match="scale='fixed' is for sums in the network.*ATP_SCALE"):
        ring.check_size(2)


def test_an_invalid_algorithm_in_the_options_is_named():
    with pytest.raises(
        ValueError, match="Options.algorithm='tree': expected 'auto', 'innetwork' or 'ring'"
    ):
        Options(algorithm="tree").resolved(GROUP)


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("timeout", 5, "expected a datetime.timedelta"),
        ("join_timeout", "5 s", "expected a datetime.timedelta"),
        ("values_per_fragment", 3.5, "expected a whole number"),
        ("route", ["127.0.0.1:5500"], "expected 'HOST:PORT,...'"),
        ("algorithm", True, "expected 'auto', 'innetwork' or 'ring'"),
        ("wire", 16, "expected 'int32' or 'int16'"),
        ("exact", 1, "expected True or False"),
        ("digest_every", True, "expected a whole number"),
    ],
)
def test_an_option_of_the_wrong_type_is_named(name, value, expected):
    with pytest.raises(TypeError, match=f"Options.{name}=.*{expected}"):
        Options(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("timeout", seconds(0), "expected more than 0 s"),
        ("timeout", seconds(-5), "expected more than 0 s"),
        ("join_timeout", seconds(-5), "expected more than 0 s"),
        ("values_per_fragment", -1, "expected a whole number from 0 to 2226"),
        ("values_per_fragment", 2227, "expected a whole number from 0 to 2226"),
        ("digest_every", -1, "expected a whole number from 0 to 1000000000"),
    ],
)
def test_an_option_out_of_its_range_is_named(name, value, expected):
    with pytest.raises(ValueError, match=f"Options.{name}=.*{expected}"):
        Options(**{name: value})


def test_the_longest_time_outs_are_a_year():
    forever = datetime.timedelta.max
    options = Options(timeout=forever, join_timeout=forever).resolved(forever, alone=True)
    assert options.timeout == options.join_timeout == datetime.timedelta(days=365)


def test_a_ring_needs_no_route(monkeypatch):
    monkeypatch.delenv("ATP_ROUTE")
    assert Options(algorithm="ring").resolved(GROUP).route == ""
    network = Options(algorithm="innetwork")
    assert network.resolved(GROUP).route == "", "its ranks may not need one on one host"
    with pytest.raises(RuntimeError, match="ATP_ROUTE="):
        network.resolved(GROUP).check_route()
    with pytest.raises(RuntimeError, match="ATP_ROUTE="):
        Options(algorithm="innetwork", host_memory=False).resolved(GROUP)
    assert network.resolved(GROUP, alone=True).route == "", "nor does a single rank"
    auto = Options(host_memory=False).resolved(GROUP)
    assert auto.route == "", "it then has the ring"
    auto.check_route()
    monkeypatch.setenv("ATP_ROUTE", "nonsense")
    assert Options(algorithm="auto").resolved(GROUP).route == "nonsense"
    assert Options(algorithm="ring").resolved(GROUP).route == "", "the variable is not read"
