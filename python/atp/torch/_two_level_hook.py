"""A communication hook for hosts of several ranks: each host sends a bucket only once.

    # intra: the ranks of this rank's host; inter: one rank per host, all at the same position
    model.register_comm_hook(None, atp.torch.two_level_hook(intra, inter))

A host of L ranks sends a bucket once instead of L times: a reduce-scatter in the host gives each of
its ranks one share of the host's sum, an all-reduce sums the shares between the hosts, and an
all-gather in the host collects the average.

Use it for gradients on GPUs: NCCL sums them within the host, and only a rank's share is copied to
the CPU. Gradients on the CPU do not need it: by default a host sends every sum only once, with the
same bits as if each rank sent its own (Options.hierarchy).
"""

import dataclasses
import itertools
import queue
import threading
from collections.abc import Callable

import torch
import torch.distributed as dist

from atp.torch._stats import backend_of

__all__ = ["two_level_hook"]


def two_level_hook(
    intra_group: dist.ProcessGroup, inter_group: dist.ProcessGroup
) -> Callable[[object, dist.GradBucket], torch.futures.Future[torch.Tensor]]:
    """Returns a hook that averages a bucket within each host first, then its shares between hosts.

    This is a collective call: all ranks must make it at the same time, because it checks the groups
    against each other.

    intra_group: the ranks of this rank's host, with any backend that supports their device (nccl,
    gloo, atp). inter_group: one rank per host, all at this rank's position in their intra_groups.
    Its tensors are on the CPU, so a share on another device is copied through pinned memory. All
    hosts must have the same number of ranks.

    The hook issues all its operations from one thread, in the order of the buckets, so it needs
    both groups to itself: no other operation may use them during a backward pass. The state passed
    to register_comm_hook is the model's process group (None: the default group). Raises ValueError
    if the groups do not form a grid, or do not have the model's ranks.
    """
    if intra_group is None or inter_group is None:
        raise ValueError(
            "two_level_hook needs intra_group and inter_group, but found None for one of them"
        )
    _check(intra_group, inter_group)
    pipeline = _Pipeline(intra_group, inter_group)

    def hook(
        state: dist.ProcessGroup | None, bucket: dist.GradBucket
    ) -> torch.futures.Future[torch.Tensor]:
        ranks = (state if state is not None else dist.group.WORLD).size()
        if ranks != intra_group.size() * inter_group.size():
            raise ValueError(
                f"expected groups that cover the model's {ranks} ranks, but found an intra_group "
                f"of {intra_group.size()} and an inter_group of {inter_group.size()}: create them "
                "from all ranks of the model, and pass the model's process group, if it is not the "
                "default one, as state to register_comm_hook"
            )
        return pipeline.submit(bucket)

    return hook


def _check(intra: dist.ProcessGroup, inter: dist.ProcessGroup) -> None:
    """Raises unless the ranks form a grid with hosts as rows and inter groups as columns."""
    row, column = (dist.get_process_group_ranks(group) for group in (intra, inter))
    rows: list = [None] * inter.size()
    dist.all_gather_object(rows, row, group=inter)
    columns: list = [None] * intra.size()
    dist.all_gather_object(columns, column, group=intra)
    me = dist.get_rank()
    for name, others, place in (
        ("intra_group", rows, intra.rank()),
        ("inter_group", columns, inter.rank()),
    ):
        for other in others:
            if len(other) != len(others[0]):
                raise ValueError(
                    f"every {name} must have the same number of ranks, but found ranks {others[0]} "
                    f"and {other}"
                )
        if {me} != set(row) & set(column) or len(set(sum(others, []))) != sum(map(len, others)):
            raise ValueError(
                f"rank {me} has intra_group {row} and inter_group {column}: intra_group must "
                f"contain the ranks of its host, inter_group one rank per host, and only rank {me} "
                "may be in both"
            )
        met = [other[place] for other in others]
        if met != (column if name == "intra_group" else row):
            raise ValueError(
                f"rank {me} has intra_group {row} and inter_group {column}: all ranks of an "
                "inter_group must have the same position in their intra_groups"
            )


@dataclasses.dataclass
class _Bucket:
    """A bucket in progress. Each step fills the next of these fields."""

    whole: torch.Tensor  # DDP's own buffer, in which the average ends up
    lengths: list[int]  # the lengths of its parameters' gradients
    last: bool  # the last one of this backward pass
    future: torch.futures.Future
    ready: object | None  # the event after which a device has computed the gradients
    padded: torch.Tensor | None = None
    share: torch.Tensor | None = None
    staged: torch.Tensor | None = None  # the share in pinned memory
    work: dist.Work | None = None


