"""The direct forward pass, compared with the model's for each way in which tokens reach a slot."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests.architectures import build
from upturn.models.engine.attention import attend, attend_small
from upturn.models.engine.backend import Backend, Block
from upturn.models.engine.decoder import Decoder, unsupported_reason
from upturn.models.engine.direct import DirectModel
from upturn.models.engine.fallback import FallbackModel, Reuse
from upturn.models.engine.modules import ModuleModel
from upturn.models.engine.recurrent import RecurrentModel

SIZES: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}

MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "qwen2, tied": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, num_key_value_heads=2, tie_word_embeddings=True)),
    "qwen2, untied, one key-value head": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, num_key_value_heads=1)),
    "qwen3, wide heads": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=16)),
    "llama, all heads": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=4)),
    "llama with biases": lambda: LlamaForCausalLM(
        LlamaConfig(**SIZES, num_key_value_heads=2, attention_bias=True, mlp_bias=True)
    ),
    "llama, linear rotation": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LINEAR)),
    "llama, llama3 rotation": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LLAMA3)),
    "llama, yarn rotation": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=YARN)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=None)),
    "mistral, windowed": lambda: MistralForCausalLM(
        MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=8)
    ),
    "qwen3, one windowed layer": lambda: Qwen3ForCausalLM(
        Qwen3Config(
            **SIZES,
            num_key_value_heads=2,
            use_sliding_window=True,
            sliding_window=11,
            layer_types=["full_attention", "sliding_attention"],
        )
    ),
}


def build_model(kind: str) -> PreTrainedModel:
    """A model without neutral weights, also in norms and biases."""
    torch.manual_seed(1)
    model: PreTrainedModel = MODELS[kind]().requires_grad_(False).eval()
    for parameter in model.parameters():
        parameter.mul_(3.0 if parameter.dim() > 1 else 1.0).add_(torch.randn_like(parameter), alpha=0.05)
    return model


def plain_logits(model: PreTrainedModel, ids: Sequence[int]) -> torch.Tensor:
    output: torch.Tensor = cast(Any, model)(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0, -1]
    return output


class Slots:
    """A backend and the expected contents of its slots; every pass is compared with the model's plain one."""

    def __init__(self, model: PreTrainedModel, backend: Backend, slots: int) -> None:
        self.model, self.backend = model, backend
        self.tokens: list[list[int]] = [[] for _ in range(slots)]
        self.largest_gap = 0.0

    def run(self, *blocks: dict[int, Sequence[int]]) -> None:
        passes = []
        for block in blocks:
            slots = np.array(list(block))
            starts = np.array([len(self.tokens[slot]) for slot in block])
            counts = np.array([len(tokens) for tokens in block.values()])
            passes.append(
                Block(slots, starts, counts, np.concatenate([np.array(tokens) for tokens in block.values()]))
            )
        with torch.inference_mode():
            logits = self.backend.forward(passes)
            row = 0
            for block in blocks:
                for slot, tokens in block.items():
                    self.tokens[slot] += tokens
                    expected = plain_logits(self.model, self.tokens[slot]).log_softmax(-1)
                    gap = float((logits[row].log_softmax(-1) - expected).abs().max())
                    self.largest_gap = max(self.largest_gap, gap)
                    row += 1
        assert row == len(logits)

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        with torch.inference_mode():
            self.backend.copy(source, targets, length)
        for target in targets:
            self.tokens[target] = self.tokens[source][:length]

    def cut(self, slot: int, length: int) -> None:
        self.backend.cut(slot, length)
        del self.tokens[slot][length:]


def ids(seed: int, count: int) -> list[int]:
    tokens: list[int] = np.random.default_rng(seed).integers(0, 61, count).tolist()
    return tokens


