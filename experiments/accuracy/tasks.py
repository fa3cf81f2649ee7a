"""The two training tasks: a CNN on Fashion-MNIST, and a small GPT on the King James Bible."""

import dataclasses
from collections.abc import Callable

import torch
from torch import nn

from atp.tensor_parallel import Transformer, TransformerConfig
from examples.demo import fashion_mnist
from examples.demo_tp import text

HELD_OUT_IMAGES = 4_000
HELD_OUT = 200_000  # bytes at the end of the text
SEQUENCE = 64
GPT = TransformerConfig(hidden=128, heads=4, layers=2, vocabulary=256, positions=SEQUENCE)


@dataclasses.dataclass(frozen=True)
class Task:
    """`batch` is over all ranks. `data(seed)` returns draw(step, rank, ranks) and the test set."""

    what: str
    batch: int
    steps: int
    rate: float
    missing: str | None  # package to install
    make: Callable[[], nn.Module]
    data: Callable


class Images:
    def __init__(self, seed):
        self._seed = seed
        self._images, self._labels = fashion_mnist.load("train")
        images, labels = fashion_mnist.load("t10k")
        self._test = images[:HELD_OUT_IMAGES].split(500), labels[:HELD_OUT_IMAGES].split(500)

    def batch(self, step, size):
        draw = torch.Generator().manual_seed(1_000_000 * self._seed + step)
        chosen = torch.randint(len(self._labels), (size,), generator=draw)
        return fashion_mnist.normalized(self._images[chosen]), self._labels[chosen]

    def test(self):
        """Batches of held-out data."""
        for images, labels in zip(*self._test, strict=True):
            yield fashion_mnist.normalized(images), labels


class Bytes:
    def __init__(self, seed):
        self._seed = seed
        whole = text.tokens()
        self._text, self._test = whole[:-HELD_OUT], whole[-HELD_OUT:]

    def batch(self, step, size):
        draw = torch.Generator().manual_seed(1_000_000 * self._seed + step)
        begins = torch.randint(len(self._text) - SEQUENCE - 1, (size,), generator=draw)
        return _sequences(self._text, begins.tolist())

    def test(self):
        begins = range(0, HELD_OUT - SEQUENCE - 1, SEQUENCE * 12)
        for some in torch.tensor(begins).split(64):
            yield _sequences(self._test, some.tolist())


def _sequences(tokens, begins):
    pieces = torch.stack([tokens[begin : begin + SEQUENCE + 1] for begin in begins]).long()
    return pieces[:, :-1], pieces[:, 1:]


def _cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


class Narrow(nn.Module):
    """A model with bfloat16 parameters and gradients that computes in float32.

    Many processors have no bfloat16 arithmetic, and emulating it takes ten times as long.
    """

    def __init__(self, model):
        super().__init__()
        self._model = [model]  # in a list, so that its float32 parameters are not this module's
        self._names = [name for name, _ in model.named_parameters()]
        self.narrow = nn.ParameterList(p.detach().bfloat16() for p in model.parameters())

    def forward(self, inputs):
        wide = {name: p.float() for name, p in zip(self._names, self.narrow, strict=True)}
        return torch.func.functional_call(self._model[0], wide, (inputs,))


def tasks():
    images = None if fashion_mnist.is_installed() else "dataset-fashion-mnist"
    bible = None if text.is_installed() else "bible-kjv"
    return {
        "cnn": Task("CNN on Fashion-MNIST", 64, 150, 1e-3, images, _cnn, Images),
        "gpt": Task("GPT on the King James Bible", 16, 120, 1e-3, bible,
                    lambda: Transformer(GPT), Bytes),
    }  # fmt: skip


def loss_of(logits, targets):
    return nn.functional.cross_entropy(logits.float().flatten(0, -2), targets.flatten())
