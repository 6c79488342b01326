"""The tree-packed pass against the plain one, on models of several families."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from upturn.config import OptimiserSettings, Packing
from upturn.errors import TrainingError
from upturn.training import TrainingRow
from upturn.training.losses import ClippedPolicy
from upturn.training.optimisation.attention.tree_backends import Backend
from upturn.training.optimisation.batch import micro_batches
from upturn.training.optimisation.forward import ATTENTION, backends
from upturn.training.optimisation.trainer import StepMetrics, Trainer
from upturn.training.stream import Stream

NO_UPDATE = OptimiserSettings(learning_rate=1e-30, max_grad_norm=1e30)
SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 128,
}
FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE, tie_word_embeddings=True)),  # type: ignore[arg-type]
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=8)),  # type: ignore[arg-type]
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),  # type: ignore[arg-type]
}


def _model(family: str) -> PreTrainedModel:
    torch.manual_seed(0)
    return FAMILIES[family]()


def _rows(groups: int = 2, rollouts: int = 3) -> list[TrainingRow]:
    """Rollouts of two turns: a prompt of 24 tokens, an action, a result and another action."""
    rng = np.random.default_rng(3)
    rows = []
    for group in range(groups):
        prompt = rng.integers(0, 40, 24)
        shared_turn = rng.integers(0, 40, 20)
        for rollout in range(rollouts):
            # the first two rollouts also share their first turn
            first = shared_turn if rollout < 2 else rng.integers(0, 40, 15)
            tokens = np.concatenate([prompt, first, rng.integers(0, 40, int(rng.integers(3, 9)))])
            positions = np.array([24, 25, 26, *range(24 + len(first), len(tokens))])
            rows.append(
                TrainingRow(
                    f"{group}/{rollout}",
                    tokens.astype(np.int64),
                    positions,
                    rng.standard_normal(len(positions)).astype(np.float32),
                    (-3.7 + 0.3 * rng.standard_normal(len(positions))).astype(np.float32),
                )
            )
    return rows


def _step(
    model: PreTrainedModel, rows: Sequence[TrainingRow], packing: Packing, **changes: object
) -> tuple[StepMetrics, Tensor, Trainer]:
    trainer = Trainer(model, replace(NO_UPDATE, packing=packing, **changes))  # type: ignore[arg-type]
    metrics = trainer.step([Stream(rows, ClippedPolicy(0.2, 0.28), 17.0)])
    gradient = torch.cat(
        [parameter.grad.reshape(-1) for parameter in model.parameters() if parameter.grad is not None]
    )
    return metrics, gradient, trainer


def _relative_error(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [1, 90, 10_000])
def test_tree_and_padded_pass_have_the_same_gradient(family: str, budget: int) -> None:
    rows = _rows()
    padded, expected, _ = _step(_model(family), rows, "padded")
    tree, actual, trainer = _step(_model(family), rows, "tree", micro_batch_tokens=budget)
    assert _relative_error(actual, expected) < 1e-5
    assert tree.loss == pytest.approx(padded.loss, rel=1e-5)
    assert tree.sums["ratio"] == pytest.approx(padded.sums["ratio"], rel=1e-5)
    assert tree.fallbacks == 0
    assert trainer.forward.verification is not None
    assert trainer.forward.verification.logprob_gap == tree.verify_gap < 1e-5
    assert tree.needed_tokens == padded.needed_tokens == sum(row.computed_length for row in rows)
    assert tree.logical_tokens == sum(len(row.token_ids) for row in rows)
    if budget == 10_000:
        # per group: 24 prompt tokens, one shared first turn of 20, one of 15, and the later tokens but the last
        unshared = sum(row.computed_length - 24 for row in rows) - 2 * 20
        assert tree.physical_tokens == 2 * 24 + unshared


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft calls what transformers has renamed
@pytest.mark.parametrize("targets", [["q_proj", "v_proj"], "all-linear"])
def test_models_with_adapters_share_too_and_train_the_adapter_only(targets: list[str] | str) -> None:
    def adapted_model() -> PreTrainedModel:
        torch.manual_seed(1)
        config = LoraConfig(r=4, target_modules=targets, lora_dropout=0.0, init_lora_weights=False)
        return cast(PreTrainedModel, get_peft_model(_model("qwen2"), config))

    rows = _rows()
    padded, expected, trainer = _step(adapted_model(), rows, "padded")
    tree, actual, _ = _step(adapted_model(), rows, "tree")
    assert len(trainer.parameters) == sum("lora" in name for name, _ in trainer.model.named_parameters())
    assert tree.fallbacks == 0
    assert tree.physical_tokens < padded.physical_tokens
    assert _relative_error(actual, expected) < 1e-5


def test_checkpointed_activations_give_the_same_gradient() -> None:
    rows = _rows()
    _, expected, _ = _step(_model("qwen2"), rows, "tree")
    model = _model("qwen2")
    calls: list[int] = []
    model.get_submodule("model.layers.0.mlp").register_forward_hook(lambda *_: calls.append(1))
    _, actual, _ = _step(model, rows, "tree", gradient_checkpointing="full")
    assert _relative_error(actual, expected) < 1e-6
    assert len(calls) > 2  # verification, forward pass, and recomputation in the backward pass


def test_the_last_layer_computes_only_predicting_positions() -> None:
    model, rows = _model("qwen2"), _rows()
    lengths: dict[str, list[int]] = {}

    def record(name: str) -> Callable[..., None]:
        return lambda _module, inputs, _output: lengths.setdefault(name, []).append(inputs[0].shape[1])

    for name in ("0", "1"):
        model.get_submodule(f"model.layers.{name}.mlp.gate_proj").register_forward_hook(record(name))
    metrics, _, _ = _step(model, rows, "tree")
    (batch,) = micro_batches(rows, 10_000, "tree")
    assert lengths["0"][-1] == metrics.physical_tokens
    assert lengths["1"][-1] == len(set(batch.predictors.tolist())) < metrics.physical_tokens
    assert "forward" not in model.get_submodule("model.layers.1.mlp").__dict__


def test_bfloat16_stays_close_and_shares_too() -> None:
    rows = _rows()
    exact, expected, _ = _step(_model("qwen2"), rows, "tree")
    rough, actual, _ = _step(_model("qwen2"), rows, "tree", precision="bfloat16")
    assert rough.fallbacks == 0
    assert rough.physical_tokens == exact.physical_tokens
    assert _relative_error(actual, expected) < 0.05
    assert actual.dtype == torch.float32


def test_the_model_is_unchanged() -> None:
    model = _model("qwen2")
    before = model.config._attn_implementation
    _step(model, _rows(), "tree")
    assert model.config._attn_implementation == before
    ids = torch.tensor([[1, 2, 3]])
    assert model(ids).logits.isfinite().all()


def test_scores_equal_the_models_in_row_order() -> None:
    model, rows = _model("llama"), _rows()
    scores = Trainer(model, replace(NO_UPDATE, micro_batch_tokens=60)).score(rows)
    for row, score in zip(rows, scores, strict=True):
        with torch.no_grad():
            logits = model(torch.from_numpy(row.token_ids)[None]).logits[0].log_softmax(-1)
        expected = [float(logits[p - 1, row.token_ids[p]]) for p in row.positions.tolist()]
        assert score.tolist() == pytest.approx(expected, abs=1e-5)


def test_a_model_with_a_sliding_window_falls_back_with_a_warning_and_a_count() -> None:
    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=8))  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="each row separately .* it attends to a window of 8 tokens only"):
        metrics, actual, _ = _step(model, _rows(), "tree")
    assert metrics.fallbacks == 1
    assert metrics.physical_tokens >= metrics.needed_tokens
    torch.manual_seed(0)
    same_model = MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=8))  # type: ignore[arg-type]
    padded, expected, _ = _step(same_model, _rows(), "padded")
    assert padded.fallbacks == 0
    torch.testing.assert_close(actual, expected)


def test_short_rows_share_prefixes_again_after_rows_beyond_the_window() -> None:
    """How a batch is computed depends on the batch alone, so a resumed run computes it in the same way."""
    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=50))  # type: ignore[arg-type]
    trainer = Trainer(model, NO_UPDATE)
    rows = _rows()
    short = [row for row in rows if row.computed_length <= 50]
    assert 1 < len(short) < len(rows)
    with pytest.warns(UserWarning, match="it attends to a window of 50 tokens only"):
        steps = [
            trainer.step([Stream(step_rows, ClippedPolicy(0.2, 0.28), 1.0)])
            for step_rows in (short, rows, short, rows)
        ]
    assert [step.fallbacks for step in steps] == [0, 1, 0, 1]


def test_every_backend_in_use_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large batches and a small last one use different backends."""
    rows = _rows(groups=3)
    sizes = [batch.input_ids.size for batch in micro_batches(rows, 150, "tree")]
    assert len(sizes) > 1
    assert min(sizes) < max(sizes)
    backends_by_size = {True: ("by_node",), False: ("streamed", "by_node")}
    monkeypatch.setattr(
        "upturn.training.optimisation.forward.backends",
        lambda _device, tokens, *_, **__: backends_by_size[tokens == max(sizes)],
    )
    trainer = Trainer(_model("qwen2"), replace(NO_UPDATE, micro_batch_tokens=150))
    checked: list[str] = []
    compare = trainer.forward._difference

    def recorded(sample: Sequence[TrainingRow], backend: Backend) -> str | None:
        checked.append(backend)
        return compare(sample, backend)

    monkeypatch.setattr(trainer.forward, "_difference", recorded)
    trainer.step([Stream(rows, ClippedPolicy(0.2, 0.28), 17.0)])
    assert sorted(checked) == ["by_node", "streamed"]


