"""What strangers do, from docs/inside/protocol alone: the rows of `python -m experiments.defence`.

A row says what the stranger needs besides the page and the addresses, ports, job and incarnation,
which all of them are told: nothing, a packet captured on the path, or the key of another tenant.
"""

import dataclasses
import ipaddress
import itertools
import os
import random
from collections.abc import Callable

from experiments.defence.captured import join_elsewhere, join_from, to_all_others, to_its_receiver
from experiments.defence.connections import Plan, connections, half_open, requests
from experiments.defence.packets import (
    ARE_YOU_THERE,
    CODES,
    DIRECT,
    FLOAT,
    FLUSH,
    HERE,
    JOIN_ACK,
    LEFT,
    NACK,
    REFUSED,
    STATUS,
    Key,
    gradient,
    header,
    join,
    join_ack,
    leave,
    parameter,
    status,
)

NOTHING, A_JOIN, CAPTURE = "nothing", "a captured JOIN", "captured packets"
TENANT, DOUBLE = "another tenant's key", "a service without defence (double.py)"
KEY_REASON = 13
ALL_RANKS = 0b1111


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    make: Callable  # of the World (strike.py)
    needs: str = NOTHING
    way: str = "udp"
    rate: int = 2000  # packets a second, or connections
    keys: tuple = (False, True)  # for which jobs


def forever(*makers):
    while True:
        yield random.choice(makers)()


def nonce():
    return random.getrandbits(64)


def with_random_tag(packet):
    return packet[:38] + b"\x03" + packet[39:] + os.urandom(12)


def to_a_closed_port(w):
    """Reaches no program: what is lost then, the stranger's own processor time has taken."""
    return itertools.repeat((None, (w.switches[0][0], 9), bytes(500)))


# --- JOINs that nobody has captured ---


def phantoms(address=None, each=2, ranks=(2, 3), nodes=("a0",)):
    """JOINs for ranks that are behind another switch: at this one nobody holds them."""

    def make(w):
        fields = {"incarnation": w.incarnation, "world_size": 4, "streams": 2, "values": 348}
        source = (w.bystander, 9999) if address == "bystander" else None
        while True:
            for name in nodes:
                for rank in ranks:
                    for _ in range(each):
                        node = w.nodes[name]
                        one = join(w.job, nonce(), w.route(node), ranks=1 << rank, **fields)
                        yield source, node, one

    return make


def invented_jobs(w):
    """The largest jobs there may be."""
    for job in itertools.count(1000):
        for node in (*w.switches, w.server):
            yield (
                None,
                node,
                join(job, nonce(), w.route(node), world_size=64, streams=8, values=2226),
            )


def looped_routes(w):
    a, b, s = w.switches
    while True:
        ring = [a, s, b, s, a, w.server]
        yield None, a, join(77, nonce(), ring, recorded=[(w.bystander, 4000)])
        yield None, a, gradient(77, random.randrange(100), DIRECT)


def routes_to_others(w):
    """A switch should send to a host that is none of its nodes."""
    for number in itertools.count(2000):
        hop = random.choice([(w.bystander, 5500), w.member()])
        yield None, w.nodes["a0"], join(number, nonce(), [w.nodes["a0"], hop])


def refused_joins(address):
    """Answered with *refused* or *rank taken*, to whoever seems to ask."""

    def make(w):
        source = (w.bystander, 9999) if address == "bystander" else None
        fields = {"incarnation": w.incarnation, "world_size": 4, "values": 348}
        while True:
            node = random.choice([w.server, *w.switches])
            rank = 1 << random.randrange(4)
            yield source, node, join(w.job, nonce(), w.route(node), ranks=rank, **fields)

    return make


# --- Forged from members and nodes ---


def values_from_members(change):
    def make(w):
        while True:
            target = random.choice([w.nodes["a0"], w.server])
            one = gradient(w.job, random.randrange(1 << 16), values=348, operation=nonce() >> 32,
                           incarnation=w.incarnation)  # fmt: skip
            yield w.ranks_member(0), target, change(one)

    return make


