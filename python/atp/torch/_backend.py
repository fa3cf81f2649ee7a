"""Makes the process groups of the backend."""

import atexit
import dataclasses
import functools
import logging
import types

import torch.distributed as dist

try:
    # After torch.distributed, which loads the libraries that the extension is linked against.
    from atp import _C
except ImportError as error:
    raise ImportError(
        f"atp's torch extension cannot be loaded ({error}). In a checkout, build it with `make "
        "build`; otherwise reinstall atp (docs/use/packages.md): pip install --force-reinstall "
        "--no-deps --no-cache-dir ..."
    ) from error

from atp.torch import _kept_store, _metrics, _other_code
from atp.torch._address import far_host, is_loopback, own_host, same_network, this_host
from atp.torch._choice import (
    NO_ROUTE,
    TIMES_VARIABLE,
    WHY_NO_RING,
    choose_paths,
    given_figures,
    made_in_memory,
)
from atp.torch._keys import GroupKeys
from atp.torch._meeting import Choice, Meeting
from atp.torch._options import Options
from atp.torch._reconfigure import reconfigurable_group
from atp.torch._watch import Deadline, Watch

_log = logging.getLogger("atp.torch")


def create(group, pg_options):
    """Makes a group's backend, in every member of a new group."""
    if not isinstance(pg_options, Options | None):
        raise TypeError(
            f"pg_options of the backend atp must be atp.torch.Options, not {type(pg_options)}"
        )
    _metrics.start()
    _other_code.check(group)
    if not group.global_ranks_in_group:
        _kept_store.keep(group)
    if getattr(group, "enable_reconfigure", False):  # torch 2.13 does not have it
        return reconfigurable_group(group, pg_options or Options(), _create_of_fixed_ranks)
    return _create_of_fixed_ranks(group, pg_options or Options())


def _create_of_fixed_ranks(group, asked):
    with Watch(_C.Interruption()) as watch:
        return _create_watched(group, asked, Deadline(group.timeout), watch)


def _create_watched(group, asked, deadline, watch):
    global_ranks = list(group.global_ranks_in_group)
    if not global_ranks:  # torch lists none for the default group
        for sentence in _C.untold_misspelt_variables():
            _log.warning("environment variable %s", sentence)
    meeting = Meeting(
        group.store, group.group_rank, group.group_size, group.group_id, global_ranks, watch
    )
    options = asked.resolved(group.timeout, alone=group.group_size == 1)
    options.check_size(group.group_size)
    choices = _choices_of(options)
    # Before any rank connects: a rank with an error should fail before the others connect to it.
    if options.route:
        _C.check_route(options.route, asked.route_name)
    listener = None
    if group.group_size > 1:
        listener = _C.Listener(own_host(options.route))
    figures = None
    if options.algorithm == "auto" and listener is not None:
        figures = given_figures(meeting)
        choices.append(Choice("expected_times", figures.text if figures else "-", TIMES_VARIABLE))
    address = listener.address if listener is not None else ""
    # Rings have no keys, and a group of one has no packets.
    has_packets = options.algorithm != "ring" and listener is not None
    keys = GroupKeys(_C.own_key() if has_packets else None, are_used=has_packets)
    job = meeting.agree_on_job(deadline, choices, address, host=this_host(), keys=keys)
    addresses = meeting.addresses()
    if listener is not None and not meeting.on_one_host:
        listener, addresses = _reachable(listener, addresses, meeting, group, deadline)
    recorded = _C.open_record(
        name=str(group.group_id),
        job=job,
        rank=meeting.global_ranks[group.group_rank],
        ranks=meeting.global_ranks,
    )
    make_group = functools.partial(
        _in_network,
        group,
        options,
        job,
        asked.route_name,
        job_keys=keys.text,
        recorded=recorded,
        deadline=deadline,
        interruption=watch.interruption,
    )
    peers = Peers(
        start=functools.partial(
            _C.Peers,
            rank=group.group_rank,
            size=group.group_size,
            timeout=options.timeout,
            token=_token(job),
            names=meeting.global_ranks,
            listener=listener,
            addresses=addresses,
            numbers=options.numbers,
            recorded=recorded,
        ),
        timeout=functools.partial(_join_timeout, options, deadline),
        interruption=watch.interruption,
    )
    make = _make_keyed if keys.are_in_use and options.algorithm == "auto" else _make
    backend = make(group, meeting, options, make_group, peers, figures, deadline)
    backend.set_peers(peers.get())
    backend.set_recorded(recorded)
    backend.set_split(_maker_of_splits(asked, meeting.global_ranks))
    return backend


class Peers:
    """The connections between a group's ranks, made now if sums may take them, else when needed.

    start: makes a _C.Peers. timeout: gives the time that connecting may take now.
    """

    def __init__(self, start, timeout, interruption):
        self._start = start
        self._timeout = timeout
        self._interruption = interruption
        self._started = None

    def connect(self) -> "_C.Peers":
        """Connects this rank with its neighbours in a ring, or raises a RuntimeError."""
        self._started = self._start()
        self._started.connect(timeout=self._timeout(), interruption=self._interruption)
        return self._started

    def drop(self) -> None:
        """After a failure of a rank, at all ranks, before any of them calls get()."""
        if self._started is not None:
            self._started.abort()
        self._started = None

    def get(self) -> "_C.Peers":
        return self._started or self._start()


