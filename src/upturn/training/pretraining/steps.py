"""The steps of a phase: each batch is a pure function of its number.

So an interrupted build gives the same model as an uninterrupted one.
"""

import hashlib
from collections.abc import Callable
from random import Random

import numpy as np

from upturn.models import CompactRenderer
from upturn.training.pretraining.demonstration import Demonstration, Walk, render
from upturn.training.pretraining.phase import BUCKET, ROWS, Phase, kinds_of_step
from upturn.training.row import TrainingRow
from upturn.training.stream import Stream, Unit


class PretrainingSteps:
    """A phase as an algorithm for the trainer: one optimiser step per unit."""

    def __init__(self, phase: Phase, walk: Callable[[str, int], Walk], renderer: CompactRenderer) -> None:
        from upturn.training.losses import CrossEntropy

        self._phase = phase
        self._walk = walk
        self._renderer = renderer
        self._objective = CrossEntropy()
        self._bucket: tuple[int, list[list[Demonstration]]] = (-1, [])

    def unit(self, index: int) -> Unit:
        """Step ``index``."""
        first = index - index % BUCKET
        if self._bucket[0] != first:
            self._bucket = (first, self._draw(first))
        rows = [_row(shown, str(number)) for number, shown in enumerate(self._bucket[1][index - first])]
        denominator = float(sum(row.weights.sum() for row in rows))
        return Unit([[Stream(rows, self._objective, denominator)]], {})

    def digest(self) -> str:
        """16 hex digits over the tokens of the first bucket: a build must not resume with other demonstrations."""
        blake = hashlib.blake2b(digest_size=8)
        for step in range(BUCKET):
            for stream in self.unit(step).minibatches[0]:
                for row in stream.rows:
                    blake.update(row.token_ids.tobytes())
        return blake.hexdigest()

    def _draw(self, first: int) -> list[list[Demonstration]]:
        """A bucket's demonstrations sorted by length, in batches in random order."""
        demonstrations = [
            render(self._renderer, self._walk(kind, number)) for kind, number in kinds_of_step(self._phase, first)
        ]
        demonstrations.sort(key=lambda shown: len(shown.token_ids))
        batches = [demonstrations[start : start + ROWS] for start in range(0, len(demonstrations), ROWS)]
        Random(f"order/{self._phase.first_step + first}").shuffle(batches)
        return batches


def _row(demonstration: Demonstration, name: str) -> TrainingRow:
    """Every token but the first is predicted."""
    return TrainingRow(
        name,
        np.array(demonstration.token_ids, dtype=np.int64),
        np.arange(1, len(demonstration.weights), dtype=np.int64),
        np.array(demonstration.weights[1:], dtype=np.float32),
        None,
    )