def parameters_from_nodes(w):
    while True:
        one = parameter(w.job, 348, sequence=random.randrange(1 << 16), ranks=ALL_RANKS,
                        stream=random.randrange(4), incarnation=w.incarnation)  # fmt: skip
        source = random.choice([w.nodes["a0"], w.server])
        yield source, w.ranks_member(0), random.choice([one, with_random_tag(one)])


def control(w):
    kind = random.choice([FLUSH, NACK, STATUS, STATUS, STATUS, JOIN_ACK])
    fields = {"incarnation": w.incarnation, "ranks": ALL_RANKS}
    flags = random.choice([0, DIRECT, FLOAT])
    if kind == STATUS:
        about = 1 << random.randrange(4)
        number = random.choice([0, nonce()])
        one = status(w.job, random.randrange(13), reason=random.randrange(16), nonce=number,
                     about=about, numbers=(5, 6), text=b"forged", **fields)  # fmt: skip
    elif kind == JOIN_ACK:
        one = join_ack(w.job, nonce(), world_size=4, values=100, **fields)
    else:
        one = header(kind, w.job, flags=flags, sequence=random.randrange(1 << 16), **fields)
    return random.choice([one, with_random_tag(one)])


def control_from_nodes(w):
    return forever(
        lambda: (random.choice([w.nodes["a0"], w.server]), w.ranks_member(0), control(w)),
        lambda: (w.nodes["s0"], w.nodes["a0"], control(w)),
        lambda: (w.server, w.nodes["s0"], control(w)),
    )


def membership_from_members(w):
    fields = {"incarnation": w.incarnation}
    a0, joined = w.nodes["a0"], {"world_size": 4, "values": 348, "streams": 2}

    def one():
        number = random.randrange(2)
        made = random.choice([
            leave(w.job, nonce(), ranks=1 << number, **fields),
            leave(w.job, nonce(), ranks=1 << number, flags=0, **fields),
            join(w.job, nonce(), w.route(a0), ranks=1 << number, **joined, **fields),
            join(w.job, nonce(), [w.server], ranks=1 << number, flags=DIRECT, **joined, **fields),
        ])  # fmt: skip
        return w.ranks_member(number), random.choice([a0, w.server]), made

    return forever(one, lambda: (*one()[:2], with_random_tag(one()[2])))


def refusals_for_want_of_a_key(w):
    while True:
        one = status(w.job, REFUSED, reason=KEY_REASON, nonce=nonce(), about=ALL_RANKS,
                     ranks=ALL_RANKS, numbers=(1, 0), incarnation=w.incarnation)  # fmt: skip
        source = random.choice([w.nodes["a0"], w.server])
        yield source, w.ranks_member(0), one


def other_versions(w):
    while True:
        one = header(STATUS, w.job, incarnation=w.incarnation, version=random.choice([1, 3]))
        one += bytes(40)
        yield random.choice([
            (random.choice([w.nodes["a0"], w.server]), w.ranks_member(0), one),
            (w.ranks_member(0), w.nodes["a0"], one),
        ])  # fmt: skip


def here_from_nodes(w):
    """Answers to questions that nobody has asked; and that somebody is not there any more."""
    while True:
        code = random.choice([HERE, LEFT])
        one = status(w.job, code, nonce=nonce(), ranks=ALL_RANKS, about=2, stream=0,
                     incarnation=w.incarnation, hops=random.randrange(17))  # fmt: skip
        yield w.nodes["a0"], w.ranks_member(0), one


def malformed(w):
    """Lengths, words of bitmap, kinds and flags that do not fit, from a member's address."""
    while True:
        one = bytearray(gradient(w.job, values=random.randrange(1, 348), incarnation=w.incarnation))
        for _ in range(random.randrange(1, 4)):
            one[random.choice([1, 2, 3, 14, 15, 36, 37, 38, 39])] = random.randrange(256)
        cut = bytes(one[: random.randrange(len(one) + 1)])
        yield random.choice([None, w.ranks_member(0)]), random.choice([*w.switches, w.server]), cut


def large_datagrams(w):
    """Of many IP fragments, from the stranger's own address."""
    while True:
        yield None, random.choice([*w.switches, w.server]), bytes([2, 0]) + bytes(60_000)