def _maker_of_splits(asked, global_ranks):
    """The function with which split_group() makes a group of some of these ranks."""

    def make(store, ranks, rank, name, timeout):
        members = types.SimpleNamespace(
            store=store,
            group_rank=rank,
            group_size=len(ranks),
            group_id=name,
            global_ranks_in_group=[global_ranks[each] for each in ranks],
            timeout=timeout,
        )
        return _create_of_fixed_ranks(members, asked)

    return make


def _reachable(listener, addresses, meeting, group, deadline):
    """(this rank's listener, all ranks' addresses), none of them loopback to a rank elsewhere."""
    hosts = meeting.hosts()

    def elsewhere(rank):
        return [r for r, host in enumerate(hosts) if not same_network(host, hosts[rank])]

    hidden = [r for r, own in enumerate(addresses) if is_loopback(own) and elsewhere(r)]
    if not hidden:
        return listener, addresses
    said = addresses[group.group_rank]
    if group.group_rank in hidden:
        try:
            known = [addresses[r] for r in elsewhere(group.group_rank) if r not in hidden]
            listener = _C.Listener(far_host(known))
            said = listener.address
        except (ValueError, RuntimeError) as error:
            said = f"!{error}"
    found = meeting.exchange("far_address", said, deadline)
    for rank, text in enumerate(found):
        if text.startswith("!"):
            raise ValueError(f"{meeting.name_of(rank)}: {text[1:]}")
    return listener, found


def _make(group, meeting, options, network, peers, figures, deadline):
    """Makes the group, with the path that its sums take; `network` makes one on the network."""

    def around_ring():
        made = _C.InNetworkGroup.without_network(
            rank=group.group_rank, size=group.group_size, timeout=options.timeout
        )
        made.sum_around_ring(options.numbers)
        return made

    if group.group_size == 1:
        return network(False, [])
    if options.algorithm == "ring":
        peers.connect()
        return around_ring()
    in_memory = options.host_memory and meeting.on_one_host
    no_memory = ""
    if in_memory and options.algorithm == "auto":
        # Without the route: if they cannot, choose_paths() joins the network.
        backend, no_memory = made_in_memory(meeting, lambda: network(True, [], route=""), deadline)
        if backend is not None:
            return backend
        in_memory = False
    if not in_memory:
        options.check_route()
    sums_on_hosts = options.hierarchy and not in_memory and not no_memory and options.route
    host_of = meeting.host_of() if sums_on_hosts else []
    if options.algorithm == "auto" and not in_memory:
        return choose_paths(
            meeting,
            options,
            deadline,
            figures,
            network=lambda: network(False, host_of),
            peers=peers,
            around_ring=around_ring,
            no_memory=no_memory,
        )
    return network(in_memory, host_of)


def _make_keyed(group, meeting, options, network, peers, figures, deadline):
    """The same for "auto" with a key: a ring has no tags, so only a user may choose one."""
    in_memory = options.host_memory and meeting.on_one_host
    if not in_memory and not options.route:
        raise RuntimeError(f"{NO_ROUTE}; {WHY_NO_RING}")
    explicit = dataclasses.replace(options, algorithm="innetwork")
    try:
        backend = _make(group, meeting, explicit, network, peers, figures, deadline)
    except dist.DistBackendError as error:
        meeting.check()  # without a rank, nothing helps
        raise dist.DistBackendError(f"{error}; {WHY_NO_RING}") from error
    backend.choice = (
        "the host's memory: all ranks are on one host"
        if in_memory
        else "in the network: the job has a key, and rings have none"
    )
    return backend


def _choices_of(options: Options) -> list[Choice]:
    """The choices that all ranks of a group must share."""
    numbers = "Options.scale, wire and exact; ATP_SCALE, ATP_WIRE, ATP_EXACT"
    choices = [
        Choice("algorithm", options.algorithm, "Options, ATP_ALGORITHM"),
        Choice("numbers", options.numbers, numbers),
    ]
    if options.algorithm != "ring":
        every = "Options.digest_every, ATP_DIGEST_EVERY"
        choices.append(Choice("digest_every", str(options.digest_every), every))
        memory = "Options.host_memory, ATP_HOST_MEMORY"
        choices.append(Choice("host_memory", str(options.host_memory), memory))
        hierarchy = "Options.hierarchy, ATP_HIERARCHY"
        choices.append(Choice("hierarchy", str(options.hierarchy), hierarchy))
    return choices


def _in_network(
    group,
    options,
    job,
    route_name,
    in_memory,
    host_of,
    *,
    job_keys,
    deadline,
    interruption,
    recorded,
    route=None,
):
    return _C.InNetworkGroup(
        rank=group.group_rank,
        size=group.group_size,
        timeout=options.timeout,
        join_timeout=_join_timeout(options, deadline),
        interruption=interruption,
        job=job,
        route=options.route if route is None else route,
        route_name=route_name,
        values_per_fragment=options.values_per_fragment,
        numbers=options.numbers,
        overflow=options.overflow,
        congestion=options.congestion,
        digest=options.digest,
        digest_every=options.digest_every,
        host_memory=in_memory,
        host_of=host_of,
        job_keys=job_keys,
        recorded=recorded,
    )


def _join_timeout(options, deadline):
    return min(
        options.join_timeout, deadline.most if options.algorithm == "auto" else deadline.left
    )


def _token(job) -> int:
    """A token that identifies this group's connections."""
    return job[0] << 32 | job[1]


def _leave_at_exit() -> None:
    # A program may end without destroy_process_group(). Callbacks can still run now, but not after
    # the interpreter has ended. (A forked child leaves only the groups that it made itself.)
    _C.abort_all()


atexit.register(_leave_at_exit)
