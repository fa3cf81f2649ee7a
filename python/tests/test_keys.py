"""Groups whose packets carry tags: ATP_KEY_FILE (docs/operate/operations.md, *Keys*)."""

import hashlib
import os
import re
import resource
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import atp.torch
from atp.torch import Options
from atp.torch._address import this_host
from atp.torch._meeting import Meeting

from .network import PROGRAM, Network
from .ways import environment_of

PYTHON = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "vision.key"
    subprocess.run([PROGRAM, "key", "vision", path], check=True)
    return path


@pytest.fixture(scope="module")
def network(key):
    with Network(None, "--keys", key) as network:
        yield network


def test_a_group_with_a_key_sums_through_nodes_that_have_it(ranks, network, key, monkeypatch):
    monkeypatch.setenv("ATP_KEY_FILE", str(key))

    def body(rank):
        values = torch.arange(100_000, dtype=torch.float32) + rank
        dist.all_reduce(values)
        pieces = [torch.empty(3) for _ in range(2)]
        dist.all_gather(pieces, torch.full((3,), float(rank)))
        return values.sum().item(), torch.stack(pieces).sum().item()

    whole = (2 * torch.arange(100_000, dtype=torch.float32) + 1).sum().item()
    assert ranks.run(2, body, route=network.route) == [(whole, 3.0)] * 2


def test_a_group_without_a_key_is_refused_by_nodes_that_have_one(ranks, network):
    for outcome in ranks.outcomes(2, lambda rank: None, route=network.route):
        assert outcome.error.startswith("DistBackendError")
        assert "the node serves only jobs with a key" in outcome.error


def sums(rank):
    dist.all_reduce(torch.ones(5000))
    stats = atp.torch.stats()
    return (stats["choice"] or {"reason": stats["algorithm"]})["reason"]


@pytest.fixture(scope="module")
def keyless():
    with Network(None) as network:
        yield network


@pytest.mark.parametrize(
    ("algorithm", "where", "reason"),
    [
        ("auto", "keyed nodes", "in the network: the job has a key, and rings have none"),
        ("auto", "one host", "the host's memory: all ranks are on one host"),
        ("auto", "nodes without keys", None),
        ("auto", "no route", None),
        ("ring", "no route", "ring"),
        ("ring", "keyed nodes", "ring"),
    ],
)
def test_with_a_key_only_a_user_chooses_a_way_without_tags(
    ranks, network, keyless, key, monkeypatch, algorithm, where, reason
):
    monkeypatch.setenv("ATP_KEY_FILE", str(key))
    routes = {"keyed nodes": network.route, "nodes without keys": keyless.route}
    outcomes = ranks.outcomes(
        2,
        sums,
        pg_options=Options(algorithm=algorithm),
        route=routes.get(where, ""),
        memory=where == "one host",
    )
    for outcome in outcomes:
        if reason is not None:
            assert (outcome.value, outcome.error) == (reason, None)
        else:
            assert "ATP_ALGORITHM=ring or Options(algorithm='ring')" in outcome.error


def test_a_bad_key_file_is_an_error_that_names_it(ranks, network, tmp_path, monkeypatch):
    path = tmp_path / "bad.key"
    path.write_text("vision 0011\n")
    path.chmod(0o600)
    monkeypatch.setenv("ATP_KEY_FILE", str(path))
    for outcome in ranks.outcomes(2, lambda rank: None, route=network.route):
        assert outcome.error.startswith("ValueError")
        assert f"ATP_KEY_FILE: {path}:1: expected a key of 64 hexadecimal digits" in outcome.error


# --- Ranks without a file get the keys of their job from rank 0, through the store ---


def for_rank(files):
    """The variables of each rank: files[rank] is its key file; a rank without an entry has none."""
    return lambda rank: {"ATP_KEY_FILE": str(files[rank])} if rank in files else {}


def total(group=None, length=1000):
    tensor = torch.full((length,), float(dist.get_rank()) + 1)
    dist.all_reduce(tensor, group=group)
    return tensor[-1].item()


def job_key(key_file, job):
    """From docs/inside/protocol §2, *Keys*, rule 3."""
    key = bytes.fromhex(key_file.read_text().split()[1])
    message = b"atp job key" + job.to_bytes(4, "big")
    return hashlib.blake2b(message, digest_size=16, key=key).hexdigest()


