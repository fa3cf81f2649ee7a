"""The options of a group, and the environment variables that set their defaults."""

import dataclasses
import datetime
import math
import os

_VALUES_MAX = 2226  # docs/inside/protocol §3
_MOST_RANKS_OF_INT16 = 64
_ALGORITHMS = ("auto", "innetwork", "ring")
_DIGEST_EVERY_MAX = 10**9
# Longer time-outs, such as timedelta.max, are this long: clocks count nanoseconds in 64 bits.
_LONGEST = datetime.timedelta(days=365)

_ROUTE_IS_MISSING = (
    "atp has no route to the server: start the program under `atp run -n N --switch -- "
    "CMD`, or set ATP_ROUTE=HOST:PORT,... (switches upward, the server last; the server alone is "
    "enough), or pass pg_options=atp.torch.Options(route=...). A group with "
    "Options(algorithm='ring') needs no server, nor does one whose ranks are all on one host, "
    "unless ATP_HOST_MEMORY=0 or Options(host_memory=False) sends it to the network"
)

_KINDS = (
    ("algorithm", str, "'auto' or 'innetwork' or 'ring'"),
    ("route", str, "'HOST:PORT,...'"),
    ("host_memory", bool, "True or False"),
    ("hierarchy", bool, "True or False"),
    ("values_per_fragment", int, "a whole number"),
    ("scale", str, "'blocks' or 'fixed'"),
    ("wire", str, "'int32' or 'int16'"),
    ("exact", bool, "True or False"),
    ("congestion", str, "'aimd', 'none' or 'paper'"),
    ("timeout", datetime.timedelta, "a datetime.timedelta, e.g. timedelta(seconds=30)"),
    ("join_timeout", datetime.timedelta, "a datetime.timedelta, e.g. timedelta(seconds=30)"),
    ("digest", bool, "True or False"),
    ("digest_every", int, "a whole number of operations, or 0"),
)


