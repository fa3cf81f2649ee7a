"""A block on a mesh, beside the same block unsharded."""

import dataclasses

import torch

from atp.tensor_parallel import TransformerConfig, full_state_dict, parallelize
from atp.tensor_parallel.checkpoint import _gather
from atp.tensor_parallel.transformer import Block

BATCH, SEQUENCE, HIDDEN = 8, 3, 32
MESHES = [(2, 1), (1, 2), (4, 1), (2, 2), (1, 4), (8, 1), (4, 2), (2, 4), (1, 8)]
GPT = TransformerConfig(hidden=HIDDEN, heads=8)
CONFIGS = {
    "a GPT's block": GPT,
    "a GPT's block with three projections": dataclasses.replace(GPT, fused_qkv=False),
    "a Llama's block with grouped queries": TransformerConfig(
        hidden=HIDDEN,
        heads=8,
        kv_heads=2,
        ffn=48,
        gated=True,
        rms_norm=True,
        rotary=True,
        fused_qkv=False,
        bias=False,
    ),  # fmt: skip
    "a gated block with grouped queries, biases and one projection": TransformerConfig(
        hidden=HIDDEN, heads=8, kv_heads=4, ffn=48, gated=True
    ),
}


def make_block(config: TransformerConfig, dtype: torch.dtype) -> Block:
    torch.manual_seed(1)
    block = Block(config).to(dtype)
    with torch.no_grad():
        for parameter in block.parameters():  # norms and biases, too, want values of their own
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return block


def inputs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    shape = (BATCH, SEQUENCE, HIDDEN)
    return tuple(torch.randn(shape, generator=generator, dtype=dtype) for _ in range(2))


def whole_results(config: TransformerConfig, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Output, gradient of the input, and gradient of every parameter."""
    block, (x, gradient) = make_block(config, dtype), inputs(dtype)
    x.requires_grad_()
    output = block(x)
    output.backward(gradient)
    gradients = {name: parameter.grad for name, parameter in block.named_parameters()}
    return {"output": output.detach(), "input's gradient": x.grad} | gradients


def results_on(mesh, config, dtype, chunks=1) -> dict[str, torch.Tensor]:
    """The same of the block on a mesh, made whole again."""
    block = parallelize(make_block(config, dtype), mesh=mesh, chunks=chunks)
    x, gradient = (own_columns(tensor, mesh) for tensor in inputs(dtype))
    x.requires_grad_()
    output = block(x)
    output.backward(gradient)
    results = {"output": all_columns(output.detach(), mesh)}
    results["input's gradient"] = all_columns(x.grad, mesh)
    for name, parameter in block.named_parameters():
        parameter.grad.atp_cut = parameter.atp_cut
        assert_replicas_are_equal(parameter.grad, mesh)
        results[name] = _gather(parameter.grad, mesh)
    assert full_state_dict(block).keys() == make_block(config, dtype).state_dict().keys()
    return results


def own_columns(whole: torch.Tensor, mesh) -> torch.Tensor:
    return whole.chunk(mesh.second.size, -1)[mesh.column].contiguous()


def all_columns(own: torch.Tensor, mesh) -> torch.Tensor:
    return torch.cat(list(mesh.second.all_gather(own).land()), -1)


def assert_replicas_are_equal(piece: torch.Tensor, mesh) -> None:
    """Ranks that hold the same piece hold the same bits."""
    for dimension, axis in ((mesh.first, piece.atp_cut.axis1), (mesh.second, piece.atp_cut.axis2)):
        if axis is None:
            every = dimension.all_gather(piece).land()
            assert all(torch.equal(every[0], other) for other in every[1:])


def largest_error(results: dict, expected: dict) -> tuple[float, str]:
    """The largest error of a tensor, relative to its largest value, and of which it is.

    Without rotation the keys' bias has no gradient but for rounding; values here are about 1.
    """
    assert results.keys() == expected.keys()
    errors = {name: _error(results[name], expected[name]) for name in expected}
    worst = max(errors, key=errors.get)
    return errors[worst], worst


def _error(result: torch.Tensor, expected: torch.Tensor) -> float:
    return float((result - expected).abs().max() / max(expected.abs().max(), 0.1))
