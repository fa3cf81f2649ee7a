"""The Python code in README.md and docs/use/torch.md runs as printed, and does what they say."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import atp.torch
from tests.pages import blocks

README, TORCH = (
    [block.text for block in blocks(page) if block.language == "python"]
    for page in ("README.md", "docs/use/torch.md")
)


def as_started(rank, size, folder):
    """The environment that `atp run` sets, without a group."""
    dist.destroy_process_group()
    where = f"file://{folder}/anew"
    make = dist.init_process_group
    dist.init_process_group = lambda backend: make(backend, where, rank=rank, world_size=size)


def trains(names):
    torch.manual_seed(dist.get_rank())
    names["model"](torch.randn(4, 8)).square().sum().backward()
    gradients = [parameter.grad for parameter in names["model"].parameters()]
    assert gradients[0].abs().sum() > 0
    return atp.torch.stats()["innetwork"]["all_reduce"]["float32"]["calls"], gradients[0].tolist()


def test_the_lines_of_the_readme_turn_a_training_script_into_one_over_atp(ranks, tmp_path):
    def body(rank):
        as_started(rank, 2, tmp_path)
        names = {
            "DistributedDataParallel": DistributedDataParallel,
            "model": torch.nn.Linear(8, 3),
        }
        (text,) = README
        exec(text, names)
        return trains(names)

    (calls, gradients), (_, of_the_other) = ranks.run(2, body)
    assert calls > 0 and gradients == of_the_other


def alone(rank):
    """This rank's inter_group when all ranks are on one host: itself."""
    return [dist.new_group([member]) for member in range(dist.get_world_size())][rank]


def test_the_blocks_of_the_torch_page_run(ranks, tmp_path):
    def body(rank):
        as_started(rank, 2, tmp_path)
        os.environ["ATP_DIGEST"] = "1"
        groups, hook, hook_of_hosts, digest, mesh = TORCH
        names = {"DistributedDataParallel": DistributedDataParallel, "atp": atp}
        names["init_device_mesh"] = init_device_mesh
        exec(groups, names)
        assert dist.get_backend(names["ring"]) == "atp"
        names["model"] = torch.nn.Linear(8, 3)
        exec(hook, names)
        trained = trains(names)
        names["intra_group"], names["inter_group"] = dist.new_group(), alone(rank)
        names["model"] = DistributedDataParallel(torch.nn.Linear(8, 3))
        exec(hook_of_hosts, names)
        assert trains(names)[1]
        exec(mesh.replace("(2, 4)", "(1, 2)"), names)
        summed = torch.ones(10)
        dist.all_reduce(summed, group=names["mesh"]["inner"].get_group())
        assert summed.eq(2).all()
        return trained, eval(digest.partition("#")[0], names)

    one, other = ranks.run(2, body)
    assert one == other
    assert len(one[1]) == 32
