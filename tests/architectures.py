"""Tiny models of the architectures that are tested, with random weights; nothing is downloaded."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel

from upturn.models.engine import freeze_other_parts

VOCABULARY = 97
WINDOW = 8
"""Tokens of the sliding windows and chunks."""
BASE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HYBRID = ["sliding_attention", "full_attention"]
GDN: dict[str, Any] = {
    "head_dim": 8,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention", "full_attention"],
}
MOE: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
MLA: dict[str, Any] = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
}
TEXT = BASE
VISION: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
}
IMAGE_TOKENS = {"image_token_index": 96, "image_token_id": 96, "boi_token_index": 95, "eoi_token_index": 94}
MULTI_ROPE = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama 3": ("llama", {}),
    "Mistral": ("mistral", {"sliding_window": None}),
    "Mistral, windowed": ("mistral", {"sliding_window": WINDOW}),
    "Ministral": ("ministral", {"sliding_window": WINDOW, "layer_types": HYBRID, "head_dim": 8}),
    "Mixtral": ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "Qwen2.5": ("qwen2", {}),
    "Qwen2, windowed": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "Qwen3": ("qwen3", {"head_dim": 8}),
    "Qwen3-MoE": ("qwen3_moe", {"num_experts": 4, "head_dim": 8, **MOE}),
    "Qwen3-Next": ("qwen3_next", {**GDN, "num_experts": 4, "shared_expert_intermediate_size": 16, **MOE}),
    "Qwen3.5": ("qwen3_5_text", GDN),
    "Gemma 2": (
        "gemma2",
        {"sliding_window": WINDOW, "head_dim": 8, "layer_types": HYBRID, "query_pre_attn_scalar": 8},
    ),
    "Gemma 3": (
        "gemma3_text",
        {
            "sliding_window": WINDOW,
            "head_dim": 8,
            "layer_types": HYBRID,
            "query_pre_attn_scalar": 8,
            "final_logit_softcapping": 30.0,
        },
    ),
    "gpt-oss": (
        "gpt_oss",
        {
            "sliding_window": WINDOW,
            "head_dim": 8,
            "layer_types": HYBRID,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
        },
    ),
    "Granite 3": (
        "granite",
        {
            "logits_scaling": 8.0,
            "attention_multiplier": 0.2,
            "residual_multiplier": 0.5,
            "embedding_multiplier": 6.0,
        },
    ),
    "Granite-MoE": ("granitemoe", {"logits_scaling": 4.0, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "Granite 4, hybrid": (
        "granitemoehybrid",
        {
            "logits_scaling": 4.0,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 16,
            "layer_types": ["mamba", "attention"],
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_d_state": 8,
            "mamba_n_groups": 1,
            "mamba_expand": 2,
        },
    ),
    "DeepSeek-V3": (
        "deepseek_v3",
        {
            "first_k_dense_replace": 1,
            "n_routed_experts": 8,
            "n_group": 2,
            "topk_group": 1,
            "n_shared_experts": 1,
            **MOE,
            **MLA,
        },
    ),
    "Llama 4": (
        "llama4_text",
        {
            "head_dim": 8,
            "attention_chunk_size": WINDOW,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "intermediate_size_mlp": 48,
            "num_hidden_layers": 2,
            "no_rope_layers": [1, 0],
            "layer_types": ["chunked_attention", "full_attention"],
            "interleave_moe_layer_step": 2,
        },
    ),
    "LFM2": ("lfm2", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}),
    "Cohere": ("cohere", {"logit_scale": 0.25}),
    "Command R7B": ("cohere2", {"logit_scale": 0.25, "sliding_window": WINDOW, "layer_types": HYBRID}),
    "OLMo 2": ("olmo2", {}),
    "OLMo 3": ("olmo3", {"sliding_window": WINDOW, "layer_types": HYBRID}),
    "Phi-3": ("phi3", {"sliding_window": WINDOW}),
    "SmolLM3": ("smollm3", {"no_rope_layers": [1, 0], "use_sliding_window": False}),
    "GLM-4": ("glm4", {"head_dim": 8, "partial_rotary_factor": 0.5}),
    "GPT-2": (
        "gpt2",
        {
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 256,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
        },
    ),
    "GPT-NeoX": ("gpt_neox", {}),
    "BLOOM": ("bloom", {"n_layer": 2, "n_head": 4, "hidden_dropout": 0.0}),
    "Mamba": ("mamba", {"state_size": 8}),
    "Mamba 2": ("mamba2", {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 16}),
    "Falcon-H1": (
        "falcon_h1",
        {
            "mamba_d_ssm": 64,
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_d_state": 8,
            "mamba_n_groups": 1,
            "mamba_chunk_size": 16,
        },
    ),
    "Gemma 3, multimodal": (
        "gemma3",
        {
            "text_config": TEXT | {"head_dim": 8, "sliding_window": WINDOW, "layer_types": HYBRID},
            "vision_config": VISION,
            "mm_tokens_per_image": 4,
            **IMAGE_TOKENS,
        },
    ),
    "Mistral Small 3.1": (
        "mistral3",
        {
            "text_config": TEXT | {"model_type": "mistral", "head_dim": 8, "sliding_window": None},
            "vision_config": VISION | {"model_type": "pixtral"},
            **IMAGE_TOKENS,
        },
    ),
    "Qwen2.5-VL": (
        "qwen2_5_vl",
        {
            "text_config": TEXT | {"rope_parameters": MULTI_ROPE, "use_sliding_window": False},
            "vision_config": {
                "depth": 1,
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_heads": 2,
                "out_hidden_size": 32,
            },
            **IMAGE_TOKENS,
        },
    ),
    "RWKV": ("rwkv", {"attention_hidden_size": 32}),
}
"""Model type and settings, by the name that users know."""


class Documented(NamedTuple):
    """How an architecture runs, as docs/models.md says."""

    kind: str
    """Its model type in transformers."""
    forward: str
    """The local engine's forward pass."""
    packing: str
    """``tree``, ``padded``, or ``tree up to the window``."""


def documented() -> dict[str, Documented]:
    """The rows of the table of architectures in docs/models.md."""
    page = (Path(__file__).parent.parent / "docs" / "models.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| `([^|]+)` \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    return {name: Documented(*row) for name, *row in rows if name in ARCHITECTURES}


def build(name: str) -> PreTrainedModel:
    """A model in evaluation mode whose every part affects the logits, also norms, biases and sinks."""
    kind, changes = ARCHITECTURES[name]
    torch.manual_seed(1)
    config: Any = AutoConfig.for_model(kind, **(changes if "text_config" in changes else BASE | changes))
    auto: Any = AutoModelForCausalLM
    if type(config) not in auto._model_mapping:
        auto = AutoModelForImageTextToText
    model: PreTrainedModel = auto.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.dim() > 1 else 1.0).add_(torch.randn_like(parameter), alpha=0.05)
    return freeze_other_parts(model.float().eval())
