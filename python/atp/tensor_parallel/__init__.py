"""Adaptive tensor parallelism: transformers split over both dimensions of a device mesh.

    from atp.tensor_parallel import init_mesh, parallelize

    mesh = init_mesh("auto", cluster="cluster.yaml", model="config.json")   # or init_mesh(4, 2)
    model = parallelize(model)

docs/plan/tensor-parallel.md has a complete program, and lists what is sent where. `atp.planner`
chooses the mesh. The algorithm is from Cheng, Liu, Du and You, "ATP: Adaptive Tensor Parallelism
for Foundation Models"; its sections are cited as §.
"""

from atp.tensor_parallel.attention import ATPAttention, causal_attention
from atp.tensor_parallel.checkpoint import full_state_dict, load, load_full_state_dict, save
from atp.tensor_parallel.conjugates import f1, f2, f3, f4, gather
from atp.tensor_parallel.embedding import ATPEmbedding, ATPPositions
from atp.tensor_parallel.feed_forward import ATPFeedForward
from atp.tensor_parallel.gradients import clip_grad_norm_, grad_norm
from atp.tensor_parallel.head import ATPHead
from atp.tensor_parallel.linear import ATPLinear
from atp.tensor_parallel.loss import vocabulary_parallel_cross_entropy
from atp.tensor_parallel.mesh import Mesh, current_mesh, init_mesh
from atp.tensor_parallel.moves import Heads, Sequences
from atp.tensor_parallel.norm import ATPLayerNorm, ATPRMSNorm
from atp.tensor_parallel.overlap import run_chunks
from atp.tensor_parallel.parallelize import parallelize
from atp.tensor_parallel.plans import plan_of
from atp.tensor_parallel.roles import (
    AttentionRole,
    Column,
    EmbeddingRole,
    FeedForwardRole,
    Head,
    KeptAttentionRole,
    Norm,
    PositionsRole,
    Row,
)
from atp.tensor_parallel.torchs_plan import parallelize_module_plan
from atp.tensor_parallel.transformer import Transformer, TransformerConfig

__all__ = [
    "ATPAttention",
    "ATPEmbedding",
    "ATPFeedForward",
    "ATPHead",
    "ATPLayerNorm",
    "ATPLinear",
    "ATPPositions",
    "ATPRMSNorm",
    "AttentionRole",
    "Column",
    "EmbeddingRole",
    "FeedForwardRole",
    "Head",
    "Heads",
    "KeptAttentionRole",
    "Mesh",
    "Norm",
    "PositionsRole",
    "Row",
    "Sequences",
    "Transformer",
    "TransformerConfig",
    "causal_attention",
    "clip_grad_norm_",
    "current_mesh",
    "f1",
    "f2",
    "f3",
    "f4",
    "full_state_dict",
    "gather",
    "grad_norm",
    "init_mesh",
    "load",
    "load_full_state_dict",
    "parallelize",
    "parallelize_module_plan",
    "plan_of",
    "run_chunks",
    "save",
    "vocabulary_parallel_cross_entropy",
]
