"""Pairs as training rows, and rows of pairs as the streams of a step. No torch is loaded before a step is made."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from upturn.errors import TrainingError
from upturn.records import PreferencePair, Trajectory, pair_problem
from upturn.training.pair_settings import PairObjectiveSettings, Reference
from upturn.training.row import TrainingRow, turn_rows
from upturn.training.scorer import Scorer


class PairRows(NamedTuple):
    """One pair, fit to be learned from."""

    rows: tuple[TrainingRow, ...]
    """Of both sides: weights are positive on the better one and negative on the other."""

    @property
    def better(self) -> tuple[TrainingRow, ...]:
        """The better side alone, each token with weight 1."""
        return tuple(replace(row, weights=np.ones_like(row.weights)) for row in self.rows if row.weights[0] > 0)


def pair_rows(
    pairs: Sequence[PreferencePair], settings: PairObjectiveSettings, reference: Reference
) -> list[PairRows]:
    """The pairs' rows, with the sampler's log-probs as the reference's where they are the reference.

    Raises TrainingError for no pairs, ids given twice, whatever ``pair_problem`` finds, and a reference that was
    not recorded or is two policies at once.
    """
    if not pairs:
        raise TrainingError("there are no pairs to learn from; preference learning needs at least one")
    seen: set[str] = set()
    found = []
    for pair in pairs:
        problem = pair_problem(pair) or _reference_problem(pair, reference)
        if pair.id in seen:
            problem = f"two pairs have the id {pair.id!r}; give each its own"
        if problem is not None:
            raise TrainingError(problem)
        seen.add(pair.id)
        found.append(_rows(pair, settings, is_reference=reference == "recorded"))
    return found


def _reference_problem(pair: PreferencePair, reference: Reference) -> str | None:
    versions = pair.chosen.model_version, pair.rejected.model_version
    if reference == "recorded" and versions[0] != versions[1]:
        return (
            f"the sides of pair {pair.id!r} were sampled with other weights, {versions[0]!r} and {versions[1]!r}: "
            "their samplers are two policies and cannot be one reference; set reference='initial'"
        )
    return None


def _rows(pair: PreferencePair, settings: PairObjectiveSettings, *, is_reference: bool) -> PairRows:
    sides: list[TrainingRow] = []
    for trajectory, turns, sign in (
        (pair.chosen, pair.chosen_turns, 1.0),
        (pair.rejected, pair.rejected_turns, -1.0),
    ):
        written = _written_count(trajectory, turns) if settings.is_length_normalised else 1
        rows = turn_rows(trajectory, weight=sign / written, turns=turns, is_reference=is_reference)
        sides += (replace(row, pair=pair.id) for row in rows)
    return PairRows(tuple(sides))


def _written_count(trajectory: Trajectory, turns: tuple[int, ...] | None) -> int:
    spans = (span for row in trajectory.rows for span in row.spans)
    return sum(span.stop - span.start for span in spans if turns is None or span.turn in turns)


def refer(pairs: Sequence[PairRows], scorer: Scorer) -> list[PairRows]:
    """The pairs with the scorer's log-probs as the reference's."""
    scored = iter(scorer([row for pair in pairs for row in pair.rows]))
    return [PairRows(tuple(replace(row, reference_logprobs=next(scored)) for row in pair.rows)) for pair in pairs]


def token_count(rows: Iterable[TrainingRow]) -> int:
    """How many tokens the rows have to be learned."""
    return sum(len(row.positions) for row in rows)
