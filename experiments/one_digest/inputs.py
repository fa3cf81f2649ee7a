"""The tensors that the ranks of one_digest sum, the same everywhere."""

import dataclasses

import numpy as np
import torch

RANKS = 4
BLOCK = 256  # of docs/inside/protocol; tensors are split at block boundaries


@dataclasses.dataclass(frozen=True)
class Operation:
    length: int
    dtype: torch.dtype = torch.float32
    op: str = "SUM"
    fill: str = "normal"
    way: str = ""  # kind of sum over atp: "exact", "int16"; in a separate group

    def input(self, number: int, rank: int) -> torch.Tensor:
        draw = np.random.default_rng([number, rank])
        values = draw.standard_normal(self.length)
        if self.fill == "every magnitude":
            values *= np.exp2(draw.uniform(-60, 60, self.length))
        elif self.fill == "special" and rank == 2:
            values[[7, self.length // 2]] = np.nan, np.inf
        elif self.fill == "whole":
            return torch.from_numpy(draw.integers(-(2**31), 2**31, self.length).astype(np.int32))
        return torch.from_numpy(values.astype(np.float32)).to(self.dtype)

    def pieces(self, tensor: torch.Tensor, split: bool) -> list[torch.Tensor]:
        """Views; a long tensor is split in three, not at its quarters."""
        blocks = self.length // BLOCK
        if not split or blocks < 100:
            return [tensor]
        first, second = BLOCK * (blocks // 5), BLOCK * (blocks // 2)
        return list(tensor.tensor_split([first, second]))


ROUND = (
    Operation(1),
    Operation(5_000, fill="every magnitude"),
    Operation(300_001),
    Operation(700),
    Operation(40_000, torch.bfloat16),
    Operation(3_000, op="MAX"),
    Operation(100_003, fill="special"),
    Operation(20_000, torch.int32, fill="whole"),
    Operation(65_536, fill="every magnitude"),
    Operation(20_000, torch.float16, op="AVG"),
    Operation(2_500, op="MIN", fill="special"),
    Operation(30_000, fill="every magnitude", way="exact"),
    Operation(60_000, fill="special", way="int16"),
)
