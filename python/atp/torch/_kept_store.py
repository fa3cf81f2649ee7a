"""Keeps the store of the default group for the next default group.

With env:// and tcp://, rank 0's process serves the store, until destroy_process_group(). If a
program makes its default group again, another rank may be faster and still connect to the former
store, which then closes. Gloo's groups take so long to end that this is rare. As long as something
holds the former store, torch's rank 0 serves the next group from it, as torchrun does.
"""

import torch.distributed as dist

_kept = None


def keep(group) -> None:
    """Called in every rank of a default group."""
    global _kept
    if group.group_rank != 0 or group.group_size < 2:
        return
    store = group.store
    while isinstance(store, dist.PrefixStore) and isinstance(
        store.underlying_store, dist.PrefixStore
    ):
        store = store.underlying_store
    if isinstance(store, dist.PrefixStore) and _is_from_rendezvous(store):
        _kept = store


def _is_from_rendezvous(store) -> bool:
    """A program's own store is not kept: it may want to listen at the same port again."""
    if not isinstance(store.underlying_store, dist.TCPStore):
        return False
    store.set("atp/kept", "")
    return store.underlying_store.check(["default_pg/atp/kept"])