class _Pipeline:
    """Processes buckets on its own thread: one within the host while another is between hosts.

    All ranks must issue the same operations in the same order, though their buckets become ready
    at different times. So the order depends only on the buckets' order: the reduce-scatter of a
    bucket, the all-gather of the previous one, the all-reduce of the bucket.
    """

    def __init__(self, intra: dist.ProcessGroup, inter: dist.ProcessGroup):
        self._intra = intra
        self._inter = inter
        self._buckets: queue.SimpleQueue[_Bucket] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._stream = None

    def submit(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        whole = bucket.buffer()
        if whole.layout != torch.strided:
            raise ValueError(
                f"two_level_hook needs dense gradients, but found {whole.layout}: use "
                "atp.torch.ddp_hook"
            )
        on_cpu = whole.device.type == "cpu"
        future = torch.futures.Future(devices=None if on_cpu else [whole.device])
        self._buckets.put(
            _Bucket(
                whole,
                [gradient.numel() for gradient in bucket.gradients()],
                bucket.is_last(),
                future,
                None if on_cpu else torch.accelerator.current_stream(whole.device).record_event(),
            )
        )
        if self._thread is None:
            # A daemon: the end of the program does not wait for it if a peer is silent.
            self._thread = threading.Thread(target=self._run, name="atp-hierarchy", daemon=True)
            self._thread.start()
        return future

    def _run(self) -> None:
        before: list[_Bucket] = []
        for bucket in iter(self._buckets.get, None):
            under_way = [*before, bucket]
            try:
                if self._failure is not None:
                    raise self._failure
                with self._device_of(bucket):
                    before = self._advance(before, bucket)
            except Exception as error:  # noqa: BLE001 (whoever waits for the bucket gets it)
                # The ranks may disagree on the next operation: the groups can no longer be used.
                self._failure = error
                for lost in under_way:
                    if not lost.future.done():
                        lost.future.set_exception(error)
                before = []

    def _advance(self, before: list[_Bucket], bucket: _Bucket) -> list[_Bucket]:
        """Issues the next operations for `bucket`; returns the buckets still between hosts."""
        self._scatter(bucket)
        for previous in before:
            self._gather(previous)
        self._send_between_hosts(bucket)
        if not bucket.last:
            return [bucket]
        self._gather(bucket)
        return []

    def _scatter(self, bucket: _Bucket) -> None:
        ranks = self._intra.size()
        length = -(-bucket.whole.numel() // ranks)
        bucket.padded = bucket.whole
        if length * ranks != bucket.whole.numel():
            bucket.padded = bucket.whole.new_zeros(length * ranks)
            bucket.padded[: bucket.whole.numel()] = bucket.whole
        bucket.padded /= ranks
        bucket.share = torch.empty_like(bucket.padded[:length])
        dist.reduce_scatter_tensor(bucket.share, bucket.padded, group=self._intra)

    def _send_between_hosts(self, bucket: _Bucket) -> None:
        bucket.staged = bucket.share
        if bucket.share.device.type != "cpu":
            bucket.staged = torch.empty_like(bucket.share, device="cpu", pin_memory=True)
            bucket.staged.copy_(bucket.share, non_blocking=True)
            self._stream.synchronize()
        if dist.get_backend(self._inter) == "atp":
            lengths = self._lengths_in_share(bucket)
            bucket.work = backend_of(self._inter).average_segments(bucket.staged, lengths, "")
        else:
            bucket.staged /= self._inter.size()
            bucket.work = dist.all_reduce(bucket.staged, group=self._inter, async_op=True)

    def _lengths_in_share(self, bucket: _Bucket) -> list[int]:
        """How many values of each parameter, and of the padding, are in this rank's share."""
        begin = self._intra.rank() * bucket.share.numel()
        end = begin + bucket.share.numel()
        ends = [*itertools.accumulate(bucket.lengths), bucket.padded.numel()]
        clipped = [min(max(place, begin), end) for place in (0, *ends)]
        return [b - a for a, b in itertools.pairwise(clipped) if b > a]

    def _gather(self, bucket: _Bucket) -> None:
        bucket.work.wait()
        if bucket.staged is not bucket.share:
            bucket.share.copy_(bucket.staged, non_blocking=True)
        dist.all_gather_into_tensor(bucket.padded, bucket.share, group=self._intra)
        if bucket.padded is not bucket.whole:
            bucket.whole.copy_(bucket.padded[: bucket.whole.numel()])
        bucket.future.set_result(bucket.whole)

    def _device_of(self, bucket: _Bucket):
        """The stream on which this thread's work for a device runs, after the gradients."""
        if bucket.ready is None:
            return torch.no_grad()
        if self._stream is None:
            self._stream = torch.Stream(device=bucket.whole.device)
        self._stream.wait_event(bucket.ready)
        return self._stream
