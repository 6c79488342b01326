"""Memory of a step: estimates worked by hand, and compared with real steps."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import PreTrainedModel

from benchmarks.errands import MODEL
from upturn.models.shipped import load_local
from upturn.training.optimisation.memory_estimate import Memory, ModelShape, estimate_memory, model_shape

SMALL = ModelShape(
    parameters=1000, trained=100, layers=3, width=10, inner=20, key_value=4, vocabulary=50, context=64
)


def test_memory_of_a_small_model_worked_by_hand() -> None:
    """A layer keeps 9·10 + 2·4 + 4·20 = 178 numbers a token, and three layers 534."""
    estimate = estimate_memory(SMALL, micro_batch_tokens=7, written_tokens=5)
    assert estimate == Memory(
        weights=4 * 1000,
        optimiser=4 * 3 * 100,  # gradient and AdamW's two numbers, per trained parameter
        activations=4 * 7 * 534,
        head=4 * 5 * 50,
        cache=0,
    )
    assert estimate.total == 4000 + 1200 + 14952 + 1000


def test_checkpointing_keeps_layer_inputs_and_one_layers_activations() -> None:
    """3·10 layer inputs, 178 numbers within one layer, and gradients of its 3·20 inner numbers."""
    estimate = estimate_memory(SMALL, micro_batch_tokens=7, written_tokens=5, is_checkpointed=True)
    assert estimate.activations == 4 * 7 * (30 + 178 + 60)
    assert estimate == replace(
        estimate_memory(SMALL, micro_batch_tokens=7, written_tokens=5), activations=4 * 7 * 268
    )


def test_a_copy_adds_weights_only() -> None:
    without_copies = estimate_memory(SMALL, micro_batch_tokens=7, written_tokens=5)
    assert estimate_memory(SMALL, micro_batch_tokens=7, written_tokens=5, copies=2) == replace(
        without_copies, weights=3 * 4000
    )


def test_keys_and_values_of_live_rollouts_count_in_every_layer() -> None:
    estimate = estimate_memory(SMALL, micro_batch_tokens=7, written_tokens=5, cached_tokens=11)
    assert estimate.cache == 4 * 2 * 3 * 4 * 11


def test_the_heads_memory_is_bounded() -> None:
    estimate = estimate_memory(replace(SMALL, vocabulary=1 << 20), micro_batch_tokens=1000, written_tokens=1000)
    assert estimate.head == 4 * (1 << 26)


def test_the_shape_is_read_from_the_model(tiny_model: Callable[..., PreTrainedModel]) -> None:
    model = tiny_model(layers=2, vocabulary=20)
    total = sum(parameter.numel() for parameter in model.parameters())
    assert model_shape(model) == ModelShape(
        parameters=total, trained=total, layers=2, width=32, inner=64, key_value=16, vocabulary=20, context=32
    )
    for parameter in model.model.layers[0].parameters():
        parameter.requires_grad_(False)
    frozen = sum(parameter.numel() for parameter in model.model.layers[0].parameters())
    assert model_shape(model).trained == total - frozen


def test_nanos_shape_matches_its_files() -> None:
    model = load_local(MODEL).model
    shape = model_shape(model)
    assert shape.parameters == shape.trained == sum(parameter.numel() for parameter in model.parameters())
    assert shape.layers == model.config.num_hidden_layers


_PROGRAM = Path(__file__).with_name("toy_memory.py")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the highest resident memory can be reset on Linux only")
@pytest.mark.parametrize("is_checkpointed", [False, True])
@pytest.mark.parametrize(
    ("width", "layers", "inner", "vocabulary", "tokens"),
    [(128, 4, 256, 600, 8192), (256, 6, 1024, 2000, 4096), (384, 8, 1024, 8000, 2048)],
)
def test_a_real_step_uses_the_estimate_within_a_third(
    width: int, layers: int, inner: int, vocabulary: int, tokens: int, *, is_checkpointed: bool
) -> None:
    """Runs in a separate process, with an allocator that returns freed memory."""
    sizes = map(str, (width, layers, inner, vocabulary, tokens, int(is_checkpointed)))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    completed = subprocess.run(
        [sys.executable, str(_PROGRAM), *sizes], capture_output=True, text=True, check=True, env=environment
    )
    figures = json.loads(completed.stdout)
    assert 2 / 3 < figures["estimated"] / figures["measured"] < 4 / 3, figures