def kept_in(folder):
    """All that the ranks have ever put into their file store: it only grows until they end."""
    (store,) = folder.glob("store*")
    return store.read_bytes().decode(errors="replace")


def test_rank_0_gives_the_keys_of_the_job_to_ranks_without_a_file(ranks, network, key, tmp_path):
    def body(rank):
        return total(), kept_in(tmp_path)

    found = ranks.run(3, body, route=network.route, variables=for_rank({0: key}))
    for value, kept in found:
        assert value == 6.0
        assert key.read_text().split()[1] not in kept, "the tenant's key"
        jobs = re.findall(r" (\d+):([0-9a-f]{32})", kept)
        assert len(jobs) == 2  # the other one is for ranks that share no memory
        assert all(given == job_key(key, int(job)) for job, given in jobs)


def test_ranks_that_all_have_the_file_put_no_key_into_the_store(ranks, network, key, tmp_path):
    def body(rank):
        return total(), kept_in(tmp_path)

    found = ranks.run(2, body, route=network.route, variables=for_rank({0: key, 1: key}))
    for value, kept in found:
        assert value == 3.0
        assert "vision/" in kept, "they have compared their files"
        assert not re.search(r":[0-9a-f]{32}", kept)


@pytest.fixture
def meetings(monkeypatch):
    """The meetings of this process's groups, in order."""
    met = []

    class Kept(Meeting):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            met.append(self)

    monkeypatch.setattr("atp.torch._backend.Meeting", Kept)
    return met


def test_the_store_forgets_the_keys_once_all_have_taken_them(ranks, network, key, meetings):
    def body(rank):
        total()  # all have come this far
        return [meetings[0].store.check([name]) for name in ("job", "keys")]

    found = ranks.run(3, body, route=network.route, variables=for_rank({0: key}))
    assert found == [[True, False]] * 3


def test_without_keys_the_store_is_used_no_more_than_before(ranks, key, monkeypatch):
    used = []

    def noting(method):
        def call(self, *arguments):
            used.append((method, str(arguments[0])))
            return getattr(dist.PrefixStore, method)(self, *arguments)

        return call

    methods = ("set", "get", "check", "add", "compare_set", "multi_get", "wait", "delete_key")
    noted = type("Noted", (dist.PrefixStore,), {method: noting(method) for method in methods})
    monkeypatch.setattr(
        "atp.torch._meeting.dist",
        types.SimpleNamespace(PrefixStore=noted, DistStoreError=dist.DistStoreError),
    )

    def for_keys(rank):
        """How often the meeting has read who is present, and its calls about "keys".

        Except its looks whether they are there yet.
        """
        assert ("get", "job") in used
        reads = [name for method, name in used if method == "multi_get" and "present" in name]
        calls = [method for method, name in used if "keys" in name and method != "check"]
        return len(reads), calls

    def run(files):
        return ranks.run(2, for_keys, memory=True, route="", variables=for_rank(files))

    assert run({}) == [(0, []), (0, [])]
    assert run({0: key, 1: key}) == [(1, []), (1, [])]
    assert run({0: key}) == [(1, ["set"]), (1, ["get", "add", "delete_key"])]


def test_groups_without_the_rank_that_has_the_file_have_keys_too(ranks, network, key):
    pairs = [[0, 1], [1, 2], [2, 3], [1, 3]]

    def body(rank):
        groups = [dist.new_group(pair) for pair in pairs]
        sums = [total(group) for pair, group in zip(pairs, groups, strict=True) if rank in pair]
        return [*sums, total()]

    found = ranks.run(4, body, route=network.route, variables=for_rank({0: key}))
    for rank, sums in enumerate(found):
        assert sums == [float(sum(pair) + 2) for pair in pairs if rank in pair] + [10.0]


def test_groups_that_a_group_is_split_into_have_keys_too(ranks, network, key, monkeypatch):
    def body(rank):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cpu"))
        dist.group.WORLD.bound_device_id = torch.device("cuda", 0)
        half = dist.split_group(split_ranks=[[0, 2], [1, 3]])
        return total(half), total()

    found = ranks.run(4, body, route=network.route, variables=for_rank({0: key}))
    assert found == [(4.0, 10.0), (6.0, 10.0)] * 2