@dataclasses.dataclass(frozen=True)
class Options:
    """For `init_process_group(pg_options=...)` and `new_group(pg_options=...)`.

    algorithm: how the group sums, the same on every rank: "innetwork", through the switches and the
        server of the route; "ring", over TCP from rank to rank, with no route needed; or "auto",
        the faster of the two for each operation, or the only possible one (docs/use/torch.md).
        Default: ATP_ALGORITHM, else "auto".
    route: "HOST:PORT,...", the switches upward and the server last. Default: ATP_ROUTE.
    host_memory: whether a group whose ranks are all on one host sums in memory that they share,
        with no route needed and the same bits; the same on every rank. Default: ATP_HOST_MEMORY
        (0 or 1), else True. (Not with "ring", and not with scale="fixed".)
    hierarchy: whether, in a group over several hosts, the ranks of each host sum in memory that
        they share before one of them sends for all, with the same bits; the same on every rank.
        Default: ATP_HIERARCHY (0 or 1), else True without ATP_COLOCATED_SERVER. (Only with
        host_memory, not with exact=True.)
    values_per_fragment: float32 values in a packet, 0 for as many as the path's MTU allows.
        Default: ATP_VALUES_PER_FRAGMENT, else 0.
    scale: how sums of floats become sums of integers: "blocks", a power of two for every 256
        values, agreed on by all ranks; or "fixed", the paper's 1e8, for float32 in the network
        only. Default: ATP_SCALE, else "blocks".
    wire: the type of a block's values on the wire, "int32", or "int16" with half the bytes, less
        precise and for up to 64 ranks. Default: ATP_WIRE, else "int32".
    exact: whether each sum of floats is exact, rounded once. The server then adds one packet from
        every rank for each fragment, and each rank of a ring adds all values. Default: ATP_EXACT
        (0 or 1), else False. scale, wire and exact must be the same on every rank; they do not
        affect integers, maxima and minima, and on a ring only all-reduces of float32.
    congestion: "aimd", the window follows ECN and loss; for comparisons "none", a fixed window, or
        "paper", the rules of the paper (docs/results/sharing.md). Default: ATP_CONGESTION, else
        "aimd".
    timeout: how long an all-reduce may take, from its call to its end. Default: ATP_TIMEOUT
        (seconds), else the group's timeout.
    join_timeout: how long to wait for the server's answer once all ranks of the group have met.
        Default: ATP_JOIN_TIMEOUT (seconds), else 30 s, and never more than the group's timeout.
    digest: whether to keep a digest of all results in the network, for `atp.torch.digest()`.
        Default: ATP_DIGEST (0 or 1), else False.
    digest_every: the number of operations in the network after which all ranks compare their
        digests (0: never), the same on every rank. Default: ATP_DIGEST_EVERY, else 0.
    """

    algorithm: str | None = None
    route: str | None = None
    host_memory: bool | None = None
    hierarchy: bool | None = None
    values_per_fragment: int | None = None
    scale: str | None = None
    wire: str | None = None
    exact: bool | None = None
    congestion: str | None = None
    timeout: datetime.timedelta | None = None
    join_timeout: datetime.timedelta | None = None
    digest: bool | None = None
    digest_every: int | None = None

    def __post_init__(self):
        for name, kind, example in _KINDS:
            value = getattr(self, name)
            # In Python a bool is an int, but True is not a count.
            if not isinstance(value, kind | None) or (kind is int and isinstance(value, bool)):
                raise TypeError(f"Options.{name}={value!r}: expected {example}")
        for name in ("timeout", "join_timeout"):
            value = getattr(self, name)
            if value is not None and value <= datetime.timedelta(0):
                raise ValueError(
                    f"Options.{name}={value!r}: expected more than 0 s, e.g. "
                    "datetime.timedelta(seconds=30)"
                )
        for name, most in (
            ("values_per_fragment", _VALUES_MAX),
            ("digest_every", _DIGEST_EVERY_MAX),
        ):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= most:
                raise ValueError(
                    f"Options.{name}={value}: expected a whole number from 0 to {most}"
                )

    @property
    def _timeout(self) -> datetime.timedelta | None:
        # torch's DeviceMesh reads a group's time-out from here; None is torch's default.
        return self.timeout

    @property
    def route_name(self) -> str:
        """The source of the route, for messages."""
        return "Options.route" if self.route else "ATP_ROUTE"

    @property
    def numbers(self) -> str:
        """The number format of sums of floats as one name; only for resolved() options."""
        if self.scale == "fixed":
            return "fixed"
        if self.wire == "int16":
            return "int16"
        return "exact" if self.exact else "blocks"

    def check_size(self, ranks: int) -> None:
        """Raises ValueError if a group of `ranks` ranks cannot have these resolved() options."""
        if self.algorithm == "ring" and self.scale == "fixed" and ranks > 1:
            raise ValueError(
                "scale='fixed' is for sums in the network, with algorithm='innetwork'; a ring "
                "has no fixed scale: use scale='blocks' (see Options.scale, ATP_SCALE)"
            )
        if self.wire == "int16" and ranks > _MOST_RANKS_OF_INT16:
            raise ValueError(
                f"wire='int16' is possible with up to {_MOST_RANKS_OF_INT16} ranks, and this group "
                f"has {ranks}: more would leave each of them too few bits; use wire='int32' (see "
                "Options.wire, ATP_WIRE)"
            )

    def resolved(self, group_timeout: datetime.timedelta, alone: bool = False) -> "Options":
        """These options with every default filled in; a rank alone needs no route."""
        algorithm = _algorithm(self.algorithm)
        numbers = self._resolved_numbers()
        if algorithm == "auto" and numbers["scale"] == "fixed":
            algorithm = "innetwork"  # the only one with a fixed scale
        route = ""
        if algorithm != "ring":
            route = self.route or os.environ.get("ATP_ROUTE") or ""
        join = self.join_timeout or _seconds("ATP_JOIN_TIMEOUT", datetime.timedelta(seconds=30))
        values = self.values_per_fragment
        if values is None:
            values = _whole("ATP_VALUES_PER_FRAGMENT", 1, _VALUES_MAX)
        every = self.digest_every
        if every is None:
            every = _whole("ATP_DIGEST_EVERY", 0, _DIGEST_EVERY_MAX)
        host_memory = _switch("host_memory", self.host_memory, otherwise=True)
        host_memory = host_memory and algorithm != "ring" and numbers["scale"] != "fixed"
        options = Options(
            algorithm=algorithm,
            route=route,
            host_memory=host_memory,
            hierarchy=self._resolved_hierarchy() and host_memory and not numbers["exact"],
            values_per_fragment=values,
            **numbers,
            congestion=_choice("congestion", self.congestion, ("aimd", "none", "paper")),
            timeout=min(self.timeout or _seconds("ATP_TIMEOUT", group_timeout), _LONGEST),
            join_timeout=min(join, group_timeout, _LONGEST),
            digest=_switch("digest", self.digest),
            digest_every=every,
        )
        if not alone and not options.host_memory:
            options.check_route()
        return options

    def check_route(self) -> None:
        """Raises RuntimeError if these resolved() options need a route and have none."""
        if self.algorithm == "innetwork" and not self.route:
            raise RuntimeError(_ROUTE_IS_MISSING)

    def _resolved_hierarchy(self) -> bool:
        # A host's leader would send for ranks whose colocated servers the others need.
        serves = bool(os.environ.get("ATP_COLOCATED_SERVER"))
        return _switch("hierarchy", self.hierarchy, otherwise=not serves)

    def _resolved_numbers(self) -> dict:
        """scale, wire and exact, some of which exclude each other."""
        scale = _choice("scale", self.scale, ("blocks", "fixed"))
        wire = _choice("wire", self.wire, ("int32", "int16"))
        exact = _switch("exact", self.exact)
        special = {"scale": scale == "fixed", "wire": wire == "int16", "exact": exact}
        chosen = {"scale": repr(scale), "wire": repr(wire), "exact": "True" if self.exact else "1"}
        said = [
            f"{_where(name, getattr(self, name))}={chosen[name]}"
            for name, is_special in special.items()
            if is_special
        ]
        if len(said) > 1:
            raise ValueError(
                f"{' and '.join(said)} exclude each other: a sum travels with the fixed scale, in "
                "16 bits, or exactly; choose one (see Options)"
            )
        return {"scale": scale, "wire": wire, "exact": exact}


