"""The torch.distributed backend "atp": gradients are summed in the network.

    import torch.distributed as dist
    import atp.torch

    dist.init_process_group("atp")      # under `atp run -n 4 -- python train.py`

SUM and AVG all-reduce of dense float32 tensors on the CPU go through the switches and the server
that the route names; every other collective and data type goes to a Gloo group inside. Sums are
taken in integers (values times a power of two that follows the gradients), so all ranks hold
bit-identical results, in every run.

A group with pg_options=Options(algorithm="ring") needs no switch and no server: its ranks sum over
TCP from neighbour to neighbour, reduce-scatters and all-gathers too (docs/torch.md).
"""

import torch

_TORCH_SERIES = "2.13"

# The extension is one binary for one series of torch: the layout of the class that it derives from
# changes between series, and a mismatch would crash rather than raise.
if torch.__version__.split("+")[0].rsplit(".", 1)[0] != _TORCH_SERIES:
    raise ImportError(
        f"atp.torch was built for torch {_TORCH_SERIES}, but torch {torch.__version__} is "
        f"installed; install torch=={_TORCH_SERIES}.0 (pip install torch=={_TORCH_SERIES}.0)"
    )

from atp.torch._backend import register  # noqa: E402
from atp.torch._options import Options  # noqa: E402
from atp.torch._stats import stats  # noqa: E402
from atp.torch._tag import set_tag  # noqa: E402

__all__ = ["Options", "set_tag", "stats"]

register()
