"""The bytes of the King James Bible, from Debian's bible-kjv."""

import shutil
import subprocess

import torch

SEQUENCE, BATCH = 128, 8
_ALL_OF_IT = ("bible", "-f", "gen1:1-rev22:21")


def is_installed() -> bool:
    return shutil.which(_ALL_OF_IT[0]) is not None


def tokens() -> torch.Tensor:
    """One number per byte, 4.4 million in total."""
    text = subprocess.run(_ALL_OF_IT, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return torch.frombuffer(bytearray(text.stdout), dtype=torch.uint8)


def batch(text: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The sequences of a step, the same on every mesh, and the next byte for each position."""
    draw = torch.Generator().manual_seed(step)
    begins = torch.randint(len(text) - SEQUENCE - 1, (BATCH,), generator=draw).tolist()
    pieces = torch.stack([text[begin : begin + SEQUENCE + 1] for begin in begins]).long()
    return pieces[:, :-1], pieces[:, 1:]