def _recurrent() -> PreTrainedModel:
    torch.manual_seed(0)
    return MambaForCausalLM(MambaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, state_size=4))


def test_a_recurrent_model_is_computed_row_by_row() -> None:
    """ART PR 666: in packed rows the state of one rollout leaked into the next one."""
    rows = _rows()
    with pytest.warns(UserWarning, match="a layer of type 'linear_attention' carries information"):
        metrics, actual, _ = _step(_recurrent(), rows, "tree")
    model, total = _recurrent(), torch.zeros(())
    for row in rows:
        logits = model(torch.from_numpy(row.token_ids[: row.computed_length])[None]).logits[0].log_softmax(-1)
        assert row.old_logprobs is not None
        chosen = logits[row.positions - 1, row.token_ids[row.positions]]
        ratios = (chosen - torch.from_numpy(row.old_logprobs)).exp()
        weights = torch.from_numpy(row.weights)
        total = total - torch.minimum(ratios * weights, ratios.clamp(0.8, 1.28) * weights).sum() / 17.0
    expected = torch.cat(
        [gradient.reshape(-1) for gradient in torch.autograd.grad(total, list(model.parameters()))]
    )
    assert metrics.fallbacks == 1
    assert _relative_error(actual, expected) < 1e-5


def test_an_undeclared_recurrent_model_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upturn.training.optimisation.forward.tree_unsupported_reason", lambda *_: None)
    with pytest.warns(UserWarning, match="tree and padded pass differ by"):
        metrics, actual, _ = _step(_recurrent(), _rows(), "tree")
    _, expected, _ = _step(_recurrent(), _rows(), "padded")
    assert metrics.fallbacks == 1
    torch.testing.assert_close(actual, expected)


