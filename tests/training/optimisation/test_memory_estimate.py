"""Memory of a step: estimates worked by hand, and compared with real steps."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config

from benchmarks.errands import MODEL
from benchmarks.machine.allocation import peak_allocation
from upturn.config import OptimiserSettings
from upturn.models.shipped import load_local
from upturn.training.optimisation.memory_estimate import (
    Load,
    Memory,
    ModelShape,
    configured_shape,
    estimate_memory,
    memory_choices,
    model_shape,
)

SMALL = ModelShape(
    parameters=10_000, trained=10_000, layers=3, width=10, inner=20, key_value=4, vocabulary=50, context=64
)
PLAIN = OptimiserSettings(micro_batch_tokens=8)
SHORT = replace(PLAIN, precision="bfloat16_weights")
LOAD = Load(written_tokens=4)


@pytest.fixture
def toy_memory(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``toy_memory.py``: models and real steps whose memory is measured."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("toy_memory")


def test_memory_of_a_small_model_worked_by_hand() -> None:
    """The query width follows from 9,000 weights in layers: 3,000 = 10 · (2 q + 2 · 4 + 3 · 20), q = 116.

    A layer keeps 32 · 10 + 8 · 4 + 8 · 106 + 16 · 20 bytes a token, the last one half of the inner part.
    """
    assert SMALL.query == 116
    attention = 320 + 32 + 848
    layers = 2 * (attention + 320) + attention + 160
    assert estimate_memory(SMALL, PLAIN, LOAD) == Memory(
        weights=40_000,
        copies=0,
        optimiser=80_000,
        gradients=40_000,
        activations=8 * (layers + 20 * 10 + 8 * 10),
        head=4 * 4 * 50 + 4 * 50 * 10,
        cache=0,
    )


def test_the_peak_has_either_all_activations_or_all_gradients() -> None:
    memory = Memory(1, 2, 4, 100, 40, 50, 8)
    assert memory.total == 15 + 100
    assert replace(memory, head=70).total == 15 + 110


@pytest.mark.parametrize(
    ("changed", "optimiser", "gradients"),
    [
        ({}, 8, 4.0),
        ({"moments": "8bit"}, 2 + 1 / 32, 4.0),
        ({"precision": "bfloat16_weights"}, 12, 4 + 2 * 500 / 10_000),
        ({"precision": "bfloat16_weights", "rounding": "stochastic"}, 8, 4 + 12 * 500 / 10_000),
        ({"offload": True}, 0, 8 * 500 / 10_000),
    ],
)
def test_bytes_of_optimiser_and_gradients_per_weight(
    changed: Mapping[str, Any], optimiser: float, gradients: float
) -> None:
    memory = estimate_memory(SMALL, replace(PLAIN, **changed), LOAD)
    assert (memory.optimiser, memory.gradients) == (round(10_000 * optimiser), round(10_000 * gradients))


def test_copies_are_of_what_has_to_be_copied() -> None:
    """The engine shares embedding and output layer; in bfloat16 all but queries, keys and values; all for an
    adapter."""
    full = LOAD._replace(references=1, has_best=True, is_sampled=True)
    assert estimate_memory(SMALL, PLAIN, full).copies == 4 * 9_000 + 4 * 10_000 + 4 * 10_000
    assert estimate_memory(SMALL, SHORT, full).copies == 2 * 3 * 10 * (116 + 8) + 2 * 10_000 + 2 * 10_000
    adapted = SMALL.with_rank(2)
    assert adapted.trained == 3 * 2 * (2 * (10 + 116) + 2 * (10 + 4) + 3 * (10 + 20))
    assert estimate_memory(adapted, SHORT, full).copies == 2 * adapted.trained
    assert adapted.with_rank(0) == SMALL


def test_four_bits_are_for_the_layers_of_an_adapters_base() -> None:
    adapted = SMALL.with_rank(2)
    weights = estimate_memory(adapted, SHORT, LOAD, base="nf4").weights
    assert weights == round(2 * (1_000 + adapted.trained) + 9_000 * (0.5 + 1 / 64 + 1 / 4096))


def test_keys_and_values_of_live_rollouts_count_in_every_layer() -> None:
    load = LOAD._replace(cached_tokens=11, reserved_tokens=100)
    assert estimate_memory(SMALL, PLAIN, load).cache == 4 * 2 * 3 * 4 * 11
    assert estimate_memory(SMALL, SHORT, load).cache == 2 * 2 * 3 * 4 * 11
    assert estimate_memory(SMALL.with_rank(2), SHORT, load).cache == 2 * 2 * 3 * 4 * 100


def test_the_heads_memory_is_bounded() -> None:
    large = replace(SMALL, vocabulary=1 << 20, is_tied=True, parameters=1 << 25)
    weights, kept = 10 << 20, 1 << 26
    assert estimate_memory(large, PLAIN, Load(1000)).head == 4 * (kept + (8 << 23)) + 4 * weights
    assert estimate_memory(large, PLAIN, Load(1000, is_cpu=True)).head == 4 * (kept + (1 << 23)) + 4 * weights
    assert estimate_memory(large, SHORT, Load(1000)).head == 4 * (kept + (8 << 23)) + 2 * (8 << 23) + 6 * weights


@pytest.mark.parametrize(
    ("precision", "recomputed", "measured"),
    [
        ("bfloat16", "none", 29.54e9),
        ("bfloat16", "full", 11.11e9),
        ("bfloat16_weights", "none", 26.97e9),
        ("bfloat16_weights", "full", 11.65e9),
    ],
)
def test_steps_that_ran_on_a_gpu_used_the_estimate_within_15_percent(
    precision: Any, recomputed: Any, measured: float
) -> None:
    """The update of ``benchmarks update --only gpu`` on an NVIDIA H200: torch's peak of allocated memory."""
    qwen = ModelShape(494_032_768, 494_032_768, 24, 896, 4864, 128, 151_936, 8192, is_tied=True)
    settings = replace(PLAIN, precision=precision, gradient_checkpointing=recomputed, micro_batch_tokens=12_095)
    assert estimate_memory(qwen, settings, Load(1584)).total == pytest.approx(measured, rel=0.15)


