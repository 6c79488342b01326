"""Held-out evaluations: equal tasks for all versions, every trajectory evaluated and stored."""

from pathlib import Path
from types import ModuleType

import pytest

from upturn.environments.office import OfficeKit
from upturn.environments.office.suites import suite_named
from upturn.loop.agent_runtime import Purpose
from upturn.loop.evaluation.evaluate import (
    evaluate_version,
    evaluation_tasks,
    extra_heldout_tasks,
    families_of,
    levels_of,
)
from upturn.pool import Selection

FAMILIES = ("cell_say", "mail_number", "row_ask")


def test_evaluation_tasks_are_full_rounds_of_the_split(desk: ModuleType) -> None:
    kit = desk.kit()
    tasks = evaluation_tasks(kit, ["sums", "products"], 31, seed=3, split="heldout")
    assert [task.family for task in tasks] == ["sums", "products"] * 16
    assert {task.split for task in tasks} == {"heldout"}
    assert tasks == evaluation_tasks(kit, ["sums", "products"], 31, seed=3, split="heldout")
    others = evaluation_tasks(kit, ["sums", "products"], 31, seed=4, split="heldout")
    assert not {task.id for task in tasks} & {task.id for task in others}


def test_rates_and_paired_gain(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run") as context:
        tasks = evaluation_tasks(context.kit, context.trained_families, 40, seed=0, split="heldout")
        results = {
            name: evaluate_version(
                context.runtime, served.incumbent, tasks, context.purpose(name), pool=context.pool
            )
            for name, served in context.router.registry.agents().items()
        }
        again = evaluate_version(
            context.runtime, context.service.versions()["adder@base"], tasks, context.purpose("adder"), pool=None
        )
        stored = context.pool.selected(Selection(run=context.purpose("adder").key), tenant="default")
    adder = results["adder"]
    assert again == adder
    assert [item.trajectory_id for item in stored] == [mark.trajectory_id for mark in adder.marks]
    assert (adder.rate(), adder.rate(family="sums"), adder.rate(family="products")) == (0.5, 1.0, 0.0)
    assert (adder.rate(level=1), adder.rate(level=2), adder.outcomes(level=2)) == (0.5, 0.0, [])
    gain = results["solver"].gain_over(adder)
    assert (gain.mean, gain.n) == (0.5, 40)
    assert 0.3 < gain.low < 0.5 < gain.high < 0.7
    assert results["refuser"].gain_over(adder).mean == -0.5
    assert (levels_of(adder.marks), families_of(adder.marks)) == ([1], ["sums", "products"])


def test_gain_over_other_tasks_is_refused(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run") as context:
        version = context.service.versions()["adder@base"]
        heldout_results = [
            evaluate_version(
                context.runtime,
                version,
                evaluation_tasks(context.kit, ["sums"], 5, seed=seed, split="heldout"),
                Purpose(f"p{seed}", 0),
                pool=None,
            )
            for seed in (0, 1)
        ]
    with pytest.raises(AssertionError):
        heldout_results[0].gain_over(heldout_results[1])


def test_missing_verdict_is_marked_and_counts_as_failure(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(environment={"name": "toy_desk:unjudged_kit"})
    with desk.opened(tmp_path / "run", config) as context:
        tasks = evaluation_tasks(context.kit, ["sums"], 6, seed=0, split="heldout")
        heldout = evaluate_version(
            context.runtime, context.service.versions()["solver@base"], tasks, Purpose("p", 0), pool=None
        )
    assert all(
        mark.is_missing and not mark.is_success and all(value is None for value in mark.rewards.values())
        for mark in heldout.marks
    )
    assert (heldout.rate(), len(heldout.marks)) == (0.0, 6)


def test_a_cost_that_was_not_evaluated_is_missing_and_not_zero(desk: ModuleType, tmp_path: Path) -> None:
    """Three of nine trajectories have no verdict; three of the other six are unsafe."""
    config = desk.config(environment={"verifier": "toy_desk:costly_judge"})
    with desk.opened(tmp_path / "run", config) as context:
        tasks = evaluation_tasks(context.kit, ["sums"], 9, seed=0, split="heldout")
        heldout = evaluate_version(
            context.runtime, context.service.versions()["solver@base"], tasks, Purpose("p", 0), pool=None
        )
    assert [dict(mark.costs) for mark in heldout.marks] == [
        {"error": 0.0, "safety": 0.0},
        {"error": 0.0, "safety": 1.0},
        {},
    ] * 3
    assert heldout.costs() == {"error": (0.0, 3), "safety": (0.5, 3)}


def test_extra_heldout_tasks_are_in_no_evaluation_or_suite() -> None:
    kit = OfficeKit()
    tasks = extra_heldout_tasks(kit, FAMILIES, 7, seed=3)
    assert len(tasks) == 9
    assert all(sorted(task.family for task in tasks[start : start + 3]) == list(FAMILIES) for start in (0, 3, 6))
    assert {(task.split, task.environment) for task in tasks} == {("heldout", "office")}
    assert tasks == extra_heldout_tasks(kit, FAMILIES, 7, seed=3)
    ids = {task.id for task in tasks}
    assert len(ids) == 9
    others = [
        *extra_heldout_tasks(kit, FAMILIES, 7, seed=4),
        *evaluation_tasks(kit, FAMILIES, 9, seed=3, split="heldout"),
        *(entry.task for entry in suite_named("prodbench-easy").entries if entry.family in FAMILIES),
    ]
    assert not ids & {task.id for task in others}