def exercise(slots: Slots) -> None:
    """Every operation: first and later prompts of unequal length, decoding, sharing, sharing again, cutting."""
    slots.run({0: ids(0, 20), 2: ids(1, 7), 5: ids(2, 31)})
    slots.run({0: [3], 2: [4], 5: [5]})
    slots.copy(0, [1, 3], 20)  # a shared prefix; the source has one more token
    slots.run({0: [1], 1: [2], 2: [3], 3: [4], 5: [6]})
    slots.run({0: [7], 3: [8]}, {1: ids(3, 9), 2: ids(4, 9)}, {5: ids(5, 4)})
    slots.copy(1, [4], 30)  # longer than the source's shared prefix
    slots.copy(2, [6], 5)  # too short to be shared
    slots.copy(3, [7], 12)  # a part of the shared prefix
    slots.run({slot: [slot + 1] for slot in range(8)})
    slots.cut(1, 11)
    slots.cut(5, 0)
    slots.run({0: ids(6, 5), 1: ids(7, 6), 5: ids(8, 2), 7: ids(9, 3)}, {2: [1], 4: [2], 6: [3]})
    slots.run({slot: [slot] for slot in (1, 4, 6, 7)})
    slots.run({7: [9]})
    slots.copy(0, [1, 2, 3, 4, 5, 6, 7], len(slots.tokens[0]))
    slots.run({slot: [slot] for slot in range(8)})
    slots.run({slot: ids(slot, 3 + slot) for slot in range(8)})
    slots.run({slot: [slot] for slot in range(8)})


@pytest.fixture
def set_min_shared(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the minimum length of a shared prefix: the contexts here are short."""
    return lambda tokens: monkeypatch.setattr("upturn.models.engine.direct._MIN_SHARED", tokens)


@pytest.mark.parametrize("min_shared", [16, 128])
@pytest.mark.parametrize("kind", MODELS)
def test_logprobs_equal_the_models_forward_pass(
    kind: str, min_shared: int, set_min_shared: Callable[[int], None]
) -> None:
    set_min_shared(min_shared)
    model = build_model(kind)
    assert unsupported_reason(model) is None
    slots = Slots(model, DirectModel(model, 8, 100), 8)
    exercise(slots)
    assert slots.largest_gap < 1e-5, f"log-probs are off by {slots.largest_gap}"


@pytest.mark.parametrize("kind", ["qwen2, tied", "mistral, windowed"])
def test_the_modules_backend_gives_the_same_logprobs(kind: str) -> None:
    model = build_model(kind)
    slots = Slots(model, ModuleModel(model, 8, 100), 8)
    exercise(slots)
    assert slots.largest_gap < 1e-5, f"log-probs are off by {slots.largest_gap}"


@pytest.mark.parametrize(
    ("name", "by_many"), [("Qwen3-Next", True), ("LFM2", True), ("Falcon-H1", False), ("Mamba", False)]
)
def test_states_are_those_after_each_slots_tokens(name: str, by_many: bool) -> None:
    model = build(name).requires_grad_(False)
    slots = Slots(model, RecurrentModel(model, 8, 100, is_continued_by_many=by_many), 8)
    exercise(slots)
    assert slots.largest_gap < 1e-4, f"log-probs are off by {slots.largest_gap}"


@pytest.mark.parametrize(
    ("name", "reuse"),
    [("Gemma 3", "any"), ("Qwen3-Next", "any"), ("Mamba", "one"), ("BLOOM", "any"), ("RWKV", "none")],
)
def test_the_fallback_gives_the_same_logprobs(name: str, reuse: Reuse) -> None:
    model = build(name).requires_grad_(False)
    slots = Slots(model, FallbackModel(model, 8, reuse), 8)
    exercise(slots)
    assert slots.largest_gap < 1e-4, f"log-probs are off by {slots.largest_gap}"


def test_shared_keys_are_stored_once(set_min_shared: Callable[[int], None]) -> None:
    set_min_shared(16)
    model = build_model("qwen2, tied")
    direct = DirectModel(model, 8, 100)
    slots = Slots(model, direct, 8)
    slots.run({0: ids(0, 60)})
    slots.copy(0, list(range(1, 8)), 60)
    shared, unshared = direct.stored_columns()
    assert (shared, unshared) == (60, 0)
    slots.run({slot: [slot] for slot in range(8)})
    assert direct.stored_columns() == (60, 8)


def test_cutting_a_slot_keeps_its_shared_row_for_others_and_unused_rows_are_reused(
    set_min_shared: Callable[[int], None],
) -> None:
    set_min_shared(16)
    model = build_model("qwen2, tied")
    direct = DirectModel(model, 2, 100)
    slots = Slots(model, direct, 2)
    for round_ in range(5):
        slots.run({0: ids(round_, 30)})
        slots.copy(0, [1], 30)
        slots.cut(0, 0)
        slots.run({1: ids(9, 2)})
        assert direct.stored_columns() == (30, 2)
        slots.cut(1, 0)
    assert slots.largest_gap < 1e-5


def test_scattered_rows_are_gathered_and_keep_their_contents() -> None:
    model = build_model("qwen2, tied")
    slots = Slots(model, DirectModel(model, 24, 60), 24)
    slots.run({slot: ids(slot, 4 + slot) for slot in range(24)})
    for alive in ((3, 20, 22, 23), (5, 6, 23), (0, 21), (7, 8), (23, 1, 12), tuple(range(24))):
        slots.run({slot: [slot] for slot in alive})
        slots.run({slot: [9] for slot in alive[1:]}, {alive[0]: ids(1, 3)})
    slots.copy(23, [0, 2], 9)
    slots.run({slot: [slot] for slot in range(0, 24, 5)})
    slots.run({2: [1], 23: [2]})
    assert slots.largest_gap < 1e-5


def test_copied_weights_do_not_change_until_refresh() -> None:
    """Those of the layers; embedding and output layer are the model's own tensors."""
    model: Any = build_model("qwen3, wide heads")
    direct = DirectModel(model, 2, 50)
    slots = Slots(model, direct, 2)
    prompt = Block(np.array([0]), np.array([0]), np.array([9]), np.array(ids(0, 9)))
    with torch.inference_mode():
        before = direct.forward([prompt]).clone()
    for parameter in model.get_decoder().layers.parameters():
        parameter.mul_(0.9)
    direct.cut(0, 0)
    with torch.inference_mode():
        assert torch.equal(direct.forward([prompt]), before)
    direct.refresh()
    slots.run({0: ids(0, 9)})
    assert slots.largest_gap < 1e-5
    embedding = direct._decoder._weights.embedding
    assert embedding.data_ptr() == model.get_input_embeddings().weight.data_ptr()


@pytest.mark.parametrize("columns", [11, 240, 241, 700])  # numpy multiplies 240 columns at a time
def test_small_and_large_attention_equal_the_plain_formula(columns: int) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 4, 5, 8), torch.randn(3, 4, columns, 8), torch.randn(3, 4, columns, 8)
    hidden = torch.tensor([columns, 4, 1])[:, None, None, None] <= torch.arange(columns)
    mask = torch.zeros(3, 1, 1, columns).masked_fill(hidden, -torch.inf)
    scores = query @ key.transpose(2, 3) / 8**0.5 + mask
    for function in (attend, attend_small):
        part = function(query, key, value, mask=mask)
        torch.testing.assert_close(part.output, scores.softmax(-1) @ value)
        torch.testing.assert_close(part.lse, scores.logsumexp(-1))
    causal = attend(query, key[:, :, :5], value[:, :, :5], is_causal=True)
    scores = (query @ key[:, :, :5].transpose(2, 3) / 8**0.5).masked_fill(
        torch.ones(5, 5).triu(1).bool(), -torch.inf
    )
    torch.testing.assert_close(causal.output, scores.softmax(-1) @ value[:, :, :5])


