"""Which models of transformers `parallelize` takes, and whether they compute what they did.

    python -m experiments.tensor_parallel.models [--only TYPE ...] [FOLDER]

It needs transformers (the virtual environment of `make test-real-programs`). Four ranks over Gloo
make a small model of every causal type of the library (`tiny_models.py`), and parallelize it on
(2,2), and on (2,1) and (1,2) with two replicas. Of a model that is not refused, logits, loss and
every gradient are compared with those of the unsharded model, in float64. Writes
FOLDER/models.json, with what became of each type.
"""

import collections
import contextlib
import datetime
import json
import multiprocessing
import os
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # noqa: F401 (before the ranks are forked)
import torch.distributed as dist
import transformers
from torch import nn
from torch.overrides import TorchFunctionMode

from atp.tensor_parallel import init_mesh, parallelize
from atp.tensor_parallel.sharding import Cut, cuts_of
from experiments import report
from experiments.tensor_parallel import tiny_models

FOLDER = report.REPOSITORY / "build" / "models"
MESHES = [(2, 2), (2, 1), (1, 2)]
RANKS = 4
LIMIT = 1e-6
PATIENCE_S = 60
SAME, DIFFERS, REFUSED, FAILED, NOT_MADE = "same", "differs", "refused", "failed", "not made"


class InFloat64(TorchFunctionMode):
    """Norms and softmaxes that code computes in float32 keep float64, so that errors show."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = args[0] if args else None
        if isinstance(given, torch.Tensor) and given.dtype == torch.float64:
            if func is torch.Tensor.float:
                return given
            wide = torch.float64
            args = tuple(wide if each is torch.float32 else each for each in args)
            kwargs = {key: wide if each is torch.float32 else each for key, each in kwargs.items()}
        return func(*args, **kwargs)


def results(model: nn.Module) -> dict[str, torch.Tensor]:
    """Logits, loss, all gradients, and logits in evaluation with padding."""
    tokens = torch.randint(3, tiny_models.VOCABULARY, (4, 8), generator=_drawing())
    mask = torch.ones_like(tokens)
    mask[1, 5:] = mask[3, 3:] = 0
    with InFloat64():
        output = model.train()(input_ids=tokens, labels=tokens)
        output.loss.backward()
        with torch.no_grad():
            padded = model.eval()(input_ids=tokens, attention_mask=mask).logits
    found = {"logits": output.logits.detach(), "loss": output.loss.detach(), "padded": padded}
    return found | {name: p.grad for name, p in model.named_parameters()}


def _drawing() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def error_of(found: dict, whole: dict, cuts: dict[str, Cut], mesh: Any) -> tuple[float, str]:
    """The largest error, relative to its tensor's largest value, and that tensor."""
    worst = 0.0, "nothing"
    for name, wanted in whole.items():
        own = found[name]
        if (own is None) != (wanted is None):
            return float("inf"), name
        if own is None:
            continue
        scale = _scale(name, whole)
        if name in cuts:
            wanted = cuts[name].take(wanted, mesh.shape, mesh.row, mesh.column)
        error = float("inf")
        if wanted.shape == own.shape:
            error = float((own - wanted).abs().max() / scale) if scale else float(own.abs().max())
        worst = max(worst, (error if error == error else float("inf"), name))
    return worst


def _scale(name: str, whole: dict) -> float:
    """A bias of keys has no gradient but rounding; its weight has one."""
    beside = whole.get(name.removesuffix("bias") + "weight")
    return float(max(x.abs().max() for x in (whole[name], beside) if x is not None))


def judged(name: str) -> tuple[str, str]:
    """What becomes of a type on the meshes, and why."""
    try:
        whole = results(tiny_models.make(name))
    except Exception as error:
        return NOT_MADE, _text(error)
    worst = 0.0, ""
    for shape in MESHES:
        mesh = init_mesh(*shape, data_parallel=RANKS // (shape[0] * shape[1]))
        with contextlib.closing(mesh):
            try:
                model = parallelize(tiny_models.make(name), mesh)
            except ValueError as error:
                return REFUSED, _text(error)
            try:
                error, tensor = error_of(results(model), whole, cuts_of(model), mesh)
            except ValueError as error:
                return REFUSED, "at run time: " + _text(error)
            except Exception as error:
                return FAILED, f"{shape}: {_text(error)} {traceback.format_exc()[-700:]}"
            worst = max(worst, (error, f"{shape}: {tensor}"))
    return (SAME if worst[0] <= LIMIT else DIFFERS), f"{worst[0]:.1e} {worst[1]}"


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:400]


def _rank(rank: int, names: list[str], folder: Path) -> None:
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), RANKS)
    patience = datetime.timedelta(seconds=PATIENCE_S)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=patience)
    with open(folder / f"{rank}", "w", buffering=1) as out:
        for name in names:
            print(json.dumps([name, *judged(name)]), file=out)
    os._exit(0)


def _run(names: list[str]) -> dict[str, list[tuple[str, str]]]:
    """What each rank said of the types, up to the first one with which a rank ended or hung."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ranks = [fork.Process(target=_rank, args=(i, names, folder)) for i in range(RANKS)]
        for each in ranks:
            each.start()
        before, since = -1, time.monotonic()
        while any(each.is_alive() for each in ranks):
            time.sleep(0.2)
            lines = sum(len(path.read_text()) for path in folder.glob("[0-9]"))
            if lines != before:
                before, since = lines, time.monotonic()
            ended = any(each.exitcode not in (None, 0) for each in ranks)
            if time.monotonic() - since > 2 * PATIENCE_S or ended:
                break
        for each in ranks:
            each.kill()
            each.join()
        said = collections.defaultdict(list)
        for path in folder.glob("[0-9]"):
            for line in path.read_text().splitlines():
                name, *what = json.loads(line)
                said[name].append(tuple(what))
        return said


def outcomes_of(names: list[str]) -> dict[str, dict[str, str]]:
    """{type: its outcome and reason}. A type's outcome is that of the rank it went worst on."""
    order = [NOT_MADE, SAME, REFUSED, DIFFERS, FAILED]
    found, left = {}, list(names)
    while left:
        for name, said in _run(left).items():
            if len(said) == RANKS:
                outcome, why = max(said, key=lambda each: (order.index(each[0]), each[1]))
                found[name] = {"outcome": outcome, "why": why}
        left = [name for name in left if name not in found]
        if left:  # the first of these ended its ranks
            found[left[0]] = {"outcome": FAILED, "why": "a rank ended, or hung"}
            left = left[1:]
    return found


def main() -> None:
    words = report.parser(__doc__, FOLDER)
    words.add_argument("--only", nargs="+", default=tiny_models.TYPES, metavar="TYPE")
    arguments = words.parse_args()
    found = outcomes_of(list(arguments.only))
    by_outcome = collections.defaultdict(list)
    for name, said in found.items():
        by_outcome[said["outcome"]].append(name)
        print(f"{name}: {said['outcome']}: {said['why']}")
    for outcome, names in by_outcome.items():
        print(f"{len(names)} {outcome}: {', '.join(names)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / "models.json"
    path.write_text(
        json.dumps({"transformers": transformers.__version__, "types": found}, indent=1)
    )
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