def test_choices_are_estimates_with_other_settings() -> None:
    choices = memory_choices(SMALL, replace(SHORT, gradient_checkpointing="full"), LOAD, rank=2)
    assert choices["float32"] == estimate_memory(SMALL, PLAIN, LOAD)
    recomputed = replace(SHORT, gradient_checkpointing="full")
    assert choices["lora nf4 recomputed"] == estimate_memory(SMALL.with_rank(2), recomputed, LOAD, base="nf4")
    assert len(choices) == 12


def test_the_shape_is_read_from_the_model(tiny_model: Callable[..., PreTrainedModel]) -> None:
    model = tiny_model(layers=2, vocabulary=20)
    total = sum(parameter.numel() for parameter in model.parameters())
    assert model_shape(model) == ModelShape(
        parameters=total,
        trained=total,
        layers=2,
        width=32,
        inner=64,
        key_value=16,
        vocabulary=20,
        context=32,
        is_tied=bool(model.config.tie_word_embeddings),
    )
    for parameter in model.model.layers[0].parameters():
        parameter.requires_grad_(False)
    frozen = sum(parameter.numel() for parameter in model.model.layers[0].parameters())
    assert model_shape(model).trained == total - frozen


def test_a_configuration_alone_gives_the_models_shape() -> None:
    model = load_local(MODEL).model
    assert configured_shape(model.config) == model_shape(model)
    large = Qwen2Config(  # Qwen2.5-7B, with 7,615,616,512 parameters
        vocab_size=152_064,
        hidden_size=3584,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        intermediate_size=18_944,
        tie_word_embeddings=False,
    )
    shape = configured_shape(large)
    assert shape.parameters == 7_615_616_512
    assert shape.query == pytest.approx(3584, rel=0.002)


def test_allocations_are_counted_to_the_byte() -> None:
    def run() -> torch.Tensor:
        first = torch.zeros(1000, dtype=torch.float64)
        second = torch.zeros(500, dtype=torch.float32)
        del first
        return torch.cat([second, second])

    assert peak_allocation(run) == 8000 + 2000


BFLOAT16 = OptimiserSettings(precision="bfloat16_weights")
REAL: dict[str, tuple[OptimiserSettings, dict[str, Any]]] = {
    "float32": (OptimiserSettings(), {}),
    "autocast": (OptimiserSettings(precision="bfloat16"), {}),
    "bfloat16": (BFLOAT16, {"dtype": torch.bfloat16}),
    "stochastic 8bit": (replace(BFLOAT16, rounding="stochastic", moments="8bit"), {"dtype": torch.bfloat16}),
    "lora": (OptimiserSettings(), {"rank": 8}),
    "lora autocast": (OptimiserSettings(precision="bfloat16"), {"rank": 8}),
    "lora bfloat16": (BFLOAT16, {"dtype": torch.bfloat16, "rank": 8}),
    "lora nf4": (BFLOAT16, {"dtype": torch.bfloat16, "rank": 8, "is_quantised": True}),
}
QUICK = [("float32", "none"), ("bfloat16", "half"), ("lora bfloat16", "full")]
SIZES = {"width": 256, "layers": 4, "inner": 768, "vocabulary": 2000}


@pytest.mark.parametrize(
    ("name", "recomputed"),
    [
        pytest.param(name, recomputed, marks=[] if (name, recomputed) in QUICK else pytest.mark.slow)
        for name in REAL
        for recomputed in ("none", "half", "full")
    ],
)
def test_a_real_step_uses_the_estimate_within_15_percent(
    toy_memory: ModuleType, name: str, recomputed: Any
) -> None:
    settings, kind = REAL[name]
    if kind.get("rank"):
        pytest.importorskip("peft")
    if "8bit" in name or "nf4" in name:
        pytest.importorskip("bitsandbytes")
    tokens = 1024
    settings = replace(settings, gradient_checkpointing=recomputed, micro_batch_tokens=tokens)
    measured = toy_memory.step_peak(tokens, settings, **SIZES, **kind)
    load = Load(tokens * toy_memory.WRITTEN // toy_memory.LONG, is_cpu=True)
    shape = model_shape(toy_memory.build(**SIZES, **kind))
    estimated = estimate_memory(shape, settings, load, base="nf4" if kind.get("is_quantised") else "full").total
    assert estimated == pytest.approx(measured, rel=0.15)
