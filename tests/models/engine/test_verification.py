import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    RwkvConfig,
    RwkvForCausalLM,
    XLNetConfig,
    XLNetLMHeadModel,
)

from upturn.errors import ModelError
from upturn.models import GenerationRequest
from upturn.models.engine import LocalEngine, verification
from upturn.models.engine.modules import ModuleModel
from upturn.models.engine.verification import allowed_gap, largest_gap

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def llama(**changes: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**(SIZES | changes))).requires_grad_(False)


def sharpen(model: LlamaForCausalLM) -> None:
    """Makes attention affect the logits."""
    for parameter in model.parameters():
        parameter.mul_(10.0 if parameter.dim() > 1 else 1.0)


def test_llama_family_models_use_the_direct_forward_pass() -> None:
    engine = LocalEngine(llama(), slots=2, max_length=30)
    assert (engine.forward, engine.forward_reason) == ("direct", None)
    requested = LocalEngine(llama(), slots=2, max_length=30, forward="modules")
    assert (requested.forward, requested.forward_reason) == ("modules", None)


def test_other_architectures_use_their_modules_with_a_reason() -> None:
    config = GPT2Config(
        vocab_size=50, n_positions=40, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model: PreTrainedModel = GPT2LMHeadModel(config)
    engine = LocalEngine(model, slots=2, max_length=30)
    assert (engine.forward, engine.forward_reason) == (
        "modules",
        "direct: its type is 'gpt2', not one of llama, mistral, qwen2, qwen3",
    )
    with pytest.raises(
        ModelError, match="the direct forward pass cannot serve GPT2LMHeadModel: its type is 'gpt2'"
    ):
        LocalEngine(model, slots=2, max_length=30, forward="direct")


def test_a_model_whose_logits_differ_uses_its_modules_with_a_warning() -> None:
    class Capped(LlamaForCausalLM):
        """Its attention is scaled differently from its configuration."""

    model = Capped(LlamaConfig(**SIZES)).requires_grad_(False)
    sharpen(model)
    model.model.layers[0].self_attn.scaling = 1.0
    with pytest.warns(RuntimeWarning, match="runs Capped through its modules: direct: its logits differ by"):
        engine = LocalEngine(model, slots=2, max_length=30)
    assert engine.forward == "modules"
    with pytest.raises(ModelError, match="the direct forward pass cannot serve Capped: its logits differ by"):
        LocalEngine(model, slots=2, max_length=30, forward="direct")


def test_a_model_that_no_backend_computes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "largest_gap", lambda *_: 0.5)
    differs = r"its logits differ by 0.5 from those of the model \(allowed 0.001\)"
    reason = f"direct: {differs}; modules: {differs}; fallback: {differs}; serve this model behind"
    with pytest.raises(ModelError, match=f"cannot serve LlamaForCausalLM exactly: {reason}"):
        LocalEngine(llama(), slots=2, max_length=30)


@pytest.mark.parametrize("kind", ["rwkv", "bloom"])
def test_models_with_other_state_than_keys_and_values_run_over_their_own_cache(kind: str) -> None:
    torch.manual_seed(0)
    models: dict[str, Callable[[], PreTrainedModel]] = {
        "rwkv": lambda: RwkvForCausalLM(RwkvConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2)),
        "bloom": lambda: BloomForCausalLM(BloomConfig(vocab_size=50, hidden_size=16, n_layer=1, n_head=2)),
    }
    warning = (
        rf"(?s){kind}ForCausalLM one sequence at a time .*slower, same result.*direct: .*modules: its attention"
    )
    with pytest.warns(RuntimeWarning, match=f"(?i){warning}"):
        engine = LocalEngine(models[kind]().requires_grad_(False), slots=2, max_length=30)
    assert engine.forward == "fallback"


def test_models_that_read_later_tokens_are_refused() -> None:
    torch.manual_seed(0)
    model = XLNetLMHeadModel(XLNetConfig(vocab_size=50, d_model=16, n_layer=1, n_head=2, d_inner=32))
    with pytest.raises(ModelError, match=r"(?s)cannot serve XLNetLMHeadModel exactly.*fallback: its logits differ"):
        LocalEngine(model.requires_grad_(False), slots=2, max_length=30)


def test_wrongly_computed_weights_are_detected_on_refresh() -> None:
    model = llama()
    engine = LocalEngine(model, slots=2, max_length=30)
    sharpen(model)
    engine.refresh()
    model.model.layers[0].self_attn.scaling = 1.0  # as a patch of the model between two iterations might
    model.lm_head.weight[0, 0] += 1.0
    with pytest.raises(ModelError, match="cached and plain forward of LlamaForCausalLM differ"):
        engine.refresh()


def test_length_dependent_rotary_embeddings_are_served_up_to_the_change() -> None:
    dynamic = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    model = llama(rope_parameters=dynamic, max_position_embeddings=64)
    with pytest.raises(ModelError, match="rotates differently beyond 64 tokens"):
        LocalEngine(model, slots=2, max_length=65)
    engine = LocalEngine(model, slots=2, max_length=64)
    assert engine.forward == "modules"
    assert "rotary type is 'dynamic'" in str(engine.forward_reason)


@pytest.mark.parametrize("max_length", [2, 3, 4, 5, 17])
@pytest.mark.parametrize("forward", ["direct", "modules"])
def test_the_smallest_engines_are_verified_and_left_empty(max_length: int, forward: verification.Forward) -> None:
    engine = LocalEngine(llama(), slots=1, max_length=max_length, forward=forward)
    request = GenerationRequest((3,), 5, (), 0.0, "s", (0, 0), 0)
    generation = asyncio.run(engine.generate(request))
    assert len(generation.token_ids) == min(5, max_length - 1)
    assert engine.counters.prefilled_tokens == 1


def _deep_half() -> PreTrainedModel:
    """A model of 28 layers in bfloat16 with logits up to 25, as those of trained models are."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 500, "hidden_size": 64, "intermediate_size": 128}
    sizes |= {"num_hidden_layers": 28, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=False, initializer_range=0.12))
    with torch.no_grad():
        model.lm_head.weight *= 25 / model(torch.arange(192)[None] * 7 % 500).logits.abs().max()
    model.bfloat16()
    return model


def test_rounding_of_large_logits_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _deep_half()
    assert LocalEngine(model, slots=2, max_length=256).forward == "direct"
    backend = ModuleModel(model, 2, 256)
    assert largest_gap(backend, model, 2, 256) * 25 / 2 > 0.1  # of the logits themselves
    right = backend.forward
    monkeypatch.setattr(backend, "forward", lambda blocks: 0.9 * right(blocks))
    assert largest_gap(backend, model, 2, 256) > allowed_gap(model)