def test_in_bfloat16_all_weights_but_those_of_queries_keys_and_values_are_shared() -> None:
    model = LlamaForCausalLM(LlamaConfig(**SIZES)).bfloat16()
    decoder = Decoder(model, 64)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    copied = [
        name
        for name, tensor in decoder._weights.layers[0]._asdict().items()
        if tensor is not None and tensor.untyped_storage().data_ptr() not in own
    ]
    assert copied == ["qkv"]


def test_unsupported_models_are_named_with_the_reason() -> None:
    dynamic = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    gelu = LlamaForCausalLM(LlamaConfig(**SIZES, hidden_act="gelu"))
    turning = LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=dynamic))
    half = LlamaForCausalLM(LlamaConfig(**SIZES)).half()
    wrapped = LlamaForCausalLM(LlamaConfig(**SIZES))
    wrapped.model.layers[1].self_attn.v_proj = torch.nn.Sequential(wrapped.model.layers[1].self_attn.v_proj)
    for model, reason in (
        (gelu, "its activation is 'gelu'"),
        (turning, "its rotary type is 'dynamic'"),
        (half, "its weights are torch.float16, not torch.float32 or torch.bfloat16"),
        (wrapped, "it has Sequential in place of Linear"),
    ):
        assert reason in str(unsupported_reason(model))
