"""What a model of transformers offers besides its forward pass, on a mesh.

Calls that would return or take a rank's piece as if it were the whole are refused, and `generate`
draws the same tokens on all ranks.
"""

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.experts import ATPRouter
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.randomness import generators_of

__all__ = ["offer_what_is_whole"]


def offer_what_is_whole(model: nn.Module, mesh: Mesh) -> None:
    """Changes a model that has a `config` like those of transformers; leaves others alone."""
    if not hasattr(model, "config") or mesh.shape == (1, 1):
        return
    _refuse_what_is_cut(model, mesh)
    for name, replacement in {"save_pretrained": _save_pretrained, "generate": _generate}.items():
        if hasattr(model, name):
            setattr(model, name, functools.partial(replacement, model))


def _refuse_what_is_cut(model: nn.Module, mesh: Mesh) -> None:
    cut = {"output_attentions": "has only the attention of its own heads"}
    if any(isinstance(module, ATPRouter) for module in model.modules()):
        cut["output_router_logits"] = "sums the gradients of what routers say, except in a loss"
    if mesh.second.size > 1:
        cut["output_hidden_states"] = "has only a piece of each hidden state"
        cut["inputs_embeds"] = "takes only a piece of the embedded tokens; give it input_ids"
    elif mesh.splits_tokens:
        cut["output_hidden_states"] = "has only some tokens of each hidden state"

    def check(module: Any, _inputs: Any, named: Mapping[str, Any]) -> None:
        for what, why in cut.items():
            asked = named.get(what)
            if asked is None:
                asked = getattr(module.config, what, None)
            if asked is not None and asked is not False:
                raise ValueError(f"{what}: on {mesh} a rank {why}")

    model.register_forward_pre_hook(check, with_kwargs=True)


def _save_pretrained(model: Any, folder: Any, *more: Any, **options: Any) -> Any:
    if options.get("state_dict") is None:
        raise ValueError(
            f"save_pretrained: this rank has only a piece of the {type(model).__name__}; give it "
            "state_dict=full_state_dict(model), which all ranks must call, or use save()"
        )
    return type(model).save_pretrained(model, folder, *more, **options)


def _generate(model: Any, *inputs: Any, **options: Any) -> Any:
    """Ranks that drew different tokens would continue different sequences, some of them longer."""
    _draw_as_the_first_rank(model.atp_mesh)
    return type(model).generate(model, *inputs, **options)


def _draw_as_the_first_rank(mesh: Mesh) -> None:
    """Every rank of a replica continues with the first rank's random numbers; a collective."""
    device = torch.device(mesh.device_mesh.device_type)
    cpu = torch.default_generator
    for generator in sorted(generators_of(device), key=lambda each: each is not cpu):
        state = generator.get_state().to(device)
        for dimension in (mesh.second, mesh.first):
            state = dimension.all_gather(state).land()[0]
        generator.set_state(state.cpu())
