"""Training rows of preference pairs. No torch here."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from upturn.errors import TrainingError
from upturn.records import PreferencePair, pair_problem
from upturn.training.pair_settings import PairObjectiveSettings, Reference
from upturn.training.row import TrainingRow, turn_rows
from upturn.training.scorer import Scorer


class PairRows(NamedTuple):
    """The rows of one pair."""

    rows: tuple[TrainingRow, ...]
    """Of both sides: weights are positive on the chosen one and negative on the rejected one."""

    @property
    def chosen(self) -> tuple[TrainingRow, ...]:
        """The rows of the chosen side, each token with weight 1."""
        return tuple(replace(row, weights=np.ones_like(row.weights)) for row in self.rows if row.weights[0] > 0)


def pair_rows(
    pairs: Sequence[PreferencePair], settings: PairObjectiveSettings, reference: Reference
) -> list[PairRows]:
    """Returns the rows of the pairs, with reference log-probs if the sampler is the reference.

    Raises TrainingError for no pairs, duplicate ids, the problems of ``pair_problem``, and a reference that was not
    recorded or differs between the sides.
    """
    if not pairs:
        raise TrainingError("there are no pairs to train on; preference learning needs at least one")
    ids: set[str] = set()
    for pair in pairs:
        problem = pair_problem(pair) or _reference_problem(pair, reference)
        if pair.id in ids:
            problem = f"two pairs have the id {pair.id!r}; give each its own"
        if problem is not None:
            raise TrainingError(problem)
        ids.add(pair.id)
    return [_rows(pair, settings, is_reference=reference == "recorded") for pair in pairs]


def _reference_problem(pair: PreferencePair, reference: Reference) -> str | None:
    versions = list(dict.fromkeys((*pair.chosen.model_versions, *pair.rejected.model_versions)))
    if reference == "recorded" and len(versions) > 1:
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
        rows = turn_rows(trajectory, weight=sign, turns=turns, is_reference=is_reference)
        written = token_count(rows) if settings.is_length_normalised else 1
        sides += (replace(row, pair=pair.id, weights=np.full_like(row.weights, sign / written)) for row in rows)
    return PairRows(tuple(sides))


def add_reference(pairs: Sequence[PairRows], scorer: Scorer) -> list[PairRows]:
    """Returns the pairs with the scorer's log-probs as the reference's."""
    scores = iter(scorer([row for pair in pairs for row in pair.rows]))
    return [PairRows(tuple(replace(row, reference_logprobs=next(scores)) for row in pair.rows)) for pair in pairs]


def token_count(rows: Iterable[TrainingRow]) -> int:
    """Returns the number of written tokens."""
    return sum(len(row.positions) for row in rows)
