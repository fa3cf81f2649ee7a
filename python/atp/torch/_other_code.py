"""Says so where other code would go wrong over a backend that it does not know by name.

Called for each group, since a program has imported what it uses by then.
"""

import logging
import sys

import torch.distributed as dist

_log = logging.getLogger("atp.torch")
_has_warned = False


def check(group) -> None:
    _refuse_interleaved_zero()
    if not group.global_ranks_in_group and group.group_rank == 0 and group.group_size > 1:
        _warn_of_ignite()


def _warn_of_ignite() -> None:
    global _has_warned
    if _has_warned or "ignite.distributed" not in sys.modules:
        return
    _has_warned = True
    _log.warning(
        "ignite.distributed.auto_model() does not know the backend atp: it returns the model as it "
        "is, and each rank would train on its own. Wrap the model in "
        "torch.nn.parallel.DistributedDataParallel instead"
    )


class _Distributed:
    """What torch's module of ZeRO's hooks sees as torch.distributed."""

    def __getattr__(self, name):
        return getattr(dist, name)

    @staticmethod
    def get_backend(group=None):
        backend = dist.get_backend(group)
        refused = "hook_with_zero_step_interleaved"
        if backend == "atp" and sys._getframe(1).f_code.co_name == refused:
            raise RuntimeError(
                f"{refused} cannot be used over the backend atp, as over Gloo: it starts "
                "broadcasts in callbacks, which run in another order on each rank. Use "
                "hook_with_zero_step, which waits with them until the last bucket"
            )
        return backend


def _refuse_interleaved_zero() -> None:
    # torch's function asks for the backend, to refuse Gloo. It may long be imported by its name.
    module = sys.modules.get("torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook")
    if module is not None and module.dist is dist:
        module.dist = _Distributed()