# --- From the stranger's own address ---


def everything_from_own_address(w):
    fields = {"incarnation": w.incarnation}
    joined = {"world_size": 4, "values": 348, "streams": 2}
    makers = (
        lambda: leave(w.job, nonce(), ranks=2, **fields),
        lambda: gradient(w.job, random.randrange(100), values=100, ranks=2, **fields),
        lambda: parameter(w.job, 100, ranks=ALL_RANKS, **fields),
        lambda: control(w),
        lambda: join(w.job, nonce(), [w.server], ranks=2, flags=DIRECT, **joined, **fields),
    )
    everybody = [*w.switches, w.server]
    for make in forever(*(lambda made=maker: made for maker in makers)):
        target = random.choice([*everybody, w.member()])
        yield None, target, make()


def questions(address, code=ARE_YOU_THERE):
    """The smallest packets that are answered: about the job and about none, passed on or not."""

    def make(w):
        source = {"bystander": (w.bystander, 9999), "own": None}.get(address)
        while True:
            job, reason = random.choice([w.job, 99]), random.choice([0, 1, 8])
            asked = status(job, code, nonce=nonce(), reason=reason, incarnation=w.incarnation)
            about = gradient(random.choice([99, nonce() >> 32]), incarnation=w.incarnation)
            old = header(0, w.job, incarnation=w.incarnation, version=3) + bytes(32)
            sent = random.choice([asked, asked, about, old])
            who = w.member() if address == "member" else source
            yield who, random.choice([*w.switches, w.server]), sent

    return make


def one_question_at_a_time(w):
    """Never faster than the pacing allows, so that each is answered."""
    for node in itertools.cycle([*w.switches, w.server]):
        yield None, node, status(w.job, ARE_YOU_THERE, nonce=nonce(), incarnation=w.incarnation)


def one_old_packet_at_a_time(w):
    """Another version, whose sender is told which there are."""
    for node in itertools.cycle([*w.switches, w.server]):
        yield None, node, header(0, w.job, incarnation=w.incarnation, version=3) + bytes(32)


# --- A tenant with a key of its own ---


def tenants(packets):
    """These packets, with the tags of another tenant."""

    def make(w):
        key = Key(w.other_key)
        for source, target, payload in packets(w):
            yield source, target, key.tag(payload, source or w.own_address())

    return make


def joins_of_the_same_number(w):
    """For the job's number, at each node."""
    fields = {"world_size": 2, "streams": 2, "values": 348}
    for incarnation in itertools.count(1):
        for node in (w.server, *w.switches):
            yield None, node, join(w.job, nonce(), w.route(node), incarnation=incarnation, **fields)


def joins_of_many_jobs(w):
    """Many jobs of the tenant's own, which use up its quota, and no other's."""
    for number in itertools.count(10_000):
        for node in (w.server, *w.switches):
            fields = {"streams": 8, "values": 348, "world_size": 64}
            yield None, node, join(number % 300 + 10_000, nonce(), w.route(node), **fields)


def a_job_that_claims_aggregators(w):
    """A job of two ranks, of which one contributes to one fragment after another."""
    job, number = 20_000, nonce()
    fields = {"incarnation": 5, "ranks": 1}
    while True:
        a0 = w.nodes["a0"]
        for rank in (0, 1):
            yield None, a0, join(job, number + rank, w.route(a0), incarnation=5, ranks=1 << rank,
                                 world_size=2, streams=2, values=348)  # fmt: skip
        for sequence in range(400):
            yield None, a0, gradient(job, sequence, values=348, operation=9, **fields)


def captured_with_own_tag(w):
    for source, target, payload in itertools.cycle(w.captured()):
        if payload[38]:
            payload = payload[:38] + b"\0" + payload[39:-12]
        yield source, target, payload


def questions_about_the_job(w):
    for _, target, payload in questions("own")(w):
        if payload[0] == 2:
            yield None, target, payload


# --- ICMP ---


