"""For all tests: SIGINT works, and tests that need network namespaces fail without them."""

import signal

import pytest

from lab.requirements import missing


def pytest_configure():
    # A shell that starts pytest in the background makes it ignore SIGINT, and with it every
    # program that a test starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def needs_namespaces():
    problem = missing("nft", "ethtool")
    if problem is not None:
        pytest.fail(problem)
