"""Switches and servers that serve only jobs whose packets carry tags (docs/operate/operations.md).

The tags are made here once more, from docs/inside/protocol §2 alone, with Python's own BLAKE2b.
"""

import hashlib
import json
import os
import re
import signal
import socket
import struct
import time

import pytest

from tests.independent_worker.siphash import siphash_2_4_128
from tests.pages import REPOSITORY, shown

from .conftest import atp, supervisor_of
from .test_view import View

SECONDS = 30


@pytest.fixture
def keys(tmp_path):
    """Makes key files: keys("vision") is a new key's file, keys("all", "vision", …) joins them."""

    def key(name, *of, quotas=""):
        path = tmp_path / f"{name}.key"
        if not of:
            assert atp("key", name, path).returncode == 0
        else:
            path.touch(0o600)
            path.write_text("".join((tmp_path / f"{tenant}.key").read_text() for tenant in of))
        if quotas:
            path.write_text(path.read_text().rstrip() + f" {quotas}\n")
        return path

    return key


def start_nodes(cluster, *options):
    cluster.server = cluster.start_server(*options)
    cluster.switch = cluster.start_switch(*options)


def short_bench(cluster):
    return cluster.bench("-b", "64K", "-e", "64K", "-n", "20")


def ends(rank):
    return rank.wait(SECONDS), rank.output()


