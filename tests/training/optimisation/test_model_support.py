"""Unsupported models, for training or for shared prefixes, are detected before the first step."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
    RwkvConfig,
    RwkvForCausalLM,
)

from upturn.errors import TrainingError
from upturn.training.optimisation.model_support import random_parts, refuse_random, tree_unsupported_reason

SHAPE = {
    "vocab_size": 20,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 16,
}
SMALL = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2}


def build_model(family: type[PreTrainedModel], config: type, **changes: object) -> PreTrainedModel:
    return family(config(**changes))


SUPPORTED: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: build_model(LlamaForCausalLM, LlamaConfig, **SHAPE),
    "qwen2": lambda: build_model(Qwen2ForCausalLM, Qwen2Config, **SHAPE),
    "mistral": lambda: build_model(MistralForCausalLM, MistralConfig, **SHAPE, sliding_window=None),
}
RECURRENT: dict[str, tuple[Callable[[], PreTrainedModel], str]] = {
    "mamba": (
        lambda: build_model(MambaForCausalLM, MambaConfig, **SMALL, state_size=4),
        "a layer of type 'linear_attention'",
    ),
    "rwkv": (lambda: build_model(RwkvForCausalLM, RwkvConfig, **SMALL), "RwkvForCausalLM's state"),
    "short convolutions": (
        lambda: build_model(Lfm2ForCausalLM, Lfm2Config, **SHAPE, layer_types=["conv", "full_attention"]),
        "a layer of type 'conv'",
    ),
    "half recurrent": (
        lambda: build_model(
            RecurrentGemmaForCausalLM, RecurrentGemmaConfig, **SHAPE, lru_width=16, attention_window_size=8
        ),
        "a layer of type",
    ),
}


@pytest.mark.parametrize("family", SUPPORTED)
def test_plain_transformers_are_supported(family: str) -> None:
    model = SUPPORTED[family]()
    refuse_random(model)
    assert tree_unsupported_reason(model, 100_000) is None


@pytest.mark.parametrize("family", RECURRENT)
def test_recurrent_parts_are_named(family: str) -> None:
    build, part = RECURRENT[family]
    reason = tree_unsupported_reason(build(), 4)
    assert reason is not None
    assert part in reason
    assert reason.endswith("carries information between tokens outside attention")


@pytest.mark.parametrize(
    ("part", "name"),
    [(nn.GRU(4, 4), "memory (GRU)"), (nn.Conv1d(4, 4, 3), "memory (Conv1d)")],
    ids=["GRU", "Conv1d"],
)
def test_undeclared_recurrence_is_detected_among_the_modules(part: nn.Module, name: str) -> None:
    model = SUPPORTED["llama"]()
    model.add_module("memory", part)
    assert name in (tree_unsupported_reason(model, 4) or "")


def test_a_convolution_over_one_token_is_not_recurrent() -> None:
    model = SUPPORTED["llama"]()
    model.add_module("projection", nn.Conv1d(4, 4, 1))
    assert tree_unsupported_reason(model, 4) is None


def test_a_window_matters_only_to_longer_rows() -> None:
    model = build_model(MistralForCausalLM, MistralConfig, **SHAPE, sliding_window=8)
    assert tree_unsupported_reason(model, 8) is None
    assert tree_unsupported_reason(model, 9) == "it attends to a window of 8 tokens only, and there are rows of 9"
    ignored = build_model(Qwen2ForCausalLM, Qwen2Config, **SHAPE, use_sliding_window=False, sliding_window=8)
    assert tree_unsupported_reason(ignored, 100) is None


def test_attention_that_cannot_be_replaced_is_named() -> None:
    model = build_model(BloomForCausalLM, BloomConfig, vocab_size=20, hidden_size=16, n_layer=1, n_head=2)
    assert "its attention cannot be replaced" in (tree_unsupported_reason(model, 4) or "")


def test_dropout_is_detected_in_modules_and_configuration() -> None:
    gpt = build_model(GPT2LMHeadModel, GPT2Config, vocab_size=20, n_embd=16, n_layer=1, n_head=2)
    assert next(random_parts(gpt)).name == "transformer.drop"
    falcon = build_model(FalconForCausalLM, FalconConfig, **SMALL, num_attention_heads=2, hidden_dropout=0.5)
    assert not any(isinstance(module, nn.Dropout) and module.p for module in falcon.modules())
    ids = torch.tensor([[1, 2, 3]])
    falcon.train()
    with torch.no_grad():
        first, second = falcon(ids).logits, falcon(ids).logits
    assert not torch.equal(first, second)  # it does drop out
    with pytest.raises(TrainingError, match=r"dropout or noise \(hidden_dropout = 0\.5\).*load it with 0"):
        refuse_random(falcon)


def test_settings_of_unused_heads_are_not_dropout() -> None:
    silent = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    gpt = build_model(GPT2LMHeadModel, GPT2Config, vocab_size=20, n_embd=16, n_layer=1, n_head=2, **silent)
    assert gpt.config.summary_first_dropout == 0.1
    assert list(random_parts(gpt)) == []
