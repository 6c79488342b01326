"""Peak memory of a GRPO step with all that a run holds: policy, sampler, reference and best weights.

The model is random, of width 1,024, with the proportions of a small Qwen2; the rows are synthetic. Float32 training
of all weights, with the copies that a run needs then, is compared with an adapter on bfloat16 and on 4-bit weights.
"""

from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from benchmarks.machine.allocation import peak_allocation
from upturn.config import AdapterSettings, OptimiserSettings
from upturn.models.engine import LocalEngine
from upturn.records import Result
from upturn.training import TrainingRow
from upturn.training.distributed import copy_tensors, trained_tensors
from upturn.training.losses import policy_objective
from upturn.training.optimisation import Trainer, add_adapter, frozen_scorer
from upturn.training.policy_settings import KlSettings, ObjectiveSettings
from upturn.training.stream import Stream

BAR = 0.35
"""Largest memory of an adapter in bfloat16, in multiples of float32 training of all weights."""
_ALL = OptimiserSettings(learning_rate=1e-6)
_ADAPTER = OptimiserSettings(learning_rate=1e-5, precision="bfloat16_weights")
_OBJECTIVE = ObjectiveSettings(kl=KlSettings(coefficient=0.01))


class Size(NamedTuple):
    """Of the model and of the rows."""

    width: int = 1024
    layers: int = 8
    vocabulary: int = 8000
    rows: int = 8
    prompt: int = 256
    """Tokens that the rows share."""
    written: int = 128
    """Tokens of each row after the prompt."""


def measure_memory(size: Size, *, has_bars: bool = True) -> list[Result]:
    """Peaks in bytes, and their ratios to the first one."""
    whole = _peak(size, _ALL, rank=0)
    results = [Result("float32, all weights", whole / 1e6, "MB")]
    short = _peak(size, _ADAPTER, rank=16)
    recomputed = _peak(size, replace(_ADAPTER, gradient_checkpointing="full"), rank=16)
    peaks = {"adapter on bfloat16": short, "adapter on bfloat16, recomputed": recomputed}
    if find_spec("bitsandbytes") is not None:
        peaks["adapter on nf4"] = _peak(size, _ADAPTER, rank=16, is_quantised=True)
    for name, peak in peaks.items():
        ratio = peak / whole
        results.append(Result(name, peak / 1e6, "MB"))
        bar, holds = (f"<= {BAR}", ratio <= BAR) if has_bars else (None, None)
        results.append(Result(f"{name}, ratio", ratio, bar=bar, holds=holds))
    return results


def random_model(size: Size, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A Qwen2 with heads of 64 numbers, a quarter of them for keys and values, and tied embeddings."""
    heads = size.width // 64
    config = Qwen2Config(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 4),
        intermediate_size=4 * size.width,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model: Any = Qwen2ForCausalLM(config)  # ``to`` is typed for modules only
    typed: PreTrainedModel = model.to(dtype).eval()
    return typed


def quantise(model: nn.Module) -> None:
    """Puts all linear layers but the output layer into 4 bits, as ``transformers`` does on loading."""
    from bitsandbytes.nn import Linear4bit, Params4bit

    for name, part in list(model.named_modules()):
        if type(part) is nn.Linear and name != "lm_head":
            four: Any = Linear4bit(
                part.in_features,
                part.out_features,
                bias=part.bias is not None,
                compute_dtype=torch.bfloat16,
                quant_type="nf4",
            )
            four.weight = Params4bit(part.weight.data, requires_grad=False, quant_type="nf4")
            four.bias = part.bias
            four.support_avx512bf16_for_cpu = False
            model.set_submodule(name, four.to("cpu"))


def _peak(size: Size, settings: OptimiserSettings, *, rank: int, is_quantised: bool = False) -> int:
    """Of two steps with sampler, reference and best weights; in the second, AdamW has its state."""

    def run() -> object:
        model = random_model(size, torch.bfloat16 if rank else torch.float32)
        if is_quantised:
            quantise(model)
        if rank:
            add_adapter(model, AdapterSettings(rank=rank, seed=0))
        engine = LocalEngine(model, slots=size.rows, max_length=size.prompt + size.written + 1)
        trainer = Trainer(model, settings)
        reference, best = frozen_scorer(trainer), copy_tensors(trained_tensors(model))
        rows = _rows(size)
        scores = zip(rows, trainer.score(rows), reference(rows), strict=True)
        rows = [replace(row, old_logprobs=old, reference_logprobs=fixed) for row, old, fixed in scores]
        stream = Stream(rows, policy_objective(_OBJECTIVE), float(size.rows * size.written))
        for _ in range(2):
            trainer.step([stream])
            trainer.optimiser.free_gradients()
            engine.refresh()
        return engine, trainer, reference, best

    return peak_allocation(run)


def _rows(size: Size) -> list[TrainingRow]:
    rng = np.random.default_rng(0)
    prompt = rng.integers(1, size.vocabulary, size.prompt)
    written = rng.integers(1, size.vocabulary, (size.rows, size.written))
    positions = np.arange(size.prompt, size.prompt + size.written)
    advantages = np.where(np.arange(size.rows) % 2, 1.0, -1.0)
    return [
        TrainingRow(
            f"t{number}",
            np.concatenate([prompt, tokens]),
            positions,
            np.full(size.written, advantages[number], dtype=np.float32),
            None,
        )
        for number, tokens in enumerate(written)
    ]
