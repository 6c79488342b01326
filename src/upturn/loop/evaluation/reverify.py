"""Stored evaluations, computed again: a difference means that a verifier changed without a new version.

Verifiers are pure. The latest stored evaluation of each trajectory is compared. Nothing is stored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Literal, NamedTuple

from upturn.environments import EnvironmentKit, verifiers_of, verify
from upturn.pool import EVERYTHING, Experience, Pool, Scope, Selection


class Reverified(NamedTuple):
    """The comparison of one stored evaluation."""

    trajectory_id: str
    evaluator: str
    """Name and version, as stored; empty = the trajectory has no evaluation."""
    outcome: Literal["same", "differs", "not_rerun"]
    detail: str
    """What differs, or why it was not computed again."""


def reverify(
    pool: Pool, kits: Mapping[str, EnvironmentKit], *, tenant: Scope, selection: Selection = EVERYTHING
) -> Iterator[Reverified]:
    """Compares every selected trajectory, in order of arrival. ``kits``: by the environment name of tasks."""
    for experience in pool.experiences(selection, tenant=tenant):
        yield _compare(experience, kits)


def _compare(experience: Experience, kits: Mapping[str, EnvironmentKit]) -> Reverified:
    task, trajectory, stored = experience
    if stored is None:
        return Reverified(trajectory.id, "", "not_rerun", "no stored evaluation")
    kit = kits.get(task.environment)
    if kit is None:
        detail = f"environment {task.environment!r} is not available"
        return Reverified(trajectory.id, stored.evaluator, "not_rerun", detail)
    verifiers = {verifier.name: verifier for verifier in verifiers_of(kit)}
    if stored.evaluator not in verifiers:
        detail = f"the current verifier of {kit.name!r} is {' or '.join(map(repr, verifiers))}"
        return Reverified(trajectory.id, stored.evaluator, "not_rerun", detail)
    again = verify(verifiers[stored.evaluator], task, trajectory)
    pairs = ((field.name, getattr(stored, field.name), getattr(again, field.name)) for field in fields(stored))
    detail = "; ".join(f"{name} was {old!r}, is now {new!r}" for name, old, new in pairs if old != new)
    return Reverified(trajectory.id, stored.evaluator, "same" if again == stored else "differs", detail)
