"""A job of torch ranks, one per host, that sums and checks the sums until it is told to stop.

    job.py SPEC     SPEC: a JSON file with the ranks' namespaces, variables, store and log files

Each rank appends a line to its log after each step: the time, and how many sums were wrong. Before
these, lines with "begins" and "created" say when it began to make its group, and when it had it.
torch is imported once, and a rank is a fork in the namespace of its host. SIGTERM makes the ranks
leave their job.
"""

import ctypes
import datetime
import json
import os
import signal
import sys
import time
import traceback

import torch
import torch.distributed as dist

import atp.torch  # noqa: F401  (the backend)

SIZE, WORDS, PAUSE_S = 60_000, 4_000, 0.003


def enter(namespace):
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def work(rank, world_size, store, log, over):
    torch.set_num_threads(1)
    say(log, "begins")
    patience = datetime.timedelta(seconds=60)
    dist.init_process_group(
        "atp", init_method=store, rank=rank, world_size=world_size, timeout=patience
    )
    drawn = [torch.Generator().manual_seed(number) for number in range(world_size)]
    floats = [torch.randint(-8192, 8192, (SIZE,), generator=one).float() / 1024 for one in drawn]
    integers = [
        torch.randint(-(10**9), 10**9, (WORDS,), generator=one, dtype=torch.int32) for one in drawn
    ]
    float_sum, integer_sum = sum(floats), sum(one.long() for one in integers).to(torch.int32)
    say(log, "created")
    step = 0
    while True:
        factor, wrong = 1 + step % 4, 0
        values = floats[rank] * factor
        dist.all_reduce(values)
        wrong += not torch.equal(values, float_sum * factor)
        values = integers[rank].clone()
        dist.all_reduce(values)
        wrong += not torch.equal(values, integer_sum)
        # All ranks stop after the same step.
        stop = torch.tensor([len(over)], dtype=torch.int32)
        dist.all_reduce(stop)
        say(log, f"{wrong}")
        if stop.item() > 0:
            break
        step += 1
        time.sleep(PAUSE_S)
    dist.destroy_process_group()


def say(log, words):
    os.write(log, f"{time.monotonic()} {words}\n".encode())


def main(file):
    with open(file) as opened:
        spec = json.load(opened)
    children, over = [], []
    for rank, (namespace, log) in enumerate(zip(spec["namespaces"], spec["logs"], strict=True)):
        child = os.fork()
        if child == 0:
            # The group of the parent is told to stop; only the ranks have something to do then.
            signal.signal(signal.SIGTERM, lambda *_: over.append(True))
            log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for output in (1, 2):
                os.dup2(log, output)
            try:
                enter(namespace)
                os.environ.update(spec["env"])
                os.environ["ATP_ROUTE"] = spec["routes"][rank]
                if spec.get("metrics"):
                    os.environ["ATP_METRICS"] = spec["metrics"][rank]
                work(rank, len(spec["namespaces"]), spec["store"], log, over)
            except BaseException:
                say(log, "ended: " + traceback.format_exc())
                os._exit(1)
            os._exit(0)
        children.append(child)
    print("ranks", *children, flush=True)

    def end(*_):
        for child in children:
            os.kill(child, signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    failed = [child for child in children if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
    sys.exit(len(failed))


if __name__ == "__main__":
    main(sys.argv[1])