def test_groups_of_several_hosts_have_keys_whether_or_not_a_hosts_ranks_share_memory(
    ranks, network, key, monkeypatch
):
    hosts = (0, 0, 1, 1)

    def body(rank):
        here = this_host()
        monkeypatch.setattr("atp.torch._backend.this_host", lambda: f"{here}-{hosts[rank]}")
        sums = []
        for denied in (False, True):
            if denied and rank >= 2:  # so all ranks become workers of their own
                resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
            sums.append(total(dist.new_group(pg_options=Options(host_memory=True))))
        return sums

    variables = for_rank({0: key})
    assert ranks.run(4, body, route=network.route, variables=variables) == [[10.0, 10.0]] * 4


def test_each_start_of_the_groups_has_keys_whoever_leads_it(ranks, network, key, tmp_path):
    """In a store that keeps what was put into it, with ranks that change places."""
    orders = [[0, 1, 2], [0, 2, 1], [2, 1, 0], [1, 2]]

    def body(rank):
        dist.destroy_process_group()
        sums = []
        for number, order in enumerate(orders):
            if rank not in order:
                continue
            store = dist.FileStore(str(tmp_path / f"kept{number // 2}"), -1)
            store = dist.PrefixStore(str(len(order)), store)
            dist.init_process_group(
                "atp", store=store, rank=order.index(rank), world_size=len(order)
            )
            tensor = torch.ones(1000)
            dist.all_reduce(tensor)
            sums.append(tensor[-1].item())
            dist.destroy_process_group()
        return sums

    found = ranks.run(3, body, route=network.route, variables=for_rank({0: key}))
    assert found == [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 2.0], [3.0, 3.0, 3.0, 2.0]]


@pytest.mark.parametrize("job", [None, 7])
def test_training_that_torchrun_restarts_has_keys_again(network, key, tmp_path, job):
    """Rank 0 alone has the file. With a given job, only the incarnation changes."""
    folder = tmp_path / "training"
    folder.mkdir()
    environment = {
        **os.environ,
        **environment_of("innetwork"),
        **({"ATP_JOB": str(job)} if job else {}),
        "ATP_ROUTE": network.route,
        "ATP_KEY_FILE": str(key),
        "PYTHONPATH": str(PYTHON),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3"]
        + ["--max-restarts", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
        + [Path(__file__).with_name("keyed_training.py"), folder, "4", "2"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    attempt, first, _ = (folder / "result").read_text().split()
    assert (attempt, first) == ("1", "2")


def another(folder, name, file):
    subprocess.run([PROGRAM, "key", name, folder / file], check=True)
    return folder / file


ADVICE = "give the same file to all ranks of group '0', or to rank 0 alone (see ATP_KEY_FILE)"
DIFFERENT = {
    "another tenant": ("speech", "the key of tenant 'speech', and rank 0 that of tenant 'vision'"),
    "another key": ("vision", "a key of tenant 'vision' that differs from rank 0's"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_all_ranks_name_at_once_the_one_whose_file_differs(ranks, network, key, tmp_path, what):
    name, text = DIFFERENT[what]
    variables = for_rank({0: key, 1: another(tmp_path, name, "other.key")})
    outcomes = ranks.outcomes(3, lambda rank: None, route=network.route, variables=variables)
    for outcome in outcomes:
        assert outcome.error.startswith(f"ValueError: rank 1 has {text}: "), outcome
        assert outcome.error.endswith(ADVICE)
        assert outcome.seconds < 5  # the time-out of the group is 20 s


def test_the_only_rank_with_a_key_says_that_rank_0_has_none(ranks, network, key):
    outcomes = ranks.outcomes(
        2, lambda rank: None, route=network.route, variables=for_rank({1: key}), timeout_s=5
    )
    assert outcomes[1].error == (
        "ValueError: rank 1 has the key of tenant 'vision', and rank 0 has none: give the file to "
        "all ranks of group '0', or to rank 0 alone (see ATP_KEY_FILE)"
    )
    assert "the rank has none: set ATP_KEY_FILE" in outcomes[0].error
