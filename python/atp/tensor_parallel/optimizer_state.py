"""An optimizer's state in a checkpoint: by the names of parameters, and split like them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.dtensors import wrapped
from atp.tensor_parallel.sharding import Cut, cuts_of, local

__all__ = ["Placed", "fill_optimizer", "groups_of", "state_of"]


@dataclasses.dataclass(frozen=True)
class Placed:
    """A rank's place on a mesh of some shape."""

    shape: tuple[int, int] = (1, 1)
    row: int = 0
    column: int = 0

    def take(self, full: torch.Tensor, cut: Cut) -> torch.Tensor:
        return cut.take(full, self.shape, self.row, self.column)


def _names(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[torch.Tensor, str]:
    """The names of all the optimizer's parameters."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        if any(parameter not in names for parameter in group["params"]):
            raise ValueError("the optimizer has parameters that do not belong to the model")
    return names


def groups_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The optimizer's settings, with the names of each group's parameters."""
    names = _names(model, optimizer)
    return [
        {**group, "params": [], "parameters": [names[p] for p in group["params"]]}
        for group in optimizer.param_groups
    ]


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """This rank's piece of the state.

    Raises:
        ValueError: it has a tensor that is neither shaped like its parameter nor a single value.
    """
    names = _names(model, optimizer)
    found = {
        names[parameter]: {key: local(value) for key, value in state.items()}
        for parameter, state in optimizer.state.items()
    }
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            is_tensor = isinstance(value, torch.Tensor)
            if is_tensor and value.shape != parameter.shape and value.numel() != 1:
                raise ValueError(
                    f"{type(optimizer).__name__} has {key!r} of shape {tuple(value.shape)} for "
                    f"{names[parameter]}, which cannot be split as the parameter is"
                )
    return found


def fill_optimizer(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    groups: list[dict[str, Any]],
    whole_state: Callable[[str], dict[str, Any]],
    place: Placed,
) -> None:
    """Gives the optimizer these settings and its pieces of this whole state."""
    cuts = cuts_of(model)
    for name, parameter in model.named_parameters():
        state = whole_state(name)
        if state:
            cut = cuts[name]
            whole = cut.full_shape(local(parameter).shape, place.shape)
            optimizer.state[parameter] = {
                key: wrapped(place.take(value, cut).to(parameter.device).clone(), parameter)
                if isinstance(value, torch.Tensor) and tuple(value.shape) == whole
                else _copy(value)  # one value for the whole parameter
                for key, value in state.items()
            }
    for own, saved in zip(optimizer.param_groups, groups, strict=True):
        own.update((k, v) for k, v in saved.items() if k not in ("params", "parameters"))


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
