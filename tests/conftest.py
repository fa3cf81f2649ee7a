"""For all tests: what needs network namespaces fails without them and says what to do."""

import pytest

from lab.requirements import missing


@pytest.fixture(scope="session")
def needs_namespaces():
    problem = missing("nft", "ethtool")
    if problem is not None:
        pytest.fail(problem)
