"""Runs the ranks of one job, of which one fails, and collects what the others are told."""

import contextlib
import datetime
import multiprocessing
import os
import re
import subprocess
import tempfile
import time

import torch
import torch.distributed as dist

import atp.torch
from experiments.rank_failures.calls import (
    CALLS,
    FATES,
    OTHERS,
    RANKS,
    VICTIM,
    exchange,
    in_threads,
    told,
)

# A thread pool of this process would be lost in the ranks, which are forked.
torch.set_num_threads(1)
_fork = multiprocessing.get_context("fork")

WAYS = {"network": "innetwork", "ring": "ring"}
MEET_S = 60


@contextlib.contextmanager
def route(program):
    """A switch and a server for one job, so that it does not meet an earlier, dead one there."""
    with contextlib.ExitStack() as stack:
        endpoints = []
        for role in ("switch", "server"):
            node = subprocess.Popen(
                [program, role, "--listen", "127.0.0.1:0"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            stack.callback(node.wait)
            stack.callback(node.kill)
            found = None
            while not found:
                line = node.stdout.readline()
                if not line:
                    raise RuntimeError(f"{program} {role} did not start")
                found = re.search(r"127\.0\.0\.1:\d+", line)
            endpoints.append(found[0])
        yield ",".join(endpoints)


def rank_main(rank, way, fate, names, limit_s, meeting, path, answer):
    os.environ.update(ATP_ROUTE=path, ATP_HOST_MEMORY="0", ATP_ALGORITHM=WAYS[way])
    limit = datetime.timedelta(seconds=MEET_S)
    dist.init_process_group(
        "atp", init_method=f"file://{meeting}", rank=rank, world_size=RANKS, timeout=limit
    )
    limit = datetime.timedelta(seconds=limit_s)
    options = atp.torch.Options(algorithm=WAYS[way], host_memory=False)
    groups = {name: dist.new_group(timeout=limit, pg_options=options) for name in names}
    for group in groups.values():
        exchange(group)  # so that they have met, as in a job that has run for a while
    dist.barrier()
    if rank == VICTIM:
        FATES[fate](groups)
    found = in_threads([lambda n=name: told(CALLS[n], groups[n]) for name in names])
    answer.send(dict(zip(names, found, strict=True)))


def outcomes(program, way, fate, names, limit_s):
    """{rank: {call: (text, seconds)}} of the ranks that do not fail."""
    with tempfile.TemporaryDirectory() as folder, route(program) as path:
        ranks, answers = [], {}
        for rank in range(RANKS):
            receiver, sender = _fork.Pipe(duplex=False)
            words = (rank, way, fate, names, limit_s, f"{folder}/meet", path, sender)
            ranks.append(_fork.Process(target=rank_main, args=words, daemon=True))
            ranks[-1].start()
            sender.close()
            answers[rank] = receiver
        end = time.monotonic() + MEET_S + 10 * limit_s
        try:
            for rank in OTHERS:
                if not answers[rank].poll(max(0.0, end - time.monotonic())):
                    raise TimeoutError(f"rank {rank} is still in {names}: {way}, rank 1 {fate}")
            return {rank: answers[rank].recv() for rank in OTHERS}
        finally:
            for process in ranks:
                process.kill()
                process.join()
