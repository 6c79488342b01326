"""The panel of unusual but right solutions: its size, where it fits, and that all of it is accepted."""

from collections import Counter

import pytest

from upturn.environments.office import OfficeKit
from upturn.environments.office.families.robustness.compound import FAMILIES as COMPOUND
from upturn.environments.office.kit import RenamedKit
from upturn.environments.office.renaming import renamed
from upturn.environments.office.solutions import PANEL, right_solutions
from upturn.environments.office.tasks import FAMILIES, compose, make_task
from upturn.environments.scripted_policy import play
from upturn.records import Task

TASKS = 8
SLOWER = 1
"""Tasks per family and split that every solution is tried on here; ``upturn env validate office`` tries 40."""


def failures(kit: OfficeKit | RenamedKit, task: Task) -> list[str]:
    """Returns the solutions that the verifier rejects, with the failed gates."""
    rejected = []
    for name, policy in kit.right_solutions(task).items():
        trajectory = play(kit.environment(task), task, policy, max_turns=200)
        gates = [gate for gate in kit.verifier.verify(task, trajectory).gates if not gate.is_passed]
        rejected += [f"{name}: {gate.name} {gate.detail}" for gate in gates]
    return rejected


def test_the_panel_has_sixty_solutions_or_more_and_each_fits_a_family() -> None:
    fitting: Counter[str] = Counter()
    for family in FAMILIES:
        tasks = (make_task(family, number) for number in range(TASKS))
        fitting.update({name for task in tasks for name in right_solutions(compose(task))})
    assert len(PANEL) >= 60
    assert set(PANEL) == set(fitting)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_unusual_right_solution_is_accepted(family: str) -> None:
    for number in range(SLOWER):
        assert failures(OfficeKit(), make_task(family, number)) == []
        assert failures(OfficeKit(), make_task(family, number + 1, split="heldout")) == []


def test_solutions_are_accepted_under_other_names_too() -> None:
    for family in ("mail_to_several_partly", "row_missing", "table_summary"):
        assert failures(RenamedKit(), renamed(make_task(family, 1))) == []


def test_solutions_of_compound_families_are_accepted_in_more_tasks() -> None:
    for family in COMPOUND:
        for number in range(SLOWER, TASKS):
            assert failures(OfficeKit(), make_task(family.name, number)) == []
