"""A model with a LoRA adapter counts as its merged weights, for the hash and for sampling."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.models.engine import LocalEngine, adapter_identity, weights_hash
from upturn.models.engine.adapter import lora_layers, merged_state
from upturn.models.engine.backend import Block
from upturn.models.engine.direct import DirectModel
from upturn.models.engine.verification import largest_gap

peft = pytest.importorskip("peft", reason="the extra lora is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # peft calls what transformers has renamed


def build_model() -> PreTrainedModel:
    torch.manual_seed(1)
    model: PreTrainedModel = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=31,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            tie_word_embeddings=True,
        )
    )
    model.eval()
    return model


def adapted_model(**options: Any) -> PreTrainedModel:
    """A model with an adapter without zeros and with scale 6 / 2."""
    model = build_model()
    defaults = {"r": 2, "lora_alpha": 6, "target_modules": ["q_proj", "down_proj"], "init_lora_weights": False}
    torch.manual_seed(2)
    model.add_adapter(peft.LoraConfig(**{**defaults, **options}))
    model.eval()
    return model


def test_merged_state_holds_merged_weights_under_the_original_names() -> None:
    model, base = adapted_model(), build_model().state_dict()
    merged = dict(merged_state(model))
    state = model.state_dict()
    assert list(merged) == sorted(base)
    changed = {name for name, tensor in base.items() if not torch.equal(merged[name], tensor)}
    parts = [f"model.layers.{layer}.{name}" for layer in (0, 1) for name in ("self_attn.q_proj", "mlp.down_proj")]
    assert changed == {f"{part}.weight" for part in parts}
    for part in parts:
        down, up = state[f"{part}.lora_A.default.weight"], state[f"{part}.lora_B.default.weight"]
        torch.testing.assert_close(merged[f"{part}.weight"], base[f"{part}.weight"] + 3 * (up @ down))


def test_an_adapter_is_not_merged_into_weights_in_bfloat16() -> None:
    engine = LocalEngine(adapted_model().bfloat16(), slots=2, max_length=40)
    assert engine.forward == "modules"
    assert "its adapter would be rounded off" in str(engine.forward_reason)


def test_the_hash_equals_that_of_the_merged_model() -> None:
    model, plain = adapted_model(), build_model()
    with torch.no_grad():
        plain.load_state_dict(dict(merged_state(model)))
    assert weights_hash(model) == weights_hash(plain) != weights_hash(build_model())
    fresh = build_model()
    fresh.add_adapter(peft.LoraConfig(r=2, target_modules=["q_proj"]))
    assert weights_hash(fresh) == weights_hash(build_model())  # B is 0


def test_adapters_with_equal_hash_are_distinguished() -> None:
    def identity(seed: int, rank: int) -> dict[str, str]:
        model = build_model()
        torch.manual_seed(seed)
        model.add_adapter(peft.LoraConfig(r=rank, lora_alpha=6, target_modules=["q_proj", "k_proj"]))
        return adapter_identity(model)

    first, same, other_seed, other_rank = identity(1, 2), identity(1, 2), identity(2, 2), identity(1, 3)
    assert first == same
    assert first["adapter"] == other_seed["adapter"] == "LoRA of rank 2 scaled by 3 on k_proj, q_proj"
    assert first["initial adapter"] != other_seed["initial adapter"]
    assert other_rank["adapter"] == "LoRA of rank 3 scaled by 2 on k_proj, q_proj"
    assert adapter_identity(build_model()) == {}


@pytest.mark.parametrize("options", [{"use_dora": True}, {"lora_bias": True, "bias": "none"}])
def test_adapters_that_are_not_plain_lora_are_not_merged(options: dict[str, Any]) -> None:
    """Its tensors are used unmerged, and the model's modules sample."""
    model = adapted_model(target_modules=["q_proj"], **options)
    assert lora_layers(model) == {}
    assert any("lora_A" in name for name, _ in merged_state(model))
    engine = LocalEngine(model, slots=2, max_length=24)
    assert engine.forward == "modules" and engine.forward_reason == "direct: it has Linear in place of Linear"


def test_the_direct_forward_pass_applies_the_adapter() -> None:
    model = adapted_model(target_modules="all-linear")
    assert largest_gap(DirectModel(model, 2, 24), model, 2, 24) < 1e-5
    base = DirectModel(build_model(), 1, 24)
    block = Block(np.array([0]), np.array([0]), np.array([3]), np.array([1, 2, 3]))
    with torch.inference_mode():
        gap = (base.forward([block]) - DirectModel(model, 1, 24).forward([block])).abs().max()
    assert gap > 0.01, "otherwise the small gap proves nothing"


def test_refresh_takes_an_updated_adapter() -> None:
    model = adapted_model()
    engine = LocalEngine(model, slots=2, max_length=24)
    assert engine.forward == "direct"
    before = engine.version
    with torch.no_grad():
        next(parameter for name, parameter in model.named_parameters() if "lora_B" in name).add_(0.5)
    engine.refresh()  # compares its logits with the model's
    assert engine.version == weights_hash(model) != before