def test_a_key_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    path = tmp_path / "vision.key"
    assert atp("key", "vision", path).returncode == 0
    assert re.fullmatch(r"vision [0-9a-f]{64}\n", path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_text()
    again = atp("key", "vision", path)
    assert again.returncode == 1 and "a key is never overwritten" in again.stderr
    assert path.read_text() == before
    wrong = atp("key", "a/b", tmp_path / "other")
    assert wrong.returncode == 2 and '"a/b" is not a tenant\'s name' in wrong.stderr


def test_jobs_of_one_number_and_incarnation_sum_for_each_tenant_alone(cluster, keys):
    tenants = {"vision": (), "speech": ("--average",), "audio": ("--dtype", "int32")}
    files = {tenant: keys(tenant) for tenant in tenants}
    # Nodes number tenants as they read them, and need not agree.
    cluster.start_server("--keys", keys("one order", *tenants))
    cluster.start_switch("--keys", keys("another", *reversed(tenants)))
    ranks = [
        cluster.start_rank(
            i,
            2,
            [*short_bench(cluster), *options],
            f"{tenant}{i}",
            ATP_KEY_FILE=files[tenant],
            ATP_JOB=7,
        )
        for tenant, options in tenants.items()
        for i in range(2)
    ]
    for rank in ranks:
        code, output = ends(rank)
        assert code == 0, output
        assert "348 values" not in output  # the route's maximum is given by the test


WRONG = {
    "no key": ("server", None, "serves only jobs with a key, and the rank has none"),
    "an unknown tenant": ("server", "speech", "has no key of the tenant's name"),
    "another key of the same name": ("server", "vision", "differs from the node's key"),
    "a node without keys": ("", "vision", "the rank has a key, and the node none"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("through", ["a switch", "no switch"])
def test_both_ends_say_at_once_which_key_is_missing(cluster, keys, tmp_path, what, through):
    has_keys, own, message = WRONG[what]
    nodes = keys("vision")
    options = ("--keys", nodes) if has_keys else ()
    start_nodes(cluster, *options)
    variables = {} if through == "a switch" else {"ATP_ROUTE": cluster.server_address}
    if own:
        if own == "vision" and has_keys:
            nodes.rename(tmp_path / "nodes.key")
            keys("vision")
        elif own != "vision":
            keys(own)
        variables["ATP_KEY_FILE"] = tmp_path / f"{own}.key"
    begin = time.monotonic()
    rank = cluster.start_rank(0, 2, short_bench(cluster), **variables)
    code, output = ends(rank)
    assert code == 1
    assert message in output
    assert "rank 0" in output
    by_rank = time.monotonic() - begin
    assert by_rank < 5  # a second, and what a busy machine takes
    node = cluster.switch if through == "a switch" else cluster.server
    cluster.wait_until(lambda: message in node.output(), "the node's line", SECONDS)
    by_node = time.monotonic() - begin
    print(f"{what}, through {through}: rank {by_rank:.2f} s, node {by_node:.2f} s after the start")
    refused = f"refused a JOIN in the name of rank 0 of job {cluster.job} from 127.0.0.1:"
    assert refused in node.output()


def assert_same_refusal(cluster, node, option, file):
    """Of a file that a node has read again, and of one with which it would start."""
    new = cluster.start("new", [cluster.atp, "switch", "--listen", "127.0.0.1:0", option, file])
    assert new.wait(SECONDS) == 2, new.output()
    (problem,) = re.findall(rf"({option}: .*)\n", new.output())
    kept = "stay as they are, but this node would not start with this file"
    assert re.search(rf"{re.escape(problem)}; the \w+ {kept}\n", node.output()), node.output()


def test_hangup_keeps_the_weights_that_a_file_with_an_error_would_replace(cluster, tmp_path):
    weights = tmp_path / "weights.yaml"
    weights.write_text("jobs: [{job: 7, weight: 3}]\n")
    switch = cluster.start_switch("--weights", weights)
    weights.write_text("jobs: [{job: 7, weight: 0}]\n")
    switch.signal(signal.SIGHUP)
    cluster.wait_until(lambda: "stay as they are" in switch.output(), "the error", SECONDS)
    assert_same_refusal(cluster, switch, "--weights", weights)


def test_hangup_makes_nodes_read_their_keys_again(cluster, keys, tmp_path):
    keys("vision"), keys("speech")
    file = keys("all", "vision")
    start_nodes(cluster, "--keys", file)
    ranks = cluster.start_ranks(2, cluster.endless_bench(), ATP_KEY_FILE=tmp_path / "vision.key")
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "all to join", SECONDS)

    def reload(*tenants):
        keys("all", *tenants)
        for node in (cluster.server, cluster.switch):
            before = node.output().count("keys of")
            node.signal(signal.SIGHUP)
            cluster.wait_until(
                lambda node=node, before=before: node.output().count("keys of") > before,
                "the keys to be read",
                SECONDS,
            )

    reload("vision", "speech")
    assert "keys of 2 tenants" in cluster.server.output()
    assert "again: added speech\n" in cluster.server.output()
    others = [
        cluster.start_rank(
            i,
            2,
            short_bench(cluster),
            f"speech{i}",
            ATP_KEY_FILE=tmp_path / "speech.key",
            ATP_JOB=8,
        )
        for i in range(2)
    ]
    for rank in others:
        assert ends(rank)[0] == 0, rank.output()
    assert all(rank.running() for rank in ranks)

    file.write_text("vision 0011\n")
    cluster.server.signal(signal.SIGHUP)
    cluster.wait_until(
        lambda: "the keys stay as they are" in cluster.server.output(), "the error", SECONDS
    )
    assert_same_refusal(cluster, cluster.server, "--keys", file)
    assert all(rank.running() for rank in ranks)

    reload("speech")
    assert "again: removed vision (which ends their running jobs)" in cluster.server.output()
    for rank in ranks:
        code, output = ends(rank)
        assert code == 1
        assert "has no key of the tenant's name" in output, output


def test_two_tenants_jobs_of_one_number_are_told_apart_and_end_alone(cluster, keys):
    vision, speech = keys("vision"), keys("speech")
    start_nodes(cluster, "--keys", keys("all", "vision", "speech"))
    ranks = cluster.start_ranks(2, cluster.endless_bench(), ATP_KEY_FILE=vision, ATP_JOB=7)
    ranks += [
        cluster.start_rank(
            i, 2, cluster.endless_bench(), f"speech{i}", ATP_KEY_FILE=speech, ATP_JOB=7
        )
        for i in range(2)
    ]
    for rank in (ranks[0], ranks[2]):
        cluster.wait_until(lambda r=rank: "values per fragment" in r.output(), "both jobs", SECONDS)

    def tenants(jobs):
        return sorted((job["job"], job["incarnation"], job["tenant"]) for job in jobs)

    both = [(7, 1, "speech"), (7, 1, "vision")]
    for address in (cluster.server_address, cluster.switch_address):
        status = json.loads(atp("status", address, "--json").stdout)
        assert tenants(status["jobs"]) == both
        table = atp("status", address).stdout
        assert re.search(r"^ +7 +1 +vision ", table, re.MULTILINE), table
        assert re.search(r"^ +7 +1 +speech ", table, re.MULTILINE), table
    view = View(cluster, cluster.server_address)
    now = view.wait_for(lambda now: len(now["jobs"]) == 2, "both jobs")
    assert tenants(now["jobs"]) == both

    keys("all", "speech")
    for node in (cluster.server, cluster.switch):
        node.signal(signal.SIGHUP)
    for rank in ranks[:2]:
        assert ends(rank)[0] == 1, rank.output()
    status = json.loads(atp("status", cluster.server_address, "--json").stdout)
    assert tenants(status["jobs"]) == both[:1]
    assert tenants(status["failures"]) == both[1:]
    # The node looks for failures to log once a second.
    cluster.wait_until(
        lambda: "job 7 of vision has failed" in cluster.server.output(), "the log", SECONDS
    )
    assert "job 7 of speech" not in cluster.server.output()
    for rank in ranks[2:]:
        assert rank.running() and "answer" not in rank.output(), rank.output()


def test_a_status_of_nodes_without_keys_has_no_tenants(cluster):
    start_nodes(cluster)
    ranks = cluster.start_ranks(2, cluster.endless_bench())
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "all to join", SECONDS)
    for address in (cluster.server_address, cluster.switch_address):
        (job,) = json.loads(atp("status", address, "--json").stdout)["jobs"]
        assert "tenant" not in job
        assert "tenant" not in atp("status", address).stdout


def test_a_tenant_may_have_as_many_jobs_as_its_quota_says(cluster, keys):
    vision = keys("vision")
    start_nodes(cluster, "--keys", keys("all", "vision", quotas="jobs=1"))
    first = cluster.start_ranks(2, cluster.endless_bench(), ATP_KEY_FILE=vision)
    cluster.wait_until(lambda: "values per fragment" in first[0].output(), "all to join", SECONDS)

    def another(name):
        return [
            cluster.start_rank(
                i, 2, short_bench(cluster), f"{name}{i}", ATP_KEY_FILE=vision, ATP_JOB=8
            )
            for i in range(2)
        ]

    for rank in another("refused"):
        code, output = ends(rank)
        assert code == 1 and "its tenant may have 1 job at the node at a time" in output, output
    for rank in first:
        rank.signal(signal.SIGTERM)
        rank.wait(SECONDS)
    for rank in another("accepted"):
        code, output = ends(rank)
        assert code == 0, output


def test_the_jobs_of_the_line_in_docs_operations_md_are_a_limit(cluster, keys):
    name, digits, *limits = shown("docs/operate/operations.md", "vision 9f86").split()
    assert (name, digits) == ("vision", "9f86…")
    vision = keys("vision")
    start_nodes(cluster, "--keys", keys("all", "vision", quotas=" ".join(limits)))
    allowed = dict(limit.split("=") for limit in limits)
    server = ("127.0.0.1", cluster.server_port)
    line = vision.read_text()
    with socket.socket(type=socket.SOCK_DGRAM) as member:
        member.bind(("127.0.0.1", 0))
        for job in range(1, int(allowed["jobs"]) + 1):
            sent = proven_join(line, job, 0, server, member)
            assert answer(server, sent, member, 0.05) is None
        refused = answer(server, proven_join(line, job + 1, 0, server, member), member)
        assert refused[1] == STATUS
    jobs = json.loads(atp("status", cluster.server_address, "--json").stdout)["jobs"]
    assert [job["job"] for job in jobs] == list(range(1, int(allowed["jobs"]) + 1))


def test_the_aggregators_of_the_line_in_docs_operations_md_are_a_quota(cluster, keys):
    limits = shown("docs/operate/operations.md", "vision 9f86").split()[2:]
    vision = keys("vision")
    start_nodes(cluster, "--keys", keys("all", "vision", quotas=" ".join(limits)))
    ranks = cluster.start_ranks(2, cluster.endless_bench(), ATP_KEY_FILE=vision)
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "all to join", SECONDS)
    (job,) = json.loads(atp("status", cluster.switch_address, "--json").stdout)["jobs"]
    assert f"aggregators={job['aggregators']['quota']}" in limits


