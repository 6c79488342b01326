"""The steps of a phase: each batch is a pure function of its number.

So an interrupted build gives the same model as an uninterrupted one.
"""

import hashlib
from collections.abc import Callable
from random import Random

import numpy as np

from upturn.models import CompactRenderer
from upturn.training.pretraining.demonstration import Demonstration, WeightedTokens, render
from upturn.training.pretraining.recipe import BUCKET, ROWS, Phase
from upturn.training.row import TrainingRow
from upturn.training.stream import Stream, Unit


class PretrainingSteps:
    """A phase as an algorithm for the trainer: one optimiser step per unit."""

    def __init__(
        self, phase: Phase, demonstration: Callable[[str, int], Demonstration], renderer: CompactRenderer
    ) -> None:
        from upturn.training.losses import CrossEntropy

        self._phase = phase
        self._demonstration = demonstration
        self._renderer = renderer
        self._objective = CrossEntropy()
        self._bucket: tuple[int, list[list[WeightedTokens]]] = (-1, [])

    def unit(self, index: int) -> Unit:
        """Step ``index``."""
        first = index - index % BUCKET
        if self._bucket[0] != first:
            self._bucket = (first, self._draw(first))
        rows = [_row(tokens, str(number)) for number, tokens in enumerate(self._bucket[1][index - first])]
        denominator = float(sum(row.weights.sum() for row in rows))
        return Unit([[Stream(rows, self._objective, denominator)]], {})

    def digest(self) -> str:
        """16 hex digits over the tokens of the first bucket: a build must not resume with other demonstrations."""
        streams = [stream for step in range(BUCKET) for stream in self.unit(step).minibatches[0]]
        tokens = b"".join(row.token_ids.tobytes() for stream in streams for row in stream.rows)
        return hashlib.blake2b(tokens, digest_size=8).hexdigest()

    def _draw(self, first: int) -> list[list[WeightedTokens]]:
        """A bucket's demonstrations sorted by length, in batches in random order."""
        kinds = self._phase.bucket_kinds(first)
        rendered = [render(self._renderer, self._demonstration(kind, number)) for kind, number in kinds]
        rendered.sort(key=lambda tokens: len(tokens.token_ids))
        batches = [rendered[start : start + ROWS] for start in range(0, len(rendered), ROWS)]
        Random(f"order/{self._phase.first_step + first}").shuffle(batches)
        return batches


def _row(tokens: WeightedTokens, name: str) -> TrainingRow:
    """Every token but the first is predicted."""
    return TrainingRow(
        name,
        np.array(tokens.token_ids, dtype=np.int64),
        np.arange(1, len(tokens.weights), dtype=np.int64),
        np.array(tokens.weights[1:], dtype=np.float32),
        None,
    )
