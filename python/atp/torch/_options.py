"""What a user may say about a group, and what the environment says where the user is silent."""

import dataclasses
import datetime
import math
import os

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
    timeout: how long an all-reduce may stay without progress; default: the group's timeout.
    join_timeout: how long to wait for the server's answer once all ranks of the group are there;
        default: ATP_JOIN_TIMEOUT (seconds), else 30 s, and never more than the group's timeout.
    """

    route: str | None = None
    values_per_fragment: int | None = None
    timeout: datetime.timedelta | None = None
    join_timeout: datetime.timedelta | None = None

    def resolved(self, group_timeout: datetime.timedelta) -> "Options":
        """These options with every default filled in."""
        route = self.route or os.environ.get("ATP_ROUTE")
        if not route:
            raise RuntimeError(_ROUTE_IS_MISSING)
        join = self.join_timeout or datetime.timedelta(seconds=_number("ATP_JOIN_TIMEOUT", 30))
        values = self.values_per_fragment
        if values is None:
            values = int(_number("ATP_VALUES_PER_FRAGMENT", 0))
        return Options(
            route=route,
            values_per_fragment=values,
            timeout=self.timeout or group_timeout,
            join_timeout=min(join, group_timeout),
        )


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"{variable}={text!r}: expected a number that is not negative")
    return number
