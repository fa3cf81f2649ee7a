"""Misspelt environment variables, which would otherwise have no effect and go unnoticed."""

import difflib
import logging
import os

# The variables of docs/variables.md that begin with ATP_, except those of tests. (`atp run` has
# them in atp/cli/run/variable_names.cc; tests/readme/test_variables.py compares all three.)
NAMES = (
    "ATP_ALGORITHM", "ATP_CONGESTION", "ATP_DIGEST", "ATP_DIGEST_EVERY", "ATP_EXACT",
    "ATP_FLIGHT_RECORDER", "ATP_FLIGHT_RECORDER_SIZE", "ATP_HIERARCHY", "ATP_HOST_MEMORY",
    "ATP_HOST_RANKS", "ATP_INCARNATION", "ATP_JOB", "ATP_JOIN_TIMEOUT", "ATP_KEY_FILE",
    "ATP_METRICS", "ATP_OVERFLOW", "ATP_OWN_SERVER", "ATP_PORT_RANGE", "ATP_PYTHON", "ATP_ROUTE",
    "ATP_SCALE", "ATP_SOCKET_IFNAME", "ATP_TIMEOUT", "ATP_VALUES_PER_FRAGMENT", "ATP_WAY_FIGURES",
    "ATP_WILLS", "ATP_WIRE",
)  # fmt: skip
_PREFIX = "ATP_"

_log = logging.getLogger("atp.torch")


def misspelt(environment) -> list[str]:
    """A sentence for each name that is nearly one of ours. A name that is like none is somebody
    else's: for a service called atp, Kubernetes sets ATP_PORT."""
    endings = [name.removeprefix(_PREFIX) for name in NAMES]
    found = []
    for name in sorted(environment):
        if not name.startswith(_PREFIX) or name in NAMES:
            continue
        near = difflib.get_close_matches(name.removeprefix(_PREFIX), endings, n=1, cutoff=0.8)
        if near:
            found.append(f"{name} is unknown; did you mean {_PREFIX}{near[0]}?")
    return found


def warn_about_misspelt() -> None:
    """One rank of each host speaks for all, and only if `atp run` has not said the same before."""
    if os.environ.get("LOCAL_RANK", "0") != "0" or "ATP_WILLS" in os.environ:
        return
    for sentence in misspelt(os.environ):
        _log.warning("environment variable %s", sentence)
