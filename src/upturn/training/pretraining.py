"""How the nano model is made: its tokenizer, its schedule, and the demonstrations of every step.

Two phases. The first teaches single operations, look-ups and level 1 until copying is confident; the second shows a
little of levels 2 and 3. What is then missing is skill in composing, which the loop is to add, not temperature.
The batch of a step is a pure function of its number, so a build that was interrupted ends as one that was not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from upturn.environments.office import LEARNED
from upturn.models import SPECIAL_TOKENS, CompactRenderer, write_call
from upturn.records import record
from upturn.training.demonstration import Demonstration, render, walk
from upturn.training.row import TrainingRow
from upturn.training.stream import Stream, Unit

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

VOCABULARY = 1024
ROWS = 64
"""Demonstrations in one step."""
BUCKET = 4
"""Steps whose demonstrations are drawn together and sorted by length, to spare padding."""
SEEN_WEIGHT = 0.1
"""Weight of tokens that the model only sees, against 1 for those it writes: a little of them helps it to copy."""
PATTERN = r" ?[a-z]+(?:\.[a-z]+)?=?| ?[A-Z]+|[0-9]{1,2}|\n| ?[^\sA-Za-z0-9]|\s"
"""Pieces that byte pairs are merged within: words with their space, an operation with its dot, two digits: so ids,
hours and amounts are one token each, and copying one is one step."""


@record
class Phase:
    """A stretch of steps with one mixture."""

    steps: int
    mixture: Mapping[str, float]
    """Weight of each kind of demonstration: a family, ``drill`` or ``pick``."""
    learning_rate: float
    """At its start (after warm-up); falls linearly to a tenth over the last ``decay_steps``."""
    decay_steps: int


SKILLS = Phase(
    900, {"mail_file": 2.0, "event_add": 2.0, "cell_ask": 2.0, "drill": 8.0, "pick": 3.0}, 2e-3, decay_steps=200
)
GLIMPSES = Phase(
    120,
    {
        "mail_file": 2.5,
        "event_add": 2.0,
        "cell_ask": 2.0,
        "drill": 6.0,
        "pick": 3.0,
        "mail_reply": 0.5,
        "event_shift": 0.8,
        "sheet_total": 1.8,
        "mail_to_event": 1.6,
        "mail_to_sheet": 1.6,
        "call_off": 0.4,
    },
    5e-4,
    decay_steps=60,
)
SCHEDULE = (SKILLS, GLIMPSES)
WARMUP_STEPS = 100
TOTAL_STEPS = sum(phase.steps for phase in SCHEDULE)


def phase_at(step: int) -> tuple[Phase, int]:
    """The phase of a step and the step's number within it."""
    for phase in SCHEDULE:
        if step < phase.steps:
            return phase, step
        step -= phase.steps
    raise ValueError(f"the schedule has {TOTAL_STEPS} steps, asked for one beyond them")


def learning_rate(step: int) -> float:
    """Of the step after ``step`` steps."""
    phase, within = phase_at(step)
    left = (phase.steps - within) / phase.decay_steps
    return phase.learning_rate * min(1.0, (step + 1) / WARMUP_STEPS) * max(0.1, min(1.0, left))


def kinds_of_step(step: int) -> list[tuple[str, int]]:
    """The demonstrations of the bucket that a step belongs to: kind and number of each."""
    phase, within = phase_at(step)
    first = step - within % BUCKET
    rng = Random(f"pretraining/{first}")
    kinds = rng.choices(list(phase.mixture), list(phase.mixture.values()), k=ROWS * BUCKET)
    return [(kind, first * ROWS + place) for place, kind in enumerate(kinds)]


class PretrainingSteps:
    """The schedule as an algorithm for the trainer: one optimiser step a unit."""

    def __init__(self, renderer: CompactRenderer) -> None:
        from upturn.training.loss import CrossEntropy

        self._renderer = renderer
        self._objective = CrossEntropy()
        self._bucket: tuple[int, list[list[Demonstration]]] = (-1, [])

    def unit(self, index: int) -> Unit:
        """Step ``index``."""
        within = phase_at(index)[1]
        first = index - within % BUCKET
        if self._bucket[0] != first:
            self._bucket = (first, self._draw(first))
        rows = [_row(each, str(place)) for place, each in enumerate(self._bucket[1][index - first])]
        denominator = float(sum(row.weights.sum() for row in rows))
        return Unit([[Stream(rows, self._objective, denominator)]], {})

    def _draw(self, step: int) -> list[list[Demonstration]]:
        """A bucket's demonstrations by length, in batches whose order is drawn."""
        found = [render(self._renderer, walk(kind, number)) for kind, number in kinds_of_step(step)]
        found.sort(key=lambda each: len(each.token_ids))
        batches = [found[place : place + ROWS] for place in range(0, len(found), ROWS)]
        Random(f"order/{step}").shuffle(batches)
        return batches


def _row(demonstration: Demonstration, name: str) -> TrainingRow:
    """Every token but the first is predicted; those that the model only sees weigh little."""
    weights = [1.0 if is_written else SEEN_WEIGHT for is_written in demonstration.is_written]
    return TrainingRow(
        name,
        np.array(demonstration.token_ids, dtype=np.int64),
        np.arange(1, len(weights), dtype=np.int64),
        np.array(weights[1:], dtype=np.float32),
        None,
    )


def new_tokenizer(texts: Iterable[str]) -> "Tokenizer":
    """Byte-level byte pairs over ``texts``, with the four special tokens."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pieces, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def tokenizer_texts(count: int = 1500) -> Iterator[str]:
    """What the tokenizer is made from: ``count`` walks of every kind, from numbers that no step uses."""
    for kind in (*LEARNED, "drill", "drill", "pick"):
        for number in range(count):
            for observation, action in walk(kind, 10_000_000 + number):
                yield f"error {observation.code}" if observation.is_error else observation.text
                yield write_call(action)


def new_model(seed: int) -> "PreTrainedModel":
    """An untrained Qwen2 of 1.1 million parameters."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            use_sliding_window=False,
            attention_dropout=0.0,
        )
    )


def pretrain(
    folder: Path, *, seed: int, threads: int | None, progress: Callable[[int, float], None]
) -> tuple["PreTrainedModel", "Tokenizer"]:
    """The trained model and its tokenizer; resumes from ``folder``. ``progress`` gets steps done and the loss."""
    from tokenizers import Tokenizer

    from upturn.training.run import Run, RunPlace, RunPlan, identity_of
    from upturn.training.settings import OptimiserSettings
    from upturn.training.trainer import Trainer

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    if not path.exists():
        new_tokenizer(tokenizer_texts()).save(str(path.with_suffix(".partial")))
        path.with_suffix(".partial").rename(path)
    tokenizer = Tokenizer.from_file(str(path))
    settings = OptimiserSettings(
        learning_rate=SKILLS.learning_rate, weight_decay=0.05, micro_batch_tokens=8192, threads=threads
    )
    model = new_model(seed)
    trainer = Trainer(model, settings, lambda step: learning_rate(step) / SKILLS.learning_rate)
    plan = RunPlan(units=TOTAL_STEPS, evaluate_every=None, checkpoint_every=50, keep="final")
    identity = identity_of(trainer, "pretraining", settings, seed=seed, schedule=SCHEDULE)
    Run(
        trainer,
        PretrainingSteps(CompactRenderer(tokenizer)),
        plan,
        RunPlace(folder, identity),
        None,
        lambda point: progress(point.units, point.metrics.get("loss") or 0.0),
    ).finish()
    return model, tokenizer
