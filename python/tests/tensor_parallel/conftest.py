"""Ranks over Gloo only: no switch and no server is started for them."""

import pytest

from ..conftest import Ranks


@pytest.fixture(scope="module")
def gloo_ranks(tmp_path_factory) -> Ranks:
    return Ranks(tmp_path_factory.mktemp("ranks"), route="")
