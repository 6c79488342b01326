"""Several judges: a weighted decision, the demand that they differ, and rotation in training.

A majority of five judges scored below the best single one on JudgeBench's logs, and judges of one vendor make the
same errors. So weights come from labelled pairs, and errors must not agree. Measure an ensemble on other pairs than
those that its weights come from. Pure functions.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import fsum
from typing import Literal

import numpy as np

from upturn.errors import ConfigError
from upturn.interval import FloatArray
from upturn.records import record
from upturn.rewards.judging.comparison import Compared, Pair

MOST_SHARED = 0.6
"""Cohen's κ of two judges' errors up to which they differ enough. Logged judges had .29 to .65, the highest within
one vendor (JudgeBench)."""
_NEWTON_STEPS = 25
"""More than enough: the penalised likelihood is strictly concave, and steps from 0 converge in about six."""


@record
class Ensemble:
    """Several judges with weights that were fitted to labelled pairs. Decides pairs that all of them compared.

    The log-odds that the first work is better are Σ weight · vote + length · (first is longer) + Σ own · (first is
    of a judge's vendor), where each term has the opposite sign for the second work. So what people's labels do not
    share with the judges, such as a taste for length, is taken off again.
    """

    weights: Mapping[str, float]
    """By judge."""
    length: float
    own: Mapping[str, float]
    """By vendor of a judge."""

    def decide(self, compared: Mapping[str, Compared]) -> Literal["first", "second", "tie"]:
        """The decision on one pair; a tie where all votes are 0. ``compared``: by judge.

        Raises KeyError for a judge that the ensemble does not have.
        """
        pair = next(iter(compared.values())).pair
        votes = {name: vote(item) for name, item in compared.items()}
        if not any(votes.values()):
            return "tie"
        total = fsum(self.weights[name] * value for name, value in votes.items())
        total += self.length * _longer_sign(pair)
        total += fsum(weight * _own_sign(pair, vendor) for vendor, weight in self.own.items())
        return "first" if total > 0 else "second" if total < 0 else "tie"


def fit_ensemble(compared: Mapping[str, Sequence[Compared]], vendors: Mapping[str, str]) -> Ensemble:
    """The ensemble from labelled pairs that all judges compared; ``vendors``: by judge, empty = unknown.

    Logistic regression without a constant, so that the order of works does not matter, with a ridge penalty of 1
    that keeps the weights of few labels small. Raises ValueError where the pairs differ or none is labelled.
    """
    names = list(compared)
    check_same_pairs(list(compared.values()))
    known = sorted({vendor for vendor in vendors.values() if vendor})
    rows, labels = list[list[float]](), list[float]()
    for items in zip(*compared.values(), strict=True):
        pair = items[0].pair
        if pair.label is not None:
            rows.append([*map(vote, items), _longer_sign(pair), *(_own_sign(pair, vendor) for vendor in known)])
            labels.append(float(pair.label == "first"))
    if not rows:
        raise ValueError("fit_ensemble needs labelled pairs, got none")
    fitted = _logistic(np.array(rows), np.array(labels))
    votes, length, own = fitted[: len(names)], fitted[len(names)], fitted[len(names) + 1 :]
    return Ensemble(dict(zip(names, votes, strict=True)), length, dict(zip(known, own, strict=True)))


def vote(compared: Compared) -> float:
    """In [-1, 1]: the mean sign of both verdicts, 1 for the first work; 0 for a tie or none."""
    signs = {"first": 1, "second": -1, "tie": 0, None: 0}
    return (signs[compared.forward] + signs[compared.backward]) / 2


def _logistic(rows: FloatArray, labels: FloatArray) -> list[float]:
    """The weights (F,) of a logistic regression of labels (N,) on rows (N, F) with a ridge, by Newton's method."""
    weights = np.zeros(rows.shape[1])
    for _ in range(_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (labels - chance) - weights
        curvature = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.eye(rows.shape[1])
        weights += np.linalg.solve(curvature, gradient)
    return [float(weight) for weight in weights]


def _longer_sign(pair: Pair) -> int:
    return (len(pair.first) > len(pair.second)) - (len(pair.first) < len(pair.second))


def _own_sign(pair: Pair, vendor: str) -> int:
    return (pair.authors[0] == vendor) - (pair.authors[1] == vendor)


def check_same_pairs(compared: Sequence[Sequence[Compared]]) -> None:
    """Raises ValueError where judges compared different pairs, or in another order."""
    ids = [[item.pair.id for item in items] for items in compared]
    if any(other != ids[0] for other in ids):
        raise ValueError("the judges must have compared the same pairs, in the same order")


def error_agreement(first: Sequence[Compared], second: Sequence[Compared]) -> float | None:
    """Cohen's κ of the errors of two judges on the same labelled pairs; None where one has none, or only errors.

    Raises ValueError where the pairs differ.
    """
    check_same_pairs([first, second])
    errors = [
        (a.decision != a.pair.label, b.decision != b.pair.label)
        for a, b in zip(first, second, strict=True)
        if a.pair.label is not None
    ]
    if not errors:
        return None
    rates = [sum(side) / len(errors) for side in zip(*errors, strict=True)]
    chance = rates[0] * rates[1] + (1 - rates[0]) * (1 - rates[1])
    agreement = sum(a == b for a, b in errors) / len(errors)
    return None if chance == 1 else (agreement - chance) / (1 - chance)


def check_diversity(
    compared: Mapping[str, Sequence[Compared]], vendors: Mapping[str, str], *, most: float = MOST_SHARED
) -> None:
    """Raises ConfigError for an ensemble whose judges have one vendor, or make the same errors.

    ``vendors``: by judge. ``most``: largest ``error_agreement`` of two judges.
    """
    problems = []
    if len(compared) > 1 and len({vendors[name] for name in compared}) == 1:
        problems.append(
            f"the judges {', '.join(compared)} have one vendor, {vendors[next(iter(compared))]!r}; add another's"
        )
    for one, other in combinations(compared, 2):
        shared = error_agreement(compared[one], compared[other])
        if shared is not None and shared > most:
            problems.append(
                f"the judges {one!r} and {other!r} make the same errors (κ {shared:.2f}, at most {most:g}); leave "
                "one out"
            )
    if problems:
        raise ConfigError(problems)


def centred_by_judge(scores: Sequence[tuple[str, float | None]]) -> list[float | None]:
    """The scores less the mean of their judge, for judges that take turns: else a strict one lowers what it sees.

    None stays None. A judge with one score gets 0.
    """
    by_judge: dict[str, list[float]] = {}
    for judge, score in scores:
        if score is not None:
            by_judge.setdefault(judge, []).append(score)
    means = {judge: fsum(values) / len(values) for judge, values in by_judge.items()}
    return [None if score is None else score - means[judge] for judge, score in scores]
