"""A module that keeps its own forward pass, with this rank's pieces of its parameters."""

import copy
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.linear import cut_parameter
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.sharding import Cut, adopt, piece

__all__ = ["KeptForward"]


class KeptForward(nn.Module):
    """cuts: how the module's parameters are split. It has no children."""

    def __init__(self, inner: nn.Module, cuts: dict[str, Cut], mesh: Mesh):
        super().__init__()
        self.mesh, self._names = mesh, tuple(cuts)
        for name, cut in cuts.items():
            adopt(self, name, cut_parameter(inner._parameters[name], cut, mesh), cut)
        kept: Any = copy.copy(inner)
        kept._parameters = dict.fromkeys(inner._parameters)
        kept._buffers = {}
        for name, buffer in inner._buffers.items():
            self.register_buffer(name, buffer, name not in inner._non_persistent_buffers_set)
        self.__dict__["_inner"] = kept  # not a child: its parameters are this module's

    def used(self, name: str) -> torch.Tensor | None:
        """A parameter as the module uses it."""
        return piece(self, name)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        inner = self._inner
        inner.training = self.training
        inner._buffers = self._buffers
        inner._parameters.update({name: self.used(name) for name in self._names})
        try:
            return inner(*inputs, **named)
        finally:
            inner._parameters.update(dict.fromkeys(self._names))
