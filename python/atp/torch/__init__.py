"""The torch.distributed backend "atp": gradients are summed in the network.

    import torch.distributed as dist
    import atp.torch

    dist.init_process_group("atp")      # under `atp run -n 4 -- python train.py`

All-reduces of dense tensors go through the switches and the server that the route names,
or through shared memory if all ranks are on one host: sums and averages of float32, bfloat16 and
float16, sums of integers, maxima and minima. They are added as integers or exactly. Everything else
goes over TCP connections between ranks, and is added in a fixed order. All ranks get the same bits
in every run, and a result depends only on its inputs (docs/use/torch.md).

With DistributedDataParallel, register atp.torch.ddp_hook: it passes on where one parameter's
gradient ends and the next one's begins.

Without a route, and for sums for which it is faster, a group uses a ring: its ranks sum over these
connections, from neighbour to neighbour, with no switch and no server. Options(algorithm="ring")
chooses it for all sums, reduce-scatters and all-gathers (docs/use/torch.md).
"""

import torch

from atp._torch_series import TORCH_SERIES

# The extension is one binary for one series of torch: the layout of the class that it derives from
# changes between series, and a mismatch would crash rather than raise.
if ".".join(torch.__version__.split(".")[:2]) != TORCH_SERIES:
    raise ImportError(
        f"atp.torch was built for torch {TORCH_SERIES}, but torch {torch.__version__} is "
        "installed; build it again for this one (docs/use/torch.md, Versions), or install "
        f"torch=={TORCH_SERIES}.*"
    )

import atp.torch._backend  # noqa: E402, F401 (raises an error if the extension is missing)
from atp._register import register  # noqa: E402
from atp.torch._hooks import ddp_hook, int16_hook  # noqa: E402
from atp.torch._options import Options  # noqa: E402
from atp.torch._stats import digest, stats, write_flight_records  # noqa: E402
from atp.torch._two_level_hook import two_level_hook  # noqa: E402

__all__ = [
    "Options",
    "ddp_hook",
    "digest",
    "int16_hook",
    "register",
    "stats",
    "two_level_hook",
    "write_flight_records",
]

register()
