"""Stored judgements, made again: a verifier is pure, so one that differs was changed without a new version.

Of each trajectory the judgement that counts is made again, the one that was stored last. Nothing is stored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Literal, NamedTuple

from upturn.environments import EnvironmentKit, verifiers_of, verify
from upturn.pool import EVERYTHING, Experience, Pool, Scope, Selection
from upturn.records import Evaluation


class Reverified(NamedTuple):
    """What became of one stored judgement."""

    trajectory_id: str
    evaluator: str
    """Name and version, as stored; empty = the trajectory was never judged."""
    found: Literal["same", "differs", "not_rerun"]
    words: str
    """What differs, or why it was not made again."""


def reverify(
    pool: Pool, kits: Mapping[str, EnvironmentKit], *, tenant: Scope, selection: Selection = EVERYTHING
) -> Iterator[Reverified]:
    """Every selected trajectory, in the order of arrival. ``kits``: by the name that tasks know them by."""
    for experience in pool.experiences(selection, tenant=tenant):
        yield _judged_again(experience, kits)


def _judged_again(experience: Experience, kits: Mapping[str, EnvironmentKit]) -> Reverified:
    task, trajectory, stored = experience
    if stored is None:
        return Reverified(trajectory.id, "", "not_rerun", "it was never judged")
    kit = kits.get(task.environment)
    if kit is None:
        words = f"there is no environment {task.environment!r} here"
        return Reverified(trajectory.id, stored.evaluator, "not_rerun", words)
    known = {each.name: each for each in verifiers_of(kit)}
    if stored.evaluator not in known:
        words = f"the verifier of {kit.name!r} is {' or '.join(map(repr, known))} now"
        return Reverified(trajectory.id, stored.evaluator, "not_rerun", words)
    again = verify(known[stored.evaluator], task, trajectory)
    if again == stored:
        return Reverified(trajectory.id, stored.evaluator, "same", "")
    return Reverified(trajectory.id, stored.evaluator, "differs", _difference(stored, again))


def _difference(stored: Evaluation, again: Evaluation) -> str:
    """The fields that differ, with both values."""
    pairs = ((field.name, getattr(stored, field.name), getattr(again, field.name)) for field in fields(stored))
    return "; ".join(f"{name} was {was!r}, is {now!r}" for name, was, now in pairs if was != now)
