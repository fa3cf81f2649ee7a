"""What docs/plan/tensor-parallel.md says about torch.compile is true."""

import torch
from torch._dynamo.exc import Unsupported

from atp.tensor_parallel import init_mesh, parallelize
from atp.tensor_parallel.transformer import Block

from .comparing import GPT, HIDDEN


def test_torch_compile_refuses_a_block_as_one_graph(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(2, 1)
        block = parallelize(Block(GPT), mesh=mesh)
        compiled = torch.compile(block, backend="eager", fullgraph=True)
        try:
            compiled(torch.ones(2, 4, HIDDEN))
        except Unsupported as refusal:
            return str(refusal)
        return "compiled"

    for said in gloo_ranks.run(2, body, backend="gloo"):
        assert "torch.Generator" in said
