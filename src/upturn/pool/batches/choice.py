"""The order of a group's candidates by seed and priorities, and the limit for each task. Pure.

Points are drawn one after the other without replacement, with probabilities proportional to their weights. This is
done at once, by sorting by log weight + Gumbel noise (the Gumbel-max trick; Kool et al. 2019, arXiv 1903.06059).
The noise of a point depends on the seed and its trajectory alone.
"""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from upturn.pool.batches.criteria import Priorities
from upturn.records import EvaluationVerdict, Trajectory


class Candidate(NamedTuple):
    """A data point that may become part of a batch; records are named by their sequence numbers."""

    family: str
    trajectory: int
    task: int
    evaluation: int | None
    """None = no evaluation is stored."""
    verdict: EvaluationVerdict
    score: float | None
    written_tokens: int


def uniform(seed: int, purpose: str, number: int) -> float:
    """Returns a number in (0, 1) that depends on the arguments alone, independent between any two of them."""
    digest = hashlib.sha256(f"{seed} {purpose} {number}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") + 0.5) / 2.0**64


def ranked(candidates: Sequence[Candidate], priorities: Priorities, seed: int) -> list[Candidate]:
    """Returns the candidates in the order in which they are drawn."""
    efficiency = _efficiency(candidates) if priorities.efficiency else {}
    of_task = Counter(candidate.task for candidate in candidates)

    def key(candidate: Candidate) -> tuple[float, int]:
        weight = (
            priorities.success * _success(candidate)
            + priorities.efficiency * efficiency.get(candidate.trajectory, 0.0)
            + priorities.novelty / of_task[candidate.task]
        )
        noise = -math.log(-math.log(uniform(seed, "order", candidate.trajectory)))
        return -(weight + noise), candidate.trajectory

    return sorted(candidates, key=key)


def limited(
    candidates: Sequence[Candidate], max_per_task: int | None, counts: Mapping[int, int]
) -> Iterator[Candidate]:
    """Yields the candidates in their order, at most ``max_per_task`` (None = any number) of each task.

    ``counts``: how many of each task the batch has already.
    """
    now = Counter[int](counts)
    for candidate in candidates:
        if max_per_task is None or now[candidate.task] < max_per_task:
            now[candidate.task] += 1
            yield candidate


def strategy_of(trajectory: Trajectory) -> tuple[str, ...]:
    """Returns the names of the actions in their order, equal ones in a row once; "" = no action could be read."""
    names = ("" if turn.action is None else turn.action.name for turn in trajectory.turns)
    return tuple(name for name, _ in groupby(names))


def is_held_out(seed: int, task: int, share: float) -> bool:
    """Whether a task, by its sequence number, is held out with all of its points."""
    return share > 0.0 and uniform(seed, "held out", task) < share


def _success(candidate: Candidate) -> float:
    return float(candidate.verdict == "success") if candidate.score is None else candidate.score


def _efficiency(candidates: Sequence[Candidate]) -> dict[int, float]:
    """Returns each success's rank in its family by written tokens, from 1 (fewest) to 0; ties have their mean."""
    families: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        if candidate.verdict == "success":
            families[candidate.family].append(candidate)
    ranks: dict[int, float] = {}
    for members in families.values():
        counts = Counter(member.written_tokens for member in members)
        below, mean = 0, dict[int, float]()
        for tokens in sorted(counts):
            mean[tokens] = below + (counts[tokens] - 1) / 2
            below += counts[tokens]
        last = max(1, len(members) - 1)
        ranks |= {member.trajectory: 1.0 - mean[member.written_tokens] / last for member in members}
    return ranks
