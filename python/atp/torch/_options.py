"""What a user may say about a group, and what the environment says where the user is silent."""

import dataclasses
import datetime
import math
import os

_MOST_VALUES = 2226  # docs/protocol.md §3

_ROUTE_IS_MISSING = (
    "atp does not know the way to the server: start the program under `atp run -n N -- CMD`, or "
    "set ATP_ROUTE=HOST:PORT,... (switches upward, the server last; the server alone is enough), "
    "or pass pg_options=atp.torch.Options(route=...)"
)


@dataclasses.dataclass(frozen=True)
class Options:
    """For `init_process_group(pg_options=...)` and `new_group(pg_options=...)`.

    route: "HOST:PORT,...", the switches upward and the server last; default: ATP_ROUTE.
    values_per_fragment: float32 values in a packet, 0 for what the path's MTU carries; default:
        ATP_VALUES_PER_FRAGMENT, else 0.
    scale: how float32 becomes integers, the same on every rank: "automatic", a power of two that
        follows the gradients, or "fixed", 1e8; default: ATP_SCALE, else "automatic".
    timeout: how long an all-reduce may stay without progress; default: ATP_TIMEOUT (seconds), else
        the group's timeout.
    join_timeout: how long to wait for the server's answer once all ranks of the group are there;
        default: ATP_JOIN_TIMEOUT (seconds), else 30 s, and never more than the group's timeout.
    """

    route: str | None = None
    values_per_fragment: int | None = None
    scale: str | None = None
    timeout: datetime.timedelta | None = None
    join_timeout: datetime.timedelta | None = None

    def resolved(self, group_timeout: datetime.timedelta) -> "Options":
        """These options with every default filled in."""
        route = self.route or os.environ.get("ATP_ROUTE")
        if not route:
            raise RuntimeError(_ROUTE_IS_MISSING)
        join = self.join_timeout or _seconds("ATP_JOIN_TIMEOUT", datetime.timedelta(seconds=30))
        values = self.values_per_fragment
        if values is None:
            values = _values_per_fragment()
        return Options(
            route=route,
            values_per_fragment=values,
            scale=_scale(self.scale),
            timeout=self.timeout or _seconds("ATP_TIMEOUT", group_timeout),
            join_timeout=min(join, group_timeout),
        )


def _scale(option: str | None) -> str:
    scale = option or os.environ.get("ATP_SCALE") or "automatic"
    if scale not in ("automatic", "fixed"):
        where = "Options.scale" if option else "ATP_SCALE"
        raise ValueError(f"{where}={scale!r}: expected 'automatic' or 'fixed'")
    return scale


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
