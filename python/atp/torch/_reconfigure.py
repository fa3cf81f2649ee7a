"""Groups whose ranks can change, by torch.distributed._reconfigure (torch 2.14 and later).

With init_process_group(enable_reconfigure=True), a group has no ranks until each of them has called
_reconfigure() with everyone's handles. Each such call makes a complete group of the backend atp,
as a new init_process_group() would; its ranks meet in the store that the first one was given.
"""

import dataclasses
import types
import uuid

import torch.distributed as dist

from atp import _C
from atp.torch._options import Options


def reconfigurable_group(group, options: Options, create):
    """The backend of such a group; create(group, options) makes the group of some of its ranks."""
    # The time-out of a reconfigure() ends with it; operations keep the group's.
    timeout = options.resolved(group.timeout, alone=True).timeout
    options = dataclasses.replace(options, timeout=timeout)

    def make(number, rank, size, timeout):
        members = types.SimpleNamespace(
            store=dist.PrefixStore(f"reconfigure/{number}", group.store),
            group_rank=rank,
            group_size=size,
            group_id=f"{group.group_id}/{number}",
            global_ranks_in_group=list(range(size)),
            timeout=timeout,
        )
        return create(members, options)

    return _C.ReconfigurableGroup(
        rank=group.group_rank,
        size=group.group_size,
        timeout=timeout,
        handle=uuid.uuid4().hex,
        make=make,
    )
