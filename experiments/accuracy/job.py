"""Starts the ranks of an experiment on this machine, and shows their progress."""

import collections
import os
import subprocess
import sys

from experiments.report import BUILD, REPOSITORY
from lab.entry import ends_with_us


def run_job(module, world_size, *words):
    """Runs a module of this folder under `atp run`; rank 0's output is shown immediately."""
    command = [
        BUILD / "bin" / "atp", "run", "-n", world_size, "--switch", "--",
        sys.executable, "-m", f"experiments.accuracy.{module}", *words,
    ]  # fmt: skip
    environment = {
        "GLOO_SOCKET_IFNAME": "lo",
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=ends_with_us(),
    ) as job:
        last = collections.deque(maxlen=200)
        for line in job.stdout:
            last.append(line)
            if line.startswith("#"):  # progress
                print(line, end="", flush=True)
    if job.returncode != 0:
        raise SystemExit(f"{module} with {world_size} ranks failed:\n{''.join(last)}")
