"""What a group has done so far, in numbers."""

import torch
import torch.distributed as dist

from atp import _C


def stats(group: dist.ProcessGroup | None = None) -> dict:
    """Counts of this rank in `group` (default: the default group).

    {"atp":  {"all_reduce": {"float32": {"calls": 12, "bytes": 3145728}}},
     "gloo": {"broadcast": {"uint8": {...}}, ...},
     "counters": {name: number, ...},     # what this rank sent, got, repeated and dropped
     "values_per_fragment": 350}

    Bytes are those of this rank's input. In a group of one rank everything is under "gloo".
    """
    backend = _backend_of(group if group is not None else dist.group.WORLD)
    paths: dict = {"atp": {}, "gloo": {}}
    for path, operation, dtype, calls, size in backend.traffic():
        paths[path].setdefault(operation, {})[dtype] = {"calls": calls, "bytes": size}
    return {
        **paths,
        "counters": dict(backend.counters()),
        "values_per_fragment": backend.values_per_fragment(),
    }


def _backend_of(group: dist.ProcessGroup) -> _C.ProcessGroupATP:
    if group is None:
        raise ValueError("there is no default group: call init_process_group() first")
    backend = group._get_backend(torch.device("cpu"))
    # TORCH_DISTRIBUTED_DEBUG=DETAIL puts a wrapper around it.
    backend = getattr(backend, "wrapped_pg", backend)
    if not isinstance(backend, _C.ProcessGroupATP):
        raise ValueError(f"this group's backend is {dist.get_backend(group)}, not atp")
    return backend
