"""Held-out tasks beside the suites: drawn by seed, each family alike, none that an heldout or a suite has."""

from upturn.environments.office import OfficeKit
from upturn.environments.office.suites import suite_named
from upturn.loop.evaluation.evaluate import evaluation_tasks
from upturn.loop.evaluation.holdout import holdout

FAMILIES = ("cell_say", "mail_number", "row_ask")


def test_tasks_are_drawn_by_seed_in_full_rounds_over_the_families() -> None:
    kit = OfficeKit()
    drawn = holdout(kit, FAMILIES, 7, seed=3)
    assert len(drawn) == 9
    assert all(sorted(task.family for task in drawn[at : at + 3]) == list(FAMILIES) for at in (0, 3, 6))
    assert {(task.split, task.environment) for task in drawn} == {("heldout", "office")}
    assert drawn == holdout(kit, FAMILIES, 7, seed=3)
    ids = {task.id for task in drawn}
    assert len(ids) == 9
    others = [
        *holdout(kit, FAMILIES, 7, seed=4),
        *evaluation_tasks(kit, FAMILIES, 9, seed=3, split="heldout"),
        *(each.task for each in suite_named("prodbench-easy").entries if each.family in FAMILIES),
    ]
    assert not ids & {task.id for task in others}
