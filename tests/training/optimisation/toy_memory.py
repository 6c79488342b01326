"""Measured and estimated memory of real steps; a program that ``test_memory_estimate.py`` runs."""

import json
import sys

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.machine.memory import peak_bytes, reset_peak, resident_bytes
from upturn.config import OptimiserSettings
from upturn.records import Observation, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.memory_estimate import estimate_memory, model_shape
from upturn.training.optimisation.trainer import Trainer
from upturn.training.row import TrainingRow, supervised_rows
from upturn.training.stream import Stream

LONG, WRITTEN, STEPS = 256, 64, 2
"""Tokens of a row, written tokens at its end, and steps; in the second, AdamW has its state."""


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


def main(width: int, layers: int, inner: int, *, vocabulary: int, tokens: int, is_checkpointed: bool) -> None:
    """Prints both figures in bytes; the measured one includes the model but not libraries."""
    torch.set_num_threads(1)
    rows = [_row(number, vocabulary) for number in range(tokens // LONG)]
    reset_peak()
    before = resident_bytes()
    model = Qwen2ForCausalLM(
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
    settings = OptimiserSettings(
        gradient_checkpointing="full" if is_checkpointed else "none", micro_batch_tokens=tokens
    )
    written = WRITTEN * len(rows)
    trainer = Trainer(model, settings)
    for _ in range(STEPS):
        trainer.step([Stream(rows, CrossEntropy(), float(written))])
    estimated = estimate_memory(
        model_shape(model), micro_batch_tokens=tokens, written_tokens=written, is_checkpointed=is_checkpointed
    )
    sys.stdout.write(json.dumps({"measured": peak_bytes() - before, "estimated": estimated.total}))


if __name__ == "__main__":
    sizes = [int(size) for size in sys.argv[1:]]
    main(*sizes[:3], vocabulary=sizes[3], tokens=sizes[4], is_checkpointed=bool(sizes[5]))
