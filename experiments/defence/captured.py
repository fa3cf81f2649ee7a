"""Attacks with packets seen on the wire: sent again as they were, or elsewhere."""

import itertools
import random


def to_its_receiver(*kinds, earlier=False):
    def make(w):
        return itertools.cycle(w.captured(*kinds, earlier=earlier) or [])

    return make


def to_all_others(*kinds, earlier=False):
    """Each packet, from its sender's address, to every node and rank but its receiver."""

    def make(w):
        everybody = [
            *w.nodes.values(),
            *((host, port) for host, ports in w.ranks for port in ports),
        ]
        found = [
            (source, other, payload)
            for source, target, payload in w.captured(*kinds, earlier=earlier)
            for other in everybody
            if other not in (source, target)
        ]
        random.shuffle(found)
        return itertools.cycle(found)

    return make


def joins_of_rank_2(w):
    """Those that its own switch, b0, has received."""
    joins = [c for c in w.captured("JOIN") if c[1] == w.nodes["b0"] and c[0][0] == w.ranks[2][0]]
    if not joins:
        raise SystemExit("no JOIN of rank 2 was captured")
    return joins


def join_elsewhere(node):
    return lambda w: itertools.cycle((s, w.nodes[node], p) for s, _, p in joins_of_rank_2(w)[:1])


def join_from(address):
    def make(w):
        source = (w.bystander, 7777) if address == "bystander" else None
        return itertools.cycle([(source, target, p) for _, target, p in w.captured("JOIN")])

    return make