def test_a_wrong_tree_pass_is_detected_before_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a library replaced the shared-prefix mask by a plain causal one (ART PR 666)."""

    def plainly_causal(
        _module: object, query: Tensor, key: Tensor, value: Tensor, *_: object, **__: object
    ) -> object:
        sdpa = nn.functional.scaled_dot_product_attention
        return sdpa(query, key, value, is_causal=True, enable_gqa=True).transpose(1, 2), None

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, ATTENTION, plainly_causal)
    rows = _rows()
    with pytest.warns(UserWarning, match="differ by .* in log-probs"):
        metrics, actual, trainer = _step(_model("qwen2"), rows, "tree")
    _, expected, _ = _step(_model("qwen2"), rows, "padded")
    assert metrics.fallbacks == 1
    torch.testing.assert_close(actual, expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # only the first warning is given
        assert trainer.step([Stream(rows, ClippedPolicy(0.2, 0.28), 17.0)]).fallbacks == 1


def test_a_failing_backend_is_replaced_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention has no backward pass on a CPU, so it fails here."""
    monkeypatch.setattr("upturn.training.optimisation.forward.backends", lambda *_, **__: ("flex", "by_node"))
    rows = _rows()
    with (
        pytest.warns(
            UserWarning, match="attention by 'flex' is not used: the tree pass failed: NotImplementedError"
        ),
    ):
        metrics, actual, _ = _step(_model("qwen2"), rows, "tree")
    _, expected, _ = _step(_model("qwen2"), rows, "padded")
    assert metrics.fallbacks == 0
    assert metrics.physical_tokens < metrics.needed_tokens
    assert _relative_error(actual, expected) < 1e-5


