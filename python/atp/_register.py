"""Registers the backend "atp" with torch.distributed.

Where the package is installed, torch does so by itself (pyproject.toml, entry-points), torch 2.13
in every program that imports torch. So this is quick, and leaves the rest to the first group, even
the error if the extension does not fit this torch.
"""

import contextlib


def register() -> None:
    """Idempotent."""
    import torch.distributed as dist

    if not dist.is_available() or "atp" in dist.Backend.backend_list:
        return
    dist.Backend.register_backend("atp", _create, extended_api=True, devices=_devices())


def register_quietly() -> None:
    """For `import torch`, which fails with any exception that leaves here."""
    with contextlib.suppress(Exception):
        register()


def _devices() -> list[str]:
    """Only those that this torch has: some of its features take the first that is not the CPU."""
    import torch

    # Tensors on a GPU are copied to the processor's memory, and the results back.
    return ["cpu", "cuda"] if torch.backends.cuda.is_built() else ["cpu"]


def _create(group, options):
    """The factory that torch calls in every member of a new group."""
    from atp.torch._backend import create

    return create(group, options)