def icmp_errors(code, captured=False):
    """The sender of a packet is told that it did not arrive."""

    def make(w):
        guesses = [(w.ranks_member(0), w.nodes["a0"]), (w.nodes["a0"], w.ranks_member(0)),
                   (w.ranks_member(1), w.server), (w.nodes["a0"], w.nodes["s0"])]  # fmt: skip
        seen = w.captured("GRADIENT") if captured else []
        for number in itertools.count():
            source, target = random.choice(guesses)
            payload = gradient(w.job, number % 4000, values=110, incarnation=w.incarnation)
            if seen:
                source, target, payload = seen[number % len(seen)]
            ends = [(ipaddress.ip_address(host), port) for host, port in (source, target)]
            yield code, *ends, payload[:548]

    return make


STATUS_CODES = tuple(
    f"STATUS {code}" for code in CODES if code not in ("unknown job", "are you there", "here")
)
ASKED = ("STATUS are you there", "STATUS here")
EVIL = ("evil.example", "evil.example:9501", "127.0.0.1.evil.example", "[evil", "")


def seen(name, make, rate=500, way="udp", needs=CAPTURE):
    return Row(f"captured {name}", make, needs, way, rate)


def other_tenant(name, make, rate=200, needs=TENANT):
    return Row(f"another tenant: {name}", tenants(make), needs, rate=rate, keys=(True,))


def tcp(name, rate, ports, **plan):
    return Row(f"{rate:,} {name}", connections(ports, **plan), way="tcp", rate=rate)


BEGIN = b"GET /metrics HTTP/1.1\r\nHost: "
EVENTS = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
ALL_NODES = ("a0", "b0", "s0", "s1")