def test_a_job_of_weight_3_has_three_quarters_of_a_switch_that_it_shares_with_another(
    cluster, keys
):
    tenants = ("speech", "vision")
    files = [keys(name) for name in tenants]
    for_all = keys("all", *tenants, quotas="weight=3")  # vision's
    cluster.start_server("--keys", for_all)
    cluster.start_switch("--keys", for_all, "--aggregators", "16")
    for name, file in zip(tenants, files, strict=True):
        for rank in range(2):
            cluster.start_rank(rank, 2, cluster.endless_bench(), f"{name}{rank}", ATP_KEY_FILE=file)

    def parts():
        jobs = json.loads(atp("status", cluster.switch_address, "--json").stdout)["jobs"]
        return {j["tenant"]: j["aggregators"]["part"] for j in jobs if j["aggregators"]["held"] > 0}

    cluster.wait_until(lambda: parts() == {"vision": 12, "speech": 4}, "their parts", SECONDS)
    assert "(weight 3)" in atp("status", cluster.switch_address).stdout


def test_with_keys_an_entry_of_the_cluster_file_holds_for_the_tenant_that_it_names(
    cluster, keys, tmp_path
):
    tenants = ("speech", "vision")
    files = [keys(name) for name in tenants]
    for_all = keys("all", *tenants, quotas="weight=2")  # vision's
    weights = tmp_path / "weights.yaml"
    job = cluster.job
    weights.write_text(
        f"jobs:\n  - {{job: {job}, weight: 7, tenant: vision}}\n  - {{job: {job}, weight: 9}}\n"
    )
    cluster.start_server("--keys", for_all)
    switch = cluster.start_switch("--keys", for_all, "--aggregators", "16", "--weights", weights)
    line = f"{weights}:3: jobs[1]: holds for no job: it names no tenant, but with --keys each job"
    cluster.wait_until(lambda: line in switch.output(), "the warning", SECONDS)
    for name, file in zip(tenants, files, strict=True):
        for rank in range(2):
            cluster.start_rank(rank, 2, cluster.endless_bench(), f"{name}{rank}", ATP_KEY_FILE=file)

    def parts():
        jobs = json.loads(atp("status", cluster.switch_address, "--json").stdout)["jobs"]
        return {j["tenant"]: j["aggregators"]["part"] for j in jobs if j["aggregators"]["held"] > 0}

    cluster.wait_until(lambda: parts() == {"vision": 14, "speech": 2}, "their parts", SECONDS)


