"""The options of a group, and the environment variables that set their defaults.

Their types, ranges and help are rows of the table in the extension (atp/base/variables.h).
"""

import dataclasses
import datetime
import os
import re
import textwrap

from atp import _C

Kind = _C.VariableKind

_MOST_RANKS_OF_INT16 = 64
# Longer time-outs, such as timedelta.max, are this long: clocks count nanoseconds in 64 bits.
_LONGEST = datetime.timedelta(days=365)

_ROUTE_IS_MISSING = (
    "atp has no route to the server: start the program under `atp run -n N --switch -- "
    "CMD`, or set ATP_ROUTE=HOST:PORT,... (switches upward, the server last; the server alone is "
    "enough), or pass pg_options=atp.torch.Options(route=...). A group with "
    "Options(algorithm='ring') needs no server, nor does one whose ranks are all on one host, "
    "unless ATP_HOST_MEMORY=0 or Options(host_memory=False) sends it to the network"
)

_ROWS = {row.option: row for row in _C.VARIABLES.values() if row.option}
# Of each kind of option: its type, what it is if nothing is set, and what is expected unless the
# row says so.
_KINDS = {
    Kind.TEXT: (str, "", None),
    Kind.CHOICE: (str, None, None),
    Kind.SWITCH: (bool, False, "True or False"),
    Kind.WHOLE: (int, 0, None),
    Kind.SECONDS: (datetime.timedelta, None, "a datetime.timedelta, e.g. timedelta(seconds=30)"),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """For `init_process_group(pg_options=...)` and `new_group(pg_options=...)`.

    An option that is None has the value of its environment variable. Time-outs are timedeltas.

    """

    algorithm: str | None = None
    route: str | None = None
    host_memory: bool | None = None
    hierarchy: bool | None = None
    values_per_fragment: int | None = None
    scale: str | None = None
    wire: str | None = None
    exact: bool | None = None
    overflow: str | None = None
    congestion: str | None = None
    timeout: datetime.timedelta | None = None
    join_timeout: datetime.timedelta | None = None
    digest: bool | None = None
    digest_every: int | None = None

    def __post_init__(self):
        for name, row in _ROWS.items():
            if (value := getattr(self, name)) is not None:
                _check(row, value)

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
        found = {name: self._chosen(row) for name, row in _ROWS.items()}
        usual = {
            "host_memory": True,
            # A host's leader would send for ranks whose colocated servers the others need.
            "hierarchy": not os.environ.get("ATP_COLOCATED_SERVER"),
            "timeout": group_timeout,
            "join_timeout": _C.DEFAULT_JOIN_TIMEOUT,
        }
        for name, row in _ROWS.items():
            if found[name] is None:
                of_kind = row.choices[0] if row.kind == Kind.CHOICE else _KINDS[row.kind][1]
                found[name] = usual.get(name, of_kind)
        self._check_numbers(found)
        if found["algorithm"] == "auto" and found["scale"] == "fixed":
            found["algorithm"] = "innetwork"  # the only one with a fixed scale
        if found["algorithm"] == "ring":
            found["route"] = ""
        found["host_memory"] &= found["algorithm"] != "ring" and found["scale"] != "fixed"
        found["hierarchy"] &= found["host_memory"] and not found["exact"]
        found["timeout"] = min(found["timeout"], _LONGEST)
        found["join_timeout"] = min(found["join_timeout"], group_timeout, _LONGEST)
        options = Options(**found)
        if not alone and not options.host_memory:
            options.check_route()
        return options

    def check_route(self) -> None:
        """Raises RuntimeError if these resolved() options need a route and have none."""
        if self.algorithm == "innetwork" and not self.route:
            raise RuntimeError(_ROUTE_IS_MISSING)

    def _chosen(self, row):
        """The option, else the variable; None: neither is set."""
        option = getattr(self, row.option)
        return of_environment(row.name) if option is None or option == "" else option

    def _check_numbers(self, found: dict) -> None:
        """Raises ValueError if scale, wire and exact exclude each other."""
        special = {"scale": "fixed", "wire": "int16", "exact": True}
        said = []
        for name, value in special.items():
            if found[name] == value:
                own = getattr(self, name)
                is_own = own is not None and own != ""
                shown = repr(value) if is_own or name != "exact" else "1"
                said.append(f"{f'Options.{name}' if is_own else _ROWS[name].name}={shown}")
        if len(said) > 1:
            raise ValueError(
                f"{' and '.join(said)} exclude each other: a sum travels with the fixed scale, in "
                "16 bits, or exactly; choose one (see Options)"
            )


def of_environment(name: str):
    """The variable's value; None: it is not set."""
    row, text = _C.VARIABLES[name], os.environ.get(name)
    if not text:
        return None
    if row.kind == Kind.TEXT:
        return text
    if text in row.choices:
        return text == "1" if row.kind == Kind.SWITCH else text
    is_whole = text.isascii() and text.isdecimal()
    if row.kind == Kind.WHOLE and is_whole and row.least <= int(text) <= row.most:
        return int(text)
    if row.kind == Kind.SECONDS and (seconds := _number(text)) and row.least <= seconds <= row.most:
        return datetime.timedelta(seconds=seconds)
    raise ValueError(f"{name}={text!r}: expected {_expected(row)}")


# As C++ reads them: float() takes spaces, underscores and the digits of all scripts, too.
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _expected(row) -> str:
    return row.expected.replace('"', "'")


def _check(row, value) -> None:
    kind, _, expected = _KINDS[row.kind]
    said = f"Options.{row.option}={value!r}: expected"
    # In Python a bool is an int, but True is not a count.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{said} {expected or _expected(row)}")
    if kind is datetime.timedelta and value <= datetime.timedelta(0):
        raise ValueError(f"{said} more than 0 s, e.g. datetime.timedelta(seconds=30)")
    is_out = kind is int and not row.least <= value <= row.most
    if is_out or (row.kind == Kind.CHOICE and value and value not in row.choices):
        raise ValueError(f"{said} {_expected(row)}")


def _help_of(option: str) -> str:
    row = _ROWS[option]
    text = f"{option}: {row.meaning}. Default: {row.name}, else {row.otherwise}."
    if row.kind == Kind.SWITCH:
        text = text.replace("`1`", "`True`").replace("`0`", "`False`")
    return textwrap.fill(
        text,
        width=100,
        initial_indent="    ",
        subsequent_indent="        ",
        break_on_hyphens=False,
    )


Options.__doc__ += "\n".join(map(_help_of, Options.__annotations__)).lstrip()
