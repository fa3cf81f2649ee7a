"""Misspelt environment variables are named with the nearest right one."""

import pytest

from atp.torch._variables import misspelt


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ATP_ALGORITM", "ATP_ALGORITHM"),
        ("ATP_ROTUE", "ATP_ROUTE"),
        ("ATP_TIME_OUT", "ATP_TIMEOUT"),
        ("ATP_JOBS", "ATP_JOB"),
        ("ATP_DIGET", "ATP_DIGEST"),
        ("ATP_ROUTE", None),
        ("ATP_PORT", None),  # Kubernetes' for a service called atp
        ("ATP_SERVICE_HOST", None),
        ("ATP_SERVER_PORT", None),
        ("ATP_BUILD", None),
        ("ATP_ALL_TESTS", None),
        ("ATP_WRITE_COSTS", None),
        ("ATP_WRITE_DOCS", None),
        ("ATP_SWITCH_OPTIONS", None),
        ("OMP_NUM_THREADS", None),
        ("ATP_", None),
    ],
)
def test_a_name_that_is_nearly_ours_is_said_to_be_unknown(name, meant):
    expected = [f"{name} is unknown; did you mean {meant}?"] if meant else []
    assert misspelt({"HOME": "/", name: "1"}) == expected
