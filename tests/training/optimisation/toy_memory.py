"""Models and real steps whose memory is measured."""

from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from benchmarks.grpo_memory import quantise
from benchmarks.machine.allocation import peak_allocation
from upturn.config import AdapterSettings, OptimiserSettings
from upturn.records import Observation, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.adapter import add_adapter
from upturn.training.optimisation.trainer import Trainer
from upturn.training.row import TrainingRow, supervised_rows
from upturn.training.stream import Stream

LONG, WRITTEN = 256, 64
"""Tokens of a row, and written tokens at its end."""


def build(
    width: int,
    layers: int,
    inner: int,
    vocabulary: int,
    *,
    dtype: torch.dtype = torch.float32,
    rank: int = 0,
    is_quantised: bool = False,
) -> PreTrainedModel:
    """A random model with tied embeddings; ``rank``: of an adapter, 0 = none."""
    model: Any = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=vocabulary,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=inner,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )
    model = model.to(dtype)
    if is_quantised:
        quantise(model)
    if rank:
        add_adapter(model, AdapterSettings(rank=rank, seed=0))
    built: PreTrainedModel = model
    return built


def step_peak(tokens: int, settings: OptimiserSettings, **model: object) -> int:
    """Peak bytes of building a model and taking two steps; in the second, AdamW has its state."""

    def run() -> object:
        built = build(**model)  # type: ignore[arg-type]  # of the caller
        rows = [_row(number, built.config.vocab_size) for number in range(tokens // LONG)]
        trainer = Trainer(built, settings)
        for _ in range(2):
            trainer.step([Stream(rows, CrossEntropy(), float(WRITTEN * len(rows)))])
            trainer.optimiser.free_gradients()
        return trainer

    return peak_allocation(run)


def _row(number: int, vocabulary: int) -> TrainingRow:
    tokens = np.random.default_rng(number).integers(1, vocabulary, LONG).tolist()
    row = TokenRow(tuple(tokens), (WrittenSpan(0, LONG - WRITTEN, LONG),), (-1.0,) * WRITTEN)
    turns = (Turn(Observation(""), "", None),)
    return supervised_rows(
        [
            Trajectory(
                id=f"t{number}",
                task_id=f"task{number}",
                agent_version="nano@1",
                turns=turns,
                final_observation=Observation(""),
                outcome="finished",
                origin="sampled",
                rows=(row,),
                temperature=1.0,
            )
        ]
    )[0]