def _algorithm(option: str | None) -> str:
    return _choice("algorithm", option, _ALGORITHMS)


def _where(name: str, option) -> str:
    """The option or variable that set the value, for messages."""
    return f"ATP_{name.upper()}" if option is None or option == "" else f"Options.{name}"


def _choice(name: str, option: str | None, choices: tuple[str, ...]) -> str:
    """The option's value, else the environment's, else the first of the choices."""
    choice = option or os.environ.get(f"ATP_{name.upper()}") or choices[0]
    if choice not in choices:
        expected = " or ".join(map(repr, choices))
        raise ValueError(f"{_where(name, option)}={choice!r}: expected {expected}")
    return choice


def _switch(name: str, option: bool | None, otherwise: bool = False) -> bool:
    choices = ("1", "0") if otherwise else ("0", "1")
    return option if option is not None else _choice(name, None, choices) == "1"


def _whole(variable: str, least: int, most: int) -> int:
    """The variable's number, or 0 if it is not set."""
    text = os.environ.get(variable)
    if not text:
        return 0
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"{variable}={text!r}: expected a whole number from {least} to {most}")
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
        raise ValueError(
            f"{variable}={text!r}: expected a number of seconds from 0.001 to 1000000, e.g. 30"
        )
    return datetime.timedelta(seconds=seconds)
