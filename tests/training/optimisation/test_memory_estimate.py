"""Memory of a step: worked by hand, and against what real steps take."""

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
from upturn.training.optimisation.memory_estimate import Memory, ModelShape, memory, shape_of

SMALL = ModelShape(
    parameters=1000, trained=100, layers=3, width=10, inner=20, key_value=4, vocabulary=50, context=64
)


def test_memory_of_a_small_model_worked_by_hand() -> None:
    """A layer keeps 9·10 + 2·4 + 4·20 = 178 numbers a token, and three layers 534."""
    found = memory(SMALL, micro_batch_tokens=7, written_tokens=5)
    assert found == Memory(
        weights=4 * 1000,
        optimiser=4 * 3 * 100,  # gradient and AdamW's two, of what is trained
        activations=4 * 7 * 534,
        head=4 * 5 * 50,
        cache=0,
    )
    assert found.total == 4000 + 1200 + 14952 + 1000


def test_checkpointing_keeps_layer_inputs_and_one_layers_activations() -> None:
    """3·10 at the layers' borders, 178 within one, and gradients of its 3·20 inner numbers."""
    found = memory(SMALL, micro_batch_tokens=7, written_tokens=5, is_checkpointed=True)
    assert found.activations == 4 * 7 * (30 + 178 + 60)
    assert found == replace(memory(SMALL, micro_batch_tokens=7, written_tokens=5), activations=4 * 7 * 268)


def test_a_copy_adds_weights_only() -> None:
    alone = memory(SMALL, micro_batch_tokens=7, written_tokens=5)
    assert memory(SMALL, micro_batch_tokens=7, written_tokens=5, copies=2) == replace(alone, weights=3 * 4000)


def test_keys_and_values_of_live_rollouts_count_in_every_layer() -> None:
    found = memory(SMALL, micro_batch_tokens=7, written_tokens=5, cached_tokens=11)
    assert found.cache == 4 * 2 * 3 * 4 * 11


def test_the_heads_memory_is_bounded() -> None:
    found = memory(replace(SMALL, vocabulary=1 << 20), micro_batch_tokens=1000, written_tokens=1000)
    assert found.head == 4 * (1 << 26)


def test_the_shape_is_read_from_the_model(tiny_model: Callable[..., PreTrainedModel]) -> None:
    model = tiny_model(layers=2, vocabulary=20)
    every = sum(each.numel() for each in model.parameters())
    assert shape_of(model) == ModelShape(
        parameters=every, trained=every, layers=2, width=32, inner=64, key_value=16, vocabulary=20, context=32
    )
    for each in model.model.layers[0].parameters():
        each.requires_grad_(False)
    frozen = sum(each.numel() for each in model.model.layers[0].parameters())
    assert shape_of(model).trained == every - frozen


def test_nanos_shape_matches_its_files() -> None:
    model = load_local(MODEL).model
    found = shape_of(model)
    assert found.parameters == found.trained == sum(each.numel() for each in model.parameters())
    assert found.layers == model.config.num_hidden_layers


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
    """Each in a process of its own, with an allocator that gives back what is freed."""
    sizes = map(str, (width, layers, inner, vocabulary, tokens, int(is_checkpointed)))
    given = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), *sizes], capture_output=True, text=True, check=True, env=given
    )
    found = json.loads(done.stdout)
    assert 2 / 3 < found["estimated"] / found["measured"] < 4 / 3, found
