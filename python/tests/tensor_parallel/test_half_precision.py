"""Half precision and autocast: statistics, losses and sums have float32's precision."""

import collections

import torch
import torch.distributed as dist
from torch import nn

from atp.tensor_parallel import (
    ATPLinear,
    Norm,
    init_mesh,
    parallelize,
    vocabulary_parallel_cross_entropy,
)

from .comparing import BATCH, COLUMNS, CONFIGS, SEQUENCE, inputs, make_block, pieces_of_run
from .comparing import cuts_of_run as cuts_of

HALVES = [torch.bfloat16, torch.float16]
AUTOCAST = {"autocast": torch.bfloat16}
MESHES = [(4, 1), (2, 2), (1, 4)]


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def norms_and_losses(_rank):
    """{what: (our error, torch's)} against float64, for inputs beyond half precision."""
    found = {}
    mesh = init_mesh(1, 4)
    own = slice(8 * mesh.column, 8 * (mesh.column + 1))
    for dtype in HALVES:
        for kind, x in {
            nn.RMSNorm: 300 * draw(4, 32),  # whose squares float16 cannot hold
            nn.LayerNorm: 100 + draw(4, 32),  # whose differences bfloat16 cannot represent
        }.items():
            exact = kind(32)(x.to(dtype).float())[:, own]
            torchs = kind(32, dtype=dtype)(x.to(dtype))[:, own]
            ours = parallelize(nn.Sequential(kind(32, dtype=dtype)), {"0": Norm()}, mesh)
            ours = ours(x.to(dtype)[:, own])
            assert ours.dtype == dtype
            found[kind.__name__, dtype] = error(ours, exact), error(torchs, exact)
    mesh = init_mesh(4, 1)
    own = slice(64 * mesh.row, 64 * (mesh.row + 1))
    for dtype in HALVES:
        logits = (5 * draw(BATCH, SEQUENCE, 256)).to(dtype)
        targets = torch.arange(BATCH * SEQUENCE).view(BATCH, SEQUENCE) * 10
        targets[0, 0] = targets[3, 2] = -100  # ignored, as in torch
        whole = logits.clone().requires_grad_()
        exact = nn.functional.cross_entropy(whole.double().flatten(0, 1), targets.flatten())
        exact.backward()
        piece = logits[..., own].clone().requires_grad_()
        loss = vocabulary_parallel_cross_entropy(piece, targets, mesh)
        loss.backward()
        assert (loss.dtype, piece.grad.dtype) == (torch.float32, dtype)
        found["loss", dtype] = error(loss.detach(), exact.detach()), 1e-6
        found["its gradient", dtype] = error(piece.grad, whole.grad[..., own]), 1e-2
    return found


def error(found, exact) -> float:
    return float((found.double() - exact.double()).norm() / exact.double().norm())


def test_norms_and_losses_are_as_precise_as_torchs(gloo_ranks):
    for found in gloo_ranks.run(4, norms_and_losses, backend="gloo"):
        for what, (ours, torchs) in found.items():
            assert ours <= 1.5 * torchs, what


def blocks_in(_rank):
    """{(way, block, mesh): (tensor, our error, torch's)} relative to float32."""
    worst = {}
    for name, config in CONFIGS.items():
        exact = of_whole(config, torch.float32)
        for way in ("bfloat16", "autocast"):
            torchs = of_whole(config, torch.bfloat16, way)
            for shape in MESHES:
                mesh = init_mesh(*shape)
                found, cuts = of_mesh(config, mesh, way)
                for tensor, piece in found.items():
                    place = shape, mesh.row, mesh.column
                    wanted, theirs = (cuts[tensor].take(w[tensor], *place) for w in (exact, torchs))
                    assert piece.dtype == theirs.dtype, (name, tensor)
                    errors = error_of(piece, wanted), error_of(theirs, wanted)
                    worst[way, name, shape, tensor] = errors
                mesh.close()
    return worst


def error_of(found, exact) -> float:
    return float((found.double() - exact.double()).square().sum())