ROWS = [
    Row("none: packets to a closed port", to_a_closed_port),
    seen("JOIN, to the other rack's switch", join_elsewhere("a0"), 20, needs=A_JOIN),
    seen("JOIN, to the switch above", join_elsewhere("s0"), 20, needs=A_JOIN),
    seen("JOIN, to its own switch", join_elsewhere("b0"), 20, needs=A_JOIN),
    seen("JOINs, to all others", to_all_others("JOIN")),
    seen("JOINs, from another address", join_from("own")),
    seen("JOINs, with a third host's address", join_from("bystander")),
    seen("JOIN_ACKs, to all others", to_all_others("JOIN_ACK")),
    seen("JOIN_ACKs, again", to_its_receiver("JOIN_ACK")),
    seen("LEAVEs of an earlier start, to all others", to_all_others("LEAVE", earlier=True)),
    seen("LEAVEs of an earlier start, again", to_its_receiver("LEAVE", earlier=True)),
    seen("GRADIENTs, to all others", to_all_others("GRADIENT")),
    seen("GRADIENTs, again", to_its_receiver("GRADIENT")),
    seen("PARAMETERs, to all others", to_all_others("PARAMETER")),
    seen("PARAMETERs, again", to_its_receiver("PARAMETER")),
    seen("FLUSHes and NACKs, to all others", to_all_others("FLUSH", "NACK")),
    seen("FLUSHes and NACKs, again", to_its_receiver("FLUSH", "NACK")),
    seen("questions and answers, to all others", to_all_others(*ASKED)),
    seen("questions and answers, again", to_its_receiver(*ASKED)),
    seen("STATUS unknown job, to all others", to_all_others("STATUS unknown job")),
    seen("STATUS unknown job, again", to_its_receiver("STATUS unknown job")),
    seen("other STATUS, to all others", to_all_others(*STATUS_CODES, earlier=True)),
    seen("other STATUS, again", to_its_receiver(*STATUS_CODES, earlier=True)),
    seen("packets of all kinds, again", to_its_receiver(), 2000),
    seen("packets of this start and an earlier one, again", to_its_receiver(earlier=True), 2000),
    seen("packets, quoted in ICMP: unreachable", icmp_errors(3, True), way="icmp"),
    seen("packets, quoted in ICMP: too big", icmp_errors(4, True), way="icmp"),
    Row("phantom ranks, from the own address", phantoms(), rate=4),
    Row("phantom ranks, with a third host's address", phantoms("bystander"), rate=4),
    Row("phantoms of all ranks at all nodes", phantoms(None, 4, range(4), ALL_NODES), rate=100),
    Row("the same, with a third host's address",
        phantoms("bystander", 4, range(4), ALL_NODES), rate=100),
    Row("refused JOINs, with a third host's address", refused_joins("bystander"), rate=500),
    Row("JOINs of looped routes", looped_routes, rate=50),
    Row("JOINs whose next hop is no node", routes_to_others, rate=200),
    Row("JOINs of the largest jobs", invented_jobs, rate=200),
    Row("forged GRADIENTs of members", values_from_members(bytes)),
    Row("forged GRADIENTs, random tags", values_from_members(with_random_tag)),
    Row("forged PARAMETERs of nodes", parameters_from_nodes),
    Row("forged FLUSH, NACK, STATUS, JOIN_ACK of nodes", control_from_nodes),
    Row("forged JOIN and LEAVE of members", membership_from_members),
    Row("forged refusals for want of a key", refusals_for_want_of_a_key),
    Row("forged answers and farewells of nodes", here_from_nodes, rate=500),
    Row("forged packets of other versions", other_versions),
    Row("malformed packets", malformed),
    Row("datagrams of 60,000 bytes", large_datagrams, rate=50),
    Row("all types, from the own address", everything_from_own_address),
    Row("questions, as fast as they go", questions("own")),
    Row("questions, with a third host's address", questions("bystander")),
    Row("questions, with a member's address", questions("member"), rate=500),
    Row("questions about the job, one at a time", one_question_at_a_time, rate=40),
    Row("another version, one packet at a time", one_old_packet_at_a_time, rate=40),
    Row("ICMP: unreachable, guessed packets", icmp_errors(3), way="icmp"),
    Row("ICMP: too big, guessed packets", icmp_errors(4), way="icmp"),
    tcp("connections drip to a switch's metrics", 1100, "metrics of a0", first=b"GET /",
        each_second=b"a"),
    tcp("connections drip to the page", 1100, "view", first=b"GET /", each_second=b"a"),
    tcp("idle connections to status", 500, "status"),
    tcp("connections to status that leave at once", 50, "status", first=b"atp-status 1\n",
        leaves=True),
    tcp("half headers, at all HTTP ports", 500, "http", first=BEGIN),
    tcp("half headers, more than all HTTP ports hold", 1100, "http", first=BEGIN),
    tcp("headers of 1 MB, at all HTTP ports", 50, "http", first=BEGIN + b"a" * (1 << 20)),
    tcp("unread event streams of the page", 300, "view", first=EVENTS),
    tcp("event streams of the page that are read", 300, "view", first=EVENTS, reads=True),
    tcp("idle connections to the ranks' ports", 500, "ranks"),
    tcp("senders of random bytes to the ranks' ports", 100, "ranks", first=os.urandom(5000)),
    Row("wrong Host headers", requests("http", *EVIL), way="tcp", rate=50),
    Row("half-open connections, at all ports", half_open("all"), way="syn"),
    other_tenant("GRADIENTs of the job", values_from_members(bytes)),
    other_tenant("JOINs for the job's number", joins_of_the_same_number, 100),
    other_tenant("many jobs of its own", joins_of_many_jobs),
    other_tenant("claims aggregators", a_job_that_claims_aggregators, 300),
    other_tenant("captured packets, with its own tags", captured_with_own_tag, needs=CAPTURE),
    other_tenant("questions about the job", questions_about_the_job),
]  # fmt: skip

# While ranks meet: the ports that they may listen on.
MEETING = tcp("idle connections to the ranks' ports", 400, "meeting")

# What no stranger can do, and what no node does: the experiment must find fault with all of these.
CONTROLS = [
    Row("control: a rank is frozen", lambda w: w.rank_pids[1:2], DOUBLE, way="freeze"),
    Row("control: questions to an amplifier",
        lambda w: itertools.repeat((None, tuple(w.double), bytes(100))), DOUBLE, rate=500),
    Row("control: connections without bounds",
        lambda w: [Plan(tuple(w.double))], DOUBLE, way="tcp", rate=200),
]  # fmt: skip
