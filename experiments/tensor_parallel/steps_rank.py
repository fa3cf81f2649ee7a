"""One rank of the experiment `steps`: predicts and takes training steps on every mesh.

RANK=... steps_rank.py SETTINGS.json

Rank 0 writes the file that the settings name: the speed of a rank, and for each mesh and algorithm
the predicted time of a step and the measured ones. The ranks' speed is measured again in every
round, because other work on the machine changes it; predictions use the median. No prediction uses
a measured step or collective.
"""

import dataclasses
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist

import atp.torch  # noqa: F401 (the ring)
from atp.planner import Candidate, plan
from atp.tensor_parallel import (
    Transformer,
    TransformerConfig,
    init_mesh,
    parallelize,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.calibrate import device_speed
from atp.tensor_parallel.measured_file import Device
from atp.tensor_parallel.replay import slowest
from atp.tensor_parallel.request import running


class Training:
    """A small Llama on one mesh; `step()` takes one training step."""

    def __init__(self, settings: dict, candidate: Candidate):
        torch.manual_seed(0)
        self.mesh = init_mesh(
            *candidate.mesh,
            order=candidate.ranks_by_position(),
            algorithm=[running(name) for name in candidate.collectives],
            sequence_parallel=settings["sequence_parallel"],
        )
        model = settings["model"]
        config = TransformerConfig(
            hidden=model["hidden_size"],
            heads=model["num_attention_heads"],
            kv_heads=model["num_key_value_heads"],
            layers=model["num_hidden_layers"],
            ffn=model["intermediate_size"],
            vocabulary=model["vocab_size"],
            gated=True,
            rms_norm=True,
            rotary=True,
            bias=False,
            tied_head=False,
        )
        self.model = parallelize(Transformer(config), mesh=self.mesh, chunks=settings["chunks"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        draw = torch.Generator().manual_seed(1)
        shape = settings["batch"], settings["sequence"] + 1
        self.tokens = torch.randint(model["vocab_size"], shape, generator=draw)

    def step(self) -> float:
        """The seconds of the slowest rank; all ranks of the job get the same value."""
        dist.barrier()
        begin = time.perf_counter()
        logits = self.model(self.tokens[:, :-1])
        loss = vocabulary_parallel_cross_entropy(logits, self.tokens[:, 1:], mesh=self.mesh)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return slowest(time.perf_counter() - begin)


def candidates(settings: dict, cluster: dict, collectives: list[str]) -> list[Candidate]:
    """Every feasible mesh with the cheapest of these collectives, the best prediction first."""
    answer = plan(
        cluster,
        settings["model"],
        batch=settings["batch"],
        sequence=settings["sequence"],
        element_bytes=4,
        chunks=settings["chunks"],
        collectives=collectives,
        sequence_parallel=settings["sequence_parallel"],
        runtime=True,
    )
    return [answer, *answer.runners_up]


def on_device(settings: dict, speeds: list[Device]) -> dict:
    """The cluster file with the median of the ranks' speeds."""
    products = statistics.median(speed.products for speed in speeds)
    memory = statistics.median(speed.memory for speed in speeds)
    device = {"products": f"{products / 1e9:.6g} GFLOP/s", "memory": f"{memory / 1e6:.6g} MB/s"}
    return settings["cluster"] | {"device": device}


def keyed(settings: dict, cluster: dict) -> dict[tuple, Candidate]:
    """The candidates of all settings of collectives by mesh and what runs there."""
    found: dict[tuple, Candidate] = {}
    for collectives in settings["collectives"]:
        for one in candidates(settings, cluster, collectives):
            found.setdefault((one.mesh, one.collectives), one)
    return found


def run(settings: dict) -> dict:
    speeds = [device_speed(settings["rounds"])]
    runs = {
        key: Training(settings, one)
        for key, one in keyed(settings, on_device(settings, speeds)).items()
    }
    measured: dict[tuple, list[float]] = {key: [] for key in runs}
    for number in range(settings["rounds"] + 1):
        speeds.append(device_speed(2))
        for key, training in runs.items():
            seconds = training.step()
            if number:  # the first step connects and finds the scales
                measured[key].append(seconds)
    for training in runs.values():
        training.mesh.close()
    cluster = on_device(settings, speeds)
    predicted = keyed(settings, cluster)
    best = candidates(settings, cluster, settings["collectives"][-1])[0]
    entries = [
        {
            "mesh": key[0],
            "collectives": key[1],
            "predicted": predicted[key].step.seconds,
            "computed": predicted[key].step.products + predicted[key].step.others,
            "sent": predicted[key].step.sent,
            "measured": seconds,
            "auto": key == (best.mesh, best.collectives),
        }
        for key, seconds in measured.items()
        if key in predicted
    ]
    entries.sort(key=lambda entry: entry["predicted"])
    each = [dataclasses.astuple(speed) for speed in speeds]
    return {"device": cluster["device"], "speeds": each, "entries": entries}


def main(settings_file: str) -> None:
    settings = json.loads(pathlib.Path(settings_file).read_text())
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = run(settings)
    if dist.get_rank() == 0:
        pathlib.Path(settings["result"]).write_text(json.dumps(found, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
