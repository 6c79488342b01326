"""Floors and ceilings of a family: counted over real attempts, of kits that can be cheated too."""

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
def test_perfect_work_is_all_and_other_work_nothing(kit: str, family: str, level: int) -> None:
    assert measure_floor(resolve_kit(kit), family, seed=3, count=6) == Floor(family, level, 6, 1.0, 0.0, 0.0)


class _Generous:
    """Judges as the office does, but for attempts that this counts as solved."""

    def __init__(self, inner: OfficeVerifier) -> None:
        self._inner = inner
        self.name = inner.name

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        found = self._inner.verify(task, trajectory)
        return replace(found, verdict="success") if len(trajectory.turns) != 3 else found


def test_a_verifier_that_pays_for_nothing_is_found_out() -> None:
    kit = OfficeKit()
    kit.verifier = _Generous(kit.verifier)  # type: ignore[assignment]
    found = measure_floor(kit, "mail_flag", seed=0, count=8)
    assert (found.oracle, found.nothing) == (1.0, 1.0)
    assert found.random > 0.5


class _Few(OfficeKit):
    """Has so many tasks of each family."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        return islice(super().tasks(seed=seed, split=split, families=families), self._count)


def test_shares_are_of_the_tasks_that_there_are() -> None:
    assert measure_floor(_Few(2), "mail_flag", seed=0, count=8) == Floor("mail_flag", 1, 2, 1.0, 0.0, 0.0)
    with pytest.raises(WorldError, match="kit 'office' gave none of 8 training tasks of 'mail_flag'"):
        measure_floor(_Few(0), "mail_flag", seed=0, count=8)