def test_backends_depend_on_the_device() -> None:
    assert backends("cpu", 10) == ("streamed", "by_node")
    assert backends("cpu", 10, is_chain=True) == ("by_node", "streamed")
    assert backends("cuda", 2048) == ("by_node",)
    assert backends("cuda", 2049) == ("flex", "by_node")
    assert backends("cuda", 2049, is_chain=True) == ("by_node",)
    assert backends("cuda", 2048, is_half=True) == ("flash", "by_node")
    assert backends("cuda", 2049, is_half=True) == ("flash", "flex", "by_node")
    assert backends("cuda", 2049, is_chain=True, is_half=True) == ("by_node",)
    assert backends("mps", 5000) == ("by_node",)


def test_a_model_that_drops_the_tree_argument_falls_back() -> None:
    model = _model("qwen2")
    backbone = model.get_decoder()
    forward = backbone.forward

    def closed(upturn_tree: object = None, **arguments: object) -> object:
        return forward(**arguments)

    backbone.forward = closed
    with pytest.warns(UserWarning, match="the tree pass failed: KeyError: 'upturn_tree'"):
        metrics, _, _ = _step(model, _rows(), "tree")
    assert metrics.fallbacks == 1


def test_rows_without_common_prefixes_need_no_fallback() -> None:
    rows = [row for row in _rows(groups=4, rollouts=1)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics, _, _ = _step(_model("qwen2"), rows, "tree")
    assert metrics.physical_tokens == metrics.needed_tokens


def test_rows_with_common_prefixes_are_verified_after_rows_without() -> None:
    trainer = Trainer(_model("qwen2"), NO_UPDATE)
    alone, together = _rows(groups=3, rollouts=1), _rows(groups=1)
    trainer.step([Stream(alone, ClippedPolicy(0.2, 0.28), 1.0)])
    first = trainer.forward.verification
    trainer.step([Stream(together, ClippedPolicy(0.2, 0.28), 1.0)])
    second = trainer.forward.verification
    trainer.step([Stream(together, ClippedPolicy(0.2, 0.28), 1.0)])
    assert first is not None and second is not None
    assert second is not first
    assert trainer.forward.verification is second


def test_no_rows_give_no_batches() -> None:
    assert Trainer(_model("qwen2"), NO_UPDATE).forward.batches([], 100) == ()


def test_a_row_longer_than_the_context_is_refused() -> None:
    row = TrainingRow("a", np.zeros(140, dtype=np.int64), np.array([130]), np.ones(1, dtype=np.float32), None)
    with pytest.raises(TrainingError, match="needs 130 tokens of context, the model has 128"):
        Trainer(_model("qwen2"), NO_UPDATE).forward.batches([row], 100)
