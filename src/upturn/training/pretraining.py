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

from upturn.environments.errands import LEARNED
from upturn.models import SPECIAL_TOKENS, CompactRenderer, write_call
from upturn.records import record
from upturn.training.curve import CurvePoint
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
    """A stretch of steps with one mixture and an optimiser of its own."""

    name: str
    first_step: int
    """Of the whole schedule: demonstrations are numbered through it."""
    steps: int
    mixture: Mapping[str, float]
    """Weight of each kind of demonstration: a family, ``glimpse:`` a family, ``drill`` or ``pick``."""
    learning_rate: float
    """After ``warmup_steps``; falls linearly to a tenth over the last ``decay_steps``."""
    warmup_steps: int
    decay_steps: int

    def learning_rate_factor(self, step: int) -> float:
        """Share of the learning rate for the step after ``step`` steps of this phase."""
        left = (self.steps - step) / self.decay_steps
        return min(1.0, (step + 1) / self.warmup_steps) * max(0.1, min(1.0, left))


SKILLS = Phase(
    name="skills",
    first_step=0,
    steps=1800,
    mixture={"mail_file": 2.0, "event_add": 2.0, "cell_ask": 2.0, "drill": 8.0, "pick": 4.0},
    learning_rate=2e-3,
    warmup_steps=100,
    decay_steps=400,
)
GLIMPSES = Phase(
    name="glimpses",
    first_step=SKILLS.steps,
    steps=76,
    mixture={
        "mail_file": 2.5,
        "event_add": 1.5,
        "cell_ask": 2.0,
        "drill": 5.0,
        "pick": 3.0,
        "glimpse:mail_reply": 0.015,
        "glimpse:event_shift": 0.17,
        "glimpse:sheet_total": 0.06,
        "glimpse:mail_to_event": 0.7,
        "glimpse:mail_to_sheet": 1.2,
        "glimpse:call_off": 0.08,
    },
    learning_rate=1e-3,
    warmup_steps=20,
    decay_steps=38,
)
SCHEDULE = (SKILLS, GLIMPSES)
TOTAL_STEPS = sum(phase.steps for phase in SCHEDULE)


def kinds_of_step(phase: Phase, step: int) -> list[tuple[str, int]]:
    """The demonstrations of the bucket that begins with ``step`` of a phase: kind and number of each."""
    first = phase.first_step + step
    rng = Random(f"pretraining/{first}")
    kinds = rng.choices(list(phase.mixture), list(phase.mixture.values()), k=ROWS * BUCKET)
    return [(kind, first * ROWS + place) for place, kind in enumerate(kinds)]


class PretrainingSteps:
    """A phase as an algorithm for the trainer: one optimiser step a unit."""

    def __init__(self, phase: Phase, renderer: CompactRenderer) -> None:
        from upturn.training.losses import CrossEntropy

        self._phase = phase
        self._renderer = renderer
        self._objective = CrossEntropy()
        self._bucket: tuple[int, list[list[Demonstration]]] = (-1, [])

    def unit(self, index: int) -> Unit:
        """Step ``index``."""
        first = index - index % BUCKET
        if self._bucket[0] != first:
            self._bucket = (first, self._draw(first))
        rows = [_row(each, str(place)) for place, each in enumerate(self._bucket[1][index - first])]
        denominator = float(sum(row.weights.sum() for row in rows))
        return Unit([[Stream(rows, self._objective, denominator)]], {})

    def _draw(self, first: int) -> list[list[Demonstration]]:
        """A bucket's demonstrations by length, in batches whose order is drawn."""
        found = [render(self._renderer, walk(kind, number)) for kind, number in kinds_of_step(self._phase, first)]
        found.sort(key=lambda each: len(each.token_ids))
        batches = [found[place : place + ROWS] for place in range(0, len(found), ROWS)]
        Random(f"order/{self._phase.first_step + first}").shuffle(batches)
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
    model = new_model(seed)
    for phase in SCHEDULE:
        settings = OptimiserSettings(
            learning_rate=phase.learning_rate,
            weight_decay=0.05,
            micro_batch_tokens=8192,
            packing="padded",  # every token is predicted and little is shared: a tree would save nothing
            threads=threads,
        )
        trainer = Trainer(model, settings, phase.learning_rate_factor)
        plan = RunPlan(
            units=phase.steps, evaluate_every=None, checkpoint_every=50, keep="final", unit="optimiser step"
        )
        identity = identity_of(trainer, "pretraining", settings, seed=seed, phase=phase)
        Run(
            trainer,
            PretrainingSteps(phase, CompactRenderer(tokenizer)),
            plan,
            RunPlace(folder / phase.name, identity),
            None,
            _shown(progress, phase.first_step),
        ).finish()
    return model, tokenizer


def _shown(progress: Callable[[int, float], None], first_step: int) -> Callable[[CurvePoint], None]:
    """What a run reports, in steps of the whole schedule."""
    return lambda point: progress(first_step + point.units, point.metrics.get("loss") or 0.0)
