"""Compares a block on a mesh to the same block unsharded."""

import dataclasses
import hashlib

import torch

from atp.tensor_parallel import TransformerConfig, parallelize
from atp.tensor_parallel.sharding import Cut, cuts_of
from atp.tensor_parallel.transformer import Block

BATCH, SEQUENCE, HIDDEN = 8, 3, 32
MESHES = [(2, 1), (1, 2), (4, 1), (2, 2), (1, 4), (8, 1), (4, 2), (2, 4), (1, 8)]
GPT = TransformerConfig(hidden=HIDDEN, heads=8)
COLUMNS = Cut(None, 2)  # the split of activations [b, s, h]
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
    block = Block(config)  # with float32 values, whatever the type
    with torch.no_grad():
        for parameter in block.parameters():  # norms and biases also get random values
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return block.to(dtype)


def inputs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    shape = (BATCH, SEQUENCE, HIDDEN)
    return tuple(torch.randn(shape, generator=generator).to(dtype) for _ in range(2))


def whole_results(
    config: TransformerConfig, dtype: torch.dtype, magnitude: float = 1
) -> dict[str, torch.Tensor]:
    """The output, the gradient of the input, and the gradients of all parameters."""
    x, gradient = inputs(dtype)
    return pieces_of_run(make_block(config, dtype), x, gradient * magnitude)


def pieces_of_run(
    block, x: torch.Tensor, gradient: torch.Tensor, autocast: torch.dtype | None = None
) -> dict[str, torch.Tensor]:
    """The same for a block, or for this rank's part of it; autocast applies to forward."""
    block.zero_grad()
    with torch.autocast(x.device.type, autocast, enabled=autocast is not None):
        output = block(x.requires_grad_())
    output.backward(gradient)
    gradients = {name: parameter.grad for name, parameter in block.named_parameters()}
    return {"output": output.detach(), "input's gradient": x.grad} | gradients


def cuts_of_run(block) -> dict[str, Cut]:
    return {"output": COLUMNS, "input's gradient": COLUMNS} | cuts_of(block)


def results_on(mesh, config, dtype, chunks=1) -> tuple[dict[str, torch.Tensor], dict[str, Cut]]:
    """This rank's pieces of these results for the block on a mesh, and how they are split."""
    block = parallelize(make_block(config, dtype), mesh=mesh, chunks=chunks)
    x, gradient = (COLUMNS.take(tensor, mesh.shape, 0, mesh.column) for tensor in inputs(dtype))
    return pieces_of_run(block, x.clone(), gradient), cuts_of_run(block)


@dataclasses.dataclass
class Outcome:
    """How a rank's pieces differ from the whole block's, and digests of them.

    error, tensor: the largest error, relative to its tensor's largest value, and that tensor.
    digests: a digest of each piece, by name and place on the mesh. Ranks that hold copies must
        have the same bits.
    """

    error: float
    tensor: str
    digests: dict[tuple, str]


def outcome_of(pieces: dict, cuts: dict, whole: dict, mesh) -> Outcome:
    assert pieces.keys() == whole.keys()
    errors, digests = {}, {}
    for name, piece in pieces.items():
        cut = cuts[name]
        own = cut.take(whole[name], mesh.shape, mesh.row, mesh.column)
        # NaN counts as infinitely wrong: max() skips it unless it comes first.
        error = (piece - own).abs().max() / largest(name, whole)
        errors[name] = float(error.nan_to_num(nan=torch.inf))
        place = (mesh.row if cut.axis1 is not None else None,
                 mesh.column if cut.axis2 is not None else None)  # fmt: skip
        content = piece.detach().contiguous().numpy().tobytes()
        digests[name, *place] = hashlib.sha256(content).hexdigest()
    worst = max(errors, key=errors.get)
    return Outcome(errors[worst], worst, digests)


def largest(name: str, whole: dict) -> float:
    """The largest value of a tensor. Without rotation the keys' bias has no gradient except for
    rounding, so biases of queries, keys and values are taken together with their weights."""
    weight = whole[name.removesuffix("bias") + "weight"] if name.endswith("bias") else whole[name]
    return float(max(whole[name].abs().max(), weight.abs().max()))


def assert_copies_are_equal(outcomes: list[Outcome]) -> None:
    """Checks in all ranks' outcomes that copies of a piece have the same bits."""
    seen: dict[tuple, str] = {}
    for outcome in outcomes:
        for place, digest in outcome.digests.items():
            assert seen.setdefault(place, digest) == digest, place


def step_bytes(answer):
    """Planned for a step of two layers: {mesh: the bytes that a rank sends on each dimension}."""
    return {
        one.mesh: tuple(
            2 * dimension.bytes + ends
            for dimension, ends in zip(one.dimensions, one.ends.bytes, strict=True)
        )
        for one in (answer, *answer.runners_up)
    }
