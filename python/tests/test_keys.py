"""Groups whose packets carry tags: ATP_KEY_FILE (docs/operations.md, *Keys*)."""

import subprocess

import pytest
import torch
import torch.distributed as dist

from .network import PROGRAM, Network


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


def test_a_bad_key_file_is_an_error_that_names_it(ranks, network, tmp_path, monkeypatch):
    path = tmp_path / "bad.key"
    path.write_text("vision 0011\n")
    path.chmod(0o600)
    monkeypatch.setenv("ATP_KEY_FILE", str(path))
    for outcome in ranks.outcomes(2, lambda rank: None, route=network.route):
        assert outcome.error.startswith("ValueError")
        assert f"ATP_KEY_FILE: {path}:1: expected a key of 64 hexadecimal digits" in outcome.error
