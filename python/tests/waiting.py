"""Waits for what comes a moment later than the call that brings it about."""

import os
import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether the condition holds in time."""
    end = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return holds


def thread_count() -> int:
    """Wait for a lower one: the kernel lists a thread for a moment after it has been joined."""
    return len(os.listdir("/proc/self/task"))
