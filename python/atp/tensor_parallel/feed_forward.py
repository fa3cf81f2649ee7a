"""The feed-forward block, column-first and then row-first (paper §3.2.1, Fig. 6b)."""

from collections.abc import Callable, Mapping

import torch
from torch import nn

from atp.tensor_parallel.likeness import features_of
from atp.tensor_parallel.linear import ATPLinear, column_steps, require_divides
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.overlap import Steps, run
from atp.tensor_parallel.sharding import Part

__all__ = ["ATPFeedForward"]

Activation = Callable[..., torch.Tensor]


class ATPFeedForward(nn.Module):
    """[..., h/d2] -> [..., h/d2]: A column-first, f3, the activation, B row-first, f4.

    Args:
        inputs: A by its name here, or the layers of one input (gate and up), which share one sum.
        output: the name and layer of B.
        halves: the parts of the outputs of one layer: 2 if it computes both gate and up.
        activation: gets the outputs of `inputs`, one argument each; must be element-wise.
    """

    def __init__(
        self,
        inputs: Mapping[str, nn.Linear],
        output: tuple[str, nn.Linear],
        activation: Activation,
        mesh: Mesh,
        site: str = "feed_forward",
        halves: int = 1,
    ):
        super().__init__()
        self._inputs, self._output, self.activation = tuple(inputs), output[0], activation
        self.mesh = mesh
        self.dropout: nn.Module | None = None
        for name, linear in inputs.items():
            outputs, rows = features_of(linear)[0], mesh.first.size
            require_divides(mesh.first, f"{site}.{name}", "outputs", outputs // halves)
            parts = [Part(outputs // halves, rows)] * halves if halves > 1 else []
            layer = ATPLinear.from_linear(linear, "column", mesh, parts, f"{site}.{name}")
            self.add_module(name, layer)
        layer = ATPLinear.from_linear(output[1], "row", mesh, site=f"{site}.{output[0]}")
        self.add_module(output[0], layer)

    def steps(self, x: torch.Tensor) -> Steps:
        layers = [self.get_submodule(name) for name in self._inputs]
        outputs = yield from column_steps(layers, x)
        widths = [layer.outputs_here for layer in layers]
        active = self._activate(*outputs.split(widths, -1))
        result = yield from self.get_submodule(self._output).steps(active)
        return result if self.dropout is None else self.dropout(result)

    def _activate(self, *outputs: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return self.activation(*outputs)
        with self.mesh.randomness.of_row(outputs[0].device):
            return self.activation(*outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return run(self.steps(x))
