"""Floors and ceilings of a family, also of kits that can be cheated."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pytest

from benchmarks.errands import ENVIRONMENT
from upturn.environments import resolve_kit
from upturn.environments.office import OfficeKit
from upturn.environments.office.verifier import OfficeVerifier
from upturn.errors import WorldError
from upturn.loop.evaluation.reference_scores import Floor, measure_floor
from upturn.records import Evaluation, Split, Task, Trajectory


@pytest.mark.parametrize(("kit", "family", "level"), [(ENVIRONMENT, "mail_file", 1), ("office", "mail_reply", 2)])
def test_the_oracle_scores_one_and_other_players_zero(kit: str, family: str, level: int) -> None:
    assert measure_floor(resolve_kit(kit), family, seed=3, count=6) == Floor(family, level, 6, 1.0, 0.0, 0.0)


class _Generous:
    """The office's verdict, but success for trajectories without three turns."""

    def __init__(self, inner: OfficeVerifier) -> None:
        self._inner = inner
        self.name = inner.name

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        evaluation = self._inner.verify(task, trajectory)
        return replace(evaluation, verdict="success") if len(trajectory.turns) != 3 else evaluation


def test_a_verifier_that_rewards_doing_nothing_is_detected() -> None:
    kit = OfficeKit()
    kit.verifier = _Generous(kit.verifier)  # type: ignore[assignment]
    floor = measure_floor(kit, "mail_flag", seed=0, count=8)
    assert (floor.oracle, floor.nothing) == (1.0, 1.0)
    assert floor.random > 0.5


class _Few(OfficeKit):
    """Has ``count`` tasks of each family."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        return islice(super().tasks(seed=seed, split=split, families=families), self._count)


def test_rates_are_over_the_tasks_that_the_kit_has() -> None:
    assert measure_floor(_Few(2), "mail_flag", seed=0, count=8) == Floor("mail_flag", 1, 2, 1.0, 0.0, 0.0)
    with pytest.raises(WorldError, match="kit 'office' gave none of 8 training tasks of 'mail_flag'"):
        measure_floor(_Few(0), "mail_flag", seed=0, count=8)
