"""What a user may say about a group, and what the environment says where the user is silent."""

import dataclasses
import datetime
import math
import os

_MOST_VALUES = 2226  # docs/protocol.md §3
ALGORITHMS = ("innetwork", "ring")

_ROUTE_IS_MISSING = (
    "atp does not know the way to the server: start the program under `atp run -n N -- CMD`, or "
    "set ATP_ROUTE=HOST:PORT,... (switches upward, the server last; the server alone is enough), "
    "or pass pg_options=atp.torch.Options(route=...). A group with Options(algorithm='ring') needs "
    "no server"
)

_KINDS = (
    ("algorithm", str, "'innetwork' or 'ring'"),
    ("route", str, "'HOST:PORT,...'"),
    ("values_per_fragment", int, "a whole number"),
    ("scale", str, "'automatic' or 'fixed'"),
    ("congestion", str, "'aimd' or 'none'"),
    ("timeout", datetime.timedelta, "a datetime.timedelta, e.g. timedelta(seconds=30)"),
    ("join_timeout", datetime.timedelta, "a datetime.timedelta, e.g. timedelta(seconds=30)"),
)


@dataclasses.dataclass(frozen=True)
class Options:
    """For `init_process_group(pg_options=...)` and `new_group(pg_options=...)`.

    algorithm: how the group sums, the same on every rank: "innetwork", through the switches and the
        server of the route, or "ring", over TCP from rank to rank, for which no route is needed;
        default: ATP_ALGORITHM, else "innetwork".
    route: "HOST:PORT,...", the switches upward and the server last; default: ATP_ROUTE.
    values_per_fragment: float32 values in a packet, 0 for what the path's MTU carries; default:
        ATP_VALUES_PER_FRAGMENT, else 0.
    scale: how float32 becomes integers, the same on every rank: "automatic", a power of two that
        follows the gradients, or "fixed", 1e8; default: ATP_SCALE, else "automatic".
    congestion: "aimd", the window follows ECN and loss, or "none", a fixed window; default:
        ATP_CONGESTION, else "aimd".
    timeout: how long an all-reduce may stay without progress; default: ATP_TIMEOUT (seconds), else
        the group's timeout.
    join_timeout: how long to wait for the server's answer once all ranks of the group are there;
        default: ATP_JOIN_TIMEOUT (seconds), else 30 s, and never more than the group's timeout.
    """

    algorithm: str | None = None
    route: str | None = None
    values_per_fragment: int | None = None
    scale: str | None = None
    congestion: str | None = None
    timeout: datetime.timedelta | None = None
    join_timeout: datetime.timedelta | None = None

    def __post_init__(self):
        for name, kind, example in _KINDS:
            value = getattr(self, name)
            if not isinstance(value, kind | None):
                raise TypeError(f"Options.{name}={value!r}: expected {example}")

    @property
    def _timeout(self) -> datetime.timedelta | None:
        # torch's DeviceMesh takes a group's time-out from here; None is torch's default.
        return self.timeout

    @property
    def route_name(self) -> str:
        """Where the route comes from, for messages."""
        return "Options.route" if self.route else "ATP_ROUTE"

    def resolved(self, group_timeout: datetime.timedelta, alone: bool = False) -> "Options":
        """These options with every default filled in; a rank alone needs no route."""
        algorithm = _algorithm(self.algorithm)
        route = ""
        if algorithm == "innetwork":
            route = self.route or os.environ.get("ATP_ROUTE") or ""
        if algorithm == "innetwork" and not route and not alone:
            raise RuntimeError(_ROUTE_IS_MISSING)
        join = self.join_timeout or _seconds("ATP_JOIN_TIMEOUT", datetime.timedelta(seconds=30))
        values = self.values_per_fragment
        if values is None:
            values = _values_per_fragment()
        return Options(
            algorithm=algorithm,
            route=route,
            values_per_fragment=values,
            scale=_scale(self.scale),
            congestion=_choice("congestion", self.congestion, ("aimd", "none")),
            timeout=self.timeout or _seconds("ATP_TIMEOUT", group_timeout),
            join_timeout=min(join, group_timeout),
        )


def _algorithm(option: str | None) -> str:
    return _choice("algorithm", option, ALGORITHMS)


def _scale(option: str | None) -> str:
    return _choice("scale", option, ("automatic", "fixed"))


def _choice(name: str, option: str | None, choices: tuple[str, ...]) -> str:
    """What the option says, else the environment, else the first of the choices."""
    variable = f"ATP_{name.upper()}"
    choice = option or os.environ.get(variable) or choices[0]
    if choice not in choices:
        where = f"Options.{name}" if option else variable
        raise ValueError(f"{where}={choice!r}: expected {' or '.join(map(repr, choices))}")
    return choice


def _values_per_fragment() -> int:
    text = os.environ.get("ATP_VALUES_PER_FRAGMENT")
    if not text:
        return 0
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_VALUES:
        raise ValueError(
            f"ATP_VALUES_PER_FRAGMENT={text!r}: expected a whole number from 1 to {_MOST_VALUES}"
        )
    return int(text)


def _seconds(variable: str, default: datetime.timedelta) -> datetime.timedelta:
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.001 <= seconds <= 1e6:
        raise ValueError(f"{variable}={text!r}: expected a number of seconds, e.g. 30 or 0.5")
    return datetime.timedelta(seconds=seconds)
