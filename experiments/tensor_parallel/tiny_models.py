"""Small models of every causal type of the installed transformers, with random weights."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

__all__ = ["TYPES", "VOCABULARY", "make"]

TYPES = tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
VOCABULARY, HIDDEN, HEADS, KV_HEADS, WIDTH, INNER, LAYERS, EXPERTS = 67, 32, 8, 4, 4, 48, 2, 4

# The names that configurations give to a size; those that a type does not have are left out.
SIZES = {
    "vocab_size": VOCABULARY,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size": HIDDEN,
    "d_model": HIDDEN,
    "n_embd": HIDDEN,
    "word_embed_proj_dim": HIDDEN,
    "embedding_size": HIDDEN,
    "intermediate_size": INNER,
    "ffn_dim": INNER,
    "n_inner": INNER,
    "decoder_ffn_dim": INNER,
    "moe_intermediate_size": INNER,
    "shared_expert_intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_layers": LAYERS,
    "n_layer": LAYERS,
    "n_layers": LAYERS,
    "decoder_layers": LAYERS,
    "num_attention_heads": HEADS,
    "n_head": HEADS,
    "n_heads": HEADS,
    "num_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "num_global_key_value_heads": KV_HEADS,
    "head_dim": WIDTH,
    "global_head_dim": WIDTH,
    "rotary_dim": WIDTH,
    "num_experts": EXPERTS,
    "num_local_experts": EXPERTS,
    "n_routed_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": WIDTH,
    "qk_rope_head_dim": WIDTH,
    "v_head_dim": WIDTH,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "n_ctx": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
# Dropout draws different numbers on a mesh than on one rank, so it is off.
_DROPOUTS = ("drop", "pdrop")


_MOST_PARAMETERS = 3_000_000


def make(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A model of this type; the same values at every call, norms and biases not trivial.

    Raises:
        ValueError: it is not small, since its configuration has sizes that are not known here.
    """
    config = AutoConfig.for_model(name, **_settings(AutoConfig.for_model(name).to_dict()))
    with torch.device("meta"):
        count = sum(p.numel() for p in _model_of(config).parameters())
    if count > _MOST_PARAMETERS:
        raise ValueError(f"{name} has {count} parameters")
    torch.manual_seed(1)
    model = _model_of(config)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise.to(parameter.dtype), alpha=0.1)
    return model.to(dtype).train()


def _model_of(config: Any) -> nn.Module:
    """With kernels that take float64."""
    config._experts_implementation = "eager"
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager")


def _settings(known: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a configuration small, and those inside it."""
    settings = {key: value for key, value in SIZES.items() if key in known}
    for key, value in known.items():
        if isinstance(value, float) and any(word in key for word in _DROPOUTS):
            settings[key] = 0.0
        if key == "layer_types" and isinstance(value, list):
            settings[key] = [value[0], value[-1]]
        if isinstance(value, dict) and key.endswith("_config"):
            settings[key] = {**value, **_settings(value)}
    return settings