@pytest.mark.parametrize("options", [["--switch"], ["--colocated-servers"], ["--lanes", "2"]])
def test_a_run_can_make_a_key_for_itself(options, tmp_path):
    command = ["run", "-n", "2", *options, "--key", "new", "--", "atp"]
    command += ["bench", "allreduce", "-b", "64K", "-e", "64K", "-n", "5"]
    command[command.index("atp")] = os.fspath(atp.__globals__["PROGRAM"])
    environment = {**os.environ, "TMPDIR": os.fspath(tmp_path)}
    done = atp(*command, env=environment)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("atp-key-*"))


def test_the_nodes_of_a_run_take_the_key_that_its_ranks_have(keys):
    environment = {**os.environ, "ATP_KEY_FILE": os.fspath(keys("vision"))}
    program = os.fspath(atp.__globals__["PROGRAM"])
    bench = (program, "bench", "allreduce", "-b", "64K", "-e", "64K", "-n", "5")
    done = atp("run", "-n", "2", "--switch", "--", *bench, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_others_learn_at_once_that_a_rank_with_a_key_was_killed(start):
    front = start(
        "run", "-n", "2", "--switch", "--key", "new", "--tag-output", "--",
        os.fspath(atp.__globals__["PROGRAM"]), "bench", "allreduce", "-n", "1000000", "-b", "1M",
        "-e", "1M",
    )  # fmt: skip
    for line in front.stdout:
        if "values per fragment" in line:
            break
    supervisor = supervisor_of(front)
    ranks = [
        int(pid)
        for pid in open(f"/proc/{supervisor}/task/{supervisor}/children").read().split()
        if b"bench" in open(f"/proc/{pid}/cmdline", "rb").read()
    ]
    os.kill(ranks[1], signal.SIGKILL)
    _, errors = front.communicate(timeout=SECONDS)
    assert "was killed by signal 9" in errors
    assert "its lease ended" not in errors


def test_doctor_finds_nothing_wrong_with_a_node_that_has_keys(cluster, keys):
    cluster.start_server("--keys", keys("vision"))
    found = atp("doctor", cluster.server_address)
    assert "larger ones vanish" not in found.stdout
    assert "bandwidth" in found.stdout and ", 0 were answered" not in found.stdout
    assert found.returncode == 0, found.stdout


# --- Packets made here ---

JOIN, STATUS = 4, 7
TAG_WORDS = 3


def tag(tenant_line, packet, source=None):
    """The packet with its tag; `source` is the address of a JOIN's sender."""
    name, key = tenant_line.split()[:2]
    job = packet[4:8]
    number = hashlib.blake2b(name.encode(), digest_size=16).digest()[:4]
    job_key = hashlib.blake2b(b"atp job key" + job, digest_size=16, key=bytes.fromhex(key))
    packet = packet[:38] + bytes([TAG_WORDS]) + packet[39:] + number
    hashed = packet
    if packet[1] == JOIN:
        address, port = source
        hashed += bytes(10) + b"\xff\xff" + socket.inet_aton(address) + struct.pack(">H", port)
    return packet + siphash_2_4_128(job_key.digest(), hashed)[:8]


def join(job, rank, route, nonce=99, proof=0):
    """A straight JOIN to the only hop of `route`, of a job of two ranks."""
    header = struct.pack(
        ">BBBBIIHHQIIIBBBB", 2, JOIN, 2, 1, job, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0
    ) + struct.pack(">Q", 1 << rank)
    address, port = route
    body = struct.pack(">QQHHHHBBBBIBBHQ", nonce, 0, 2, 0, 2, 348, 2, 2, 0, 1, 0, 1, 0, 0, proof)
    body += bytes(10) + b"\xff\xff" + socket.inet_aton(address) + struct.pack(">H", port)
    return header + body.ljust(416, b"\0")


def answer(to, packet, sender, seconds=2):
    sender.settimeout(seconds)
    sender.sendto(packet, to)
    try:
        return sender.recv(2000)
    except TimeoutError:
        return None


def proven_join(line, job, rank, route, sender):
    """A tagged JOIN with the proof for which the node asks."""
    source = sender.getsockname()
    asked = answer(route, tag(line, join(job, rank, route), source), sender)
    assert asked[1] == STATUS and struct.unpack(">H", asked[48:50]) == (13,)  # prove
    (proof,) = struct.unpack(">Q", asked[80:88])
    return tag(line, join(job, rank, route, proof=proof), source)


def problem_of(packet):
    """The problem that a STATUS *refused* (*key*) names; None for anything else."""
    if packet is None or packet[1] != STATUS or packet[38] != 0:
        return None
    code, reason = struct.unpack(">HH", packet[48:52])
    return struct.unpack(">I", packet[80:84])[0] if (code, reason) == (5, 13) else None


def test_the_example_of_the_page_ends_in_this_tag():
    line = f"vision {bytes(range(32)).hex()}"
    flush = struct.pack(">BBBBII", 2, 2, 0, 1, 7, 1) + bytes(28) + struct.pack(">Q", 1)
    made = tag(line, flush)[-12:].hex()
    page = (REPOSITORY / "docs" / "inside" / "protocol" / "joining.md").read_text()
    assert f"ends in the tag {made[:8]} {made[8:]}." in " ".join(page.split())


def test_tags_made_from_the_page_are_accepted_and_a_stolen_join_is_not(cluster, keys):
    line = keys("vision").read_text()
    cluster.start_server("--keys", keys("all", "vision"))
    server = ("127.0.0.1", cluster.server_port)
    with (
        socket.socket(type=socket.SOCK_DGRAM) as member,
        socket.socket(type=socket.SOCK_DGRAM) as thief,
    ):
        member.bind(("127.0.0.1", 0))
        thief.bind(("127.0.0.1", 0))
        job = 0x70000001
        sent = proven_join(line, job, 0, server, member)
        # The first rank of two waits: the server tells it after a second for whom.
        time.sleep(0.1)
        assert answer(server, sent, member, 0.5) is None
        time.sleep(1)
        heard = answer(server, sent, member)
        assert heard[1] == STATUS and struct.unpack(">H", heard[48:50]) == (0,)  # waiting for
        assert heard[38] == TAG_WORDS
        assert heard == tag(line, heard[:38] + b"\0" + heard[39:-12])

        assert problem_of(answer(server, sent, thief)) == 3
        forged = bytearray(sent)
        forged[-1] ^= 1
        assert problem_of(answer(server, bytes(forged), member)) == 3
        time.sleep(0.05)  # the same answer goes to an address at most once in 10 ms
        assert problem_of(answer(server, join(job, 0, server), thief)) == 1
        # The member is still where it was.
        time.sleep(1)
        assert answer(server, sent, member)[38] == TAG_WORDS
