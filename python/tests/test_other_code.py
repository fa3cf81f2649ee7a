"""Code that treats backends by name: torch's own, and a library's."""

import logging
import pathlib
import re
import sys
import types

import pytest
import torch
import torch.distributed as dist
from torch.distributed._shard import sharded_tensor
from torch.distributed._shard.sharding_spec import ChunkShardingSpec
from torch.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.optim import ZeroRedundancyOptimizer

import atp.torch

from .ways import WAYS

# Every file of torch that names Gloo, and what that means over atp.
NAMES_GLOO = {
    "distributed/_dist2.py": "experimental groups: a registry of its own, without atp",
    "distributed/_shard/sharded_tensor/_ops/tensor_ops.py": "`.device` of a ShardedTensor on a "
    "rank without shards: over all but Gloo a GPU, without one an error (docs/use/torch.md)",
    "distributed/_shard/sharded_tensor/api.py": "gather() takes the first device of the backend "
    "that is not the CPU: atp has only those that torch was built for; to(): as for `.device`",
    "distributed/_transport/_bootstrap.py": "an example in a docstring",
    "distributed/algorithms/ddp_comm_hooks/ddp_zero_hook.py": "refuses to overlap over Gloo; "
    "atp can with hook_with_zero_step, and refuses the interleaved one",
    "distributed/checkpoint/_async_process_executor.py": "a group of its own, over Gloo",
    "distributed/debug/_debug_handlers.py": "the debug server's /fr_trace shows Gloo's records "
    "unless ?backend= names another backend",
    "distributed/device_mesh.py": "with GPUs, a mesh over Gloo gets a group of its own; over atp "
    "it uses the default group",
    "distributed/distributed_c10d.py": "monitored_barrier and _set_pg_timeout, which have other "
    "forms over atp (docs/use/torch.md); the rest makes Gloo's own groups",
    "distributed/flight_recorder/components/types.py": "torchfrtrace says that it does not know "
    "atp, and works (docs/operate/flight-recorder.md)",
    "distributed/nn/functional.py": "all_to_all with gradients: of scatters over Gloo, of "
    "all_to_all over atp (python/tests/test_ddp.py)",
    "nn/modules/_functions.py": "SyncBatchNorm, which torch refuses on the CPU",
    "nn/parallel/distributed.py": "logs Gloo's variables",
    "utils/data/dataloader.py": "shares its seed in a group of its own, over Gloo",
}


def test_the_table_has_every_file_of_torch_that_names_gloo():
    root = pathlib.Path(torch.__file__).parent
    names = re.compile(r"""^[^#\n]*(\bGLOO\b|["']gloo["']|ProcessGroupGloo\)|["']GLOO_)""", re.M)
    found = {
        str(path.relative_to(root))
        for folder in ("distributed", "nn", "optim", "utils/data")
        for path in (root / folder).rglob("*.py")
        if names.search(path.read_text())
    }
    assert found - set(NAMES_GLOO) == set(), "what do these do over atp?"


def test_the_backend_has_only_the_devices_that_torch_has():
    has_cuda = torch.backends.cuda.is_built()
    assert dist.Backend.backend_capability["atp"] == ["cpu", "cuda"][: 1 + has_cuda]


def test_a_sharded_tensor_is_gathered(ranks):
    asks_for_a_gpu = torch.backends.cuda.is_built() and not torch.cuda.is_available()

    def body(rank):
        spec = ChunkShardingSpec(0, [f"rank:{each}/cpu" for each in range(2)])
        tensor = sharded_tensor.full(spec, (10, 4), 3.0)
        whole = torch.empty(10, 4) if rank == 0 else None
        if asks_for_a_gpu:  # torch does, for any backend but Gloo, if it was built for CUDA
            # What it says depends on whether this process's parent has asked for one, too.
            with pytest.raises(RuntimeError, match="NVIDIA driver|Cannot re-initialize CUDA"):
                tensor.gather(0, whole)
            return True
        tensor.gather(0, whole)
        return rank == 1 or torch.equal(whole, torch.full((10, 4), 3.0))

    assert ranks.run(2, body) == [True, True]


def trained(hook=None):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(32, 300), torch.nn.ReLU(), torch.nn.Linear(300, 5)]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers), bucket_cap_mb=0.03
    )
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, lr=1e-3, overlap_with_ddp=bool(hook)
    )
    if hook:
        model.register_comm_hook(None, hook(allreduce_hook, model, optimizer))
    inputs = [torch.randn(16, 32, generator=torch.Generator().manual_seed(dist.get_rank()))] * 6
    # The first two steps of an overlapped one only set it up.
    for x in inputs[:2] * bool(hook) + inputs:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    dist.barrier()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("way", WAYS)
def test_zero_is_overlapped_with_backward(ranks, way):
    def body(rank):
        for plain, overlapped in zip(
            trained(), trained(ddp_zero_hook.hook_with_zero_step), strict=True
        ):
            torch.testing.assert_close(overlapped, plain)

    ranks.run(2, body, memory=way == "memory")


def test_zeros_interleaved_hook_is_refused_with_the_one_to_use(ranks):
    def body(rank):
        with pytest.raises(RuntimeError, match="_interleaved cannot be .* Use hook_with_zero_step"):
            trained(ddp_zero_hook.hook_with_zero_step_interleaved)

    ranks.run(2, body)


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_program_with_ignite_is_warned_once(ranks, monkeypatch, is_loaded):
    if is_loaded:
        monkeypatch.setitem(sys.modules, "ignite.distributed", types.ModuleType("ignite"))

    def body(rank):
        texts = []
        handler = logging.Handler()
        handler.emit = lambda record: texts.append(record.getMessage())
        logging.getLogger("atp.torch").addHandler(handler)
        store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
        atp.torch._other_code._has_warned = False
        for _ in range(2):
            dist.destroy_process_group()
            dist.init_process_group("atp", store=store, rank=rank, world_size=2)
        return sum("auto_model() does not know the backend atp" in text for text in texts)

    assert ranks.run(2, body) == [int(is_loaded), 0]