def of_whole(config, dtype, way=""):
    block = make_block(config, torch.float32 if way == "autocast" else dtype)
    x, gradient = inputs(torch.float32 if way == "autocast" else dtype)
    return pieces_of_run(block, x, gradient, AUTOCAST.get(way))


def of_mesh(config, mesh, way):
    dtype = torch.float32 if way == "autocast" else torch.bfloat16
    block = parallelize(make_block(config, dtype), mesh=mesh)
    x, gradient = (COLUMNS.take(tensor, mesh.shape, 0, mesh.column) for tensor in inputs(dtype))
    return pieces_of_run(block, x.clone(), gradient, AUTOCAST.get(way)), cuts_of(block)


def test_bfloat16_is_nearly_as_close_to_float32_as_torchs(gloo_ranks):
    """Each tensor, over all ranks. Autocast rounds wide values between the products, so chance
    decides for a few small tensors; there all tensors are compared together."""
    results = gloo_ranks.run(4, blocks_in, backend="gloo")
    squares = collections.defaultdict(lambda: [0.0, 0.0])
    for case in results[0]:
        tensor = case if case[0] == "bfloat16" else case[:3]
        for i in (0, 1):
            squares[tensor][i] += sum(result[case][i] for result in results)
    for tensor, (ours, torchs) in squares.items():
        assert ours <= 1.5**2 * torchs, tensor


def products(_rank):
    """{(product, type): (its error, that of the exact one rounded once)}, of sums over ranks."""
    found = {}
    for style, shape in (("row", (4, 1)), ("column", (1, 4))):
        mesh = init_mesh(*shape)
        for dtype in HALVES:
            layer = ATPLinear(256, 64, style, mesh=mesh, dtype=dtype, site="layer")
            whole, own = draw(64, 256).to(dtype), slice(64 * dist.get_rank(), None)
            with torch.no_grad():
                layer.weight.copy_(whole[:, own][:, :64])
                layer.bias.fill_(1)
            x = draw(16, 256, seed=1).to(dtype)
            exact = x.double() @ whole.double().T + 1
            for autocast in (False, True) if dtype == torch.bfloat16 else (False,):
                with torch.autocast("cpu", dtype, enabled=autocast):
                    sum_of_all = layer(x[:, own][:, :64].contiguous())
                found[style, dtype, autocast] = errors(sum_of_all, exact)
        mesh.close()
    # The gradient of an input is such a sum, too.
    mesh = init_mesh(4, 1)
    for dtype in HALVES:
        layer = ATPLinear(64, 256, "column", bias=False, mesh=mesh, dtype=dtype, site="layer")
        whole = draw(256, 64).to(dtype)
        with torch.no_grad():
            layer.weight.copy_(whole[64 * mesh.row :][:64])
        x = draw(16, 64).to(dtype).requires_grad_()
        gradient = draw(16, 256, seed=1).to(dtype)
        layer(x).backward(gradient[:, 64 * mesh.row :][:, :64].contiguous())
        found["gradient", dtype] = errors(x.grad, gradient.double() @ whole.double())
    return found


def errors(found, exact):
    return error(found.detach(), exact), error(exact.to(found.dtype), exact)


def test_a_sum_of_products_is_rounded_once(gloo_ranks):
    """A rank's product is rounded only after the sum: each sum is the nearest to the exact one,
    except where float32's own rounding decides."""
    for found in gloo_ranks.run(4, products, backend="gloo"):
        assert len(found) == 8
        for what, (ours, nearest) in found.items():
            assert ours <= 1.01 * nearest, what


def test_sums_of_half_precision_are_rounded_once(gloo_ranks):
    def body(rank):
        dimension = init_mesh(4, 1, fused=True).first
        found = []
        for dtype in HALVES:
            each = [draw(4, 64, seed=seed).to(dtype) for seed in range(4)]
            exact = sum(one.double() for one in each)
            found.append(errors(dimension.all_reduce(each[rank].clone()).land(), exact))
            found.append(errors(dimension.reduce_scatter(each[rank]).land(), exact[rank]))
        return found

    for found in gloo_ranks.run(4, body, backend="gloo"):
        for ours, nearest in found:
            assert ours <= 1.01 * nearest
