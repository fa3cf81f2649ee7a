"""Tests that need a GPU. One is enough: all ranks share it.

    .venv/bin/python -m pytest python/tests/gpu

`make test` leaves them out.
"""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def gpu():
    # Asks the driver only: a process that has used CUDA could not fork the ranks.
    if torch.cuda.device_count() == 0:
        pytest.fail("these tests need a GPU, and torch finds none", pytrace=False)
