"""What the tests of all packages need: the packages."""

import pytest

from .machine import ROOT, run


@pytest.fixture(scope="session", autouse=True)
def packages():
    run(ROOT / "tools" / "package", cwd=ROOT)
