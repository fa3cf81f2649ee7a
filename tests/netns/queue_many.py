"""A rank that queues many small sums at once, perhaps late, and checks each of them."""

import sys
import time

import torch
import torch.distributed as dist

import atp.torch

LENGTHS = (10, 700, 1, 30)


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def main(count: int, late_s: float) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("atp")
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == size - 1:
        time.sleep(late_s)
    tensors = [
        torch.full((LENGTHS[i % len(LENGTHS)],), float(i % 1000 + rank)) for i in range(count)
    ]
    before, begin = resident_bytes(), time.monotonic()
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    queued_s, queued = time.monotonic() - begin, resident_bytes() - before
    for work in works:
        work.wait()
    ended_s = time.monotonic() - begin
    for i, tensor in enumerate(tensors):
        expected = size * (i % 1000) + sum(range(size))
        assert bool((tensor == expected).all()), f"sum {i}: {tensor} is not {expected}"
    print(
        f"{atp.torch.stats()['algorithm']}, rank {rank}: {count} sums queued in {queued_s:.2f} s, "
        f"ended after {ended_s:.2f} s, {queued / count:.0f} bytes each"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
