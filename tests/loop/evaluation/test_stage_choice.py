"""The choice between training stages: on which tasks, by which order, and once."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.loop.evaluation import stage_choice
from upturn.loop.evaluation.evaluate import evaluate_version, heldout_tasks
from upturn.loop.evaluation.model_selection import selection_tasks
from upturn.loop.evaluation.stage_choice import Stage, StageChoice, choose_stage, stage_tasks
from upturn.loop.run.journal import read_progress
from upturn.loop.run.task_source import FileKit
from upturn.records import AgentVersion, Task

SOLVER = AgentVersion("adder", "sft", "callable", model="toy_desk:solver")
ADDER = AgentVersion("adder", "grpo", "callable", model="toy_desk:adder")


def test_the_stage_with_the_most_successes_is_chosen(desk: ModuleType, tmp_path: Path) -> None:
    """Sums and products take turns: the solver solves 32 of 32, the adder 16."""
    config = desk.config(tasks={"heldout_count": 32})
    with desk.opened(tmp_path / "run", config) as context:
        choice = choose_stage(context, "c/", {"SFT": SOLVER, "GRPO": ADDER}, {})
        reversed_order = choose_stage(context, "d/", {"SFT": ADDER, "GRPO": SOLVER}, {})
        assert not list(context.pool.trajectories(tenant="default"))  # the next cycle would train on them
    assert choice.stages[0].low == pytest.approx(0.025 ** (1 / 32))
    assert choice.stages[0] == Stage("SFT", "adder@sft", 1.0, choice.stages[0].low, 1.0, 32)
    assert (choice.stages[1].success, choice.stages[1].n) == (0.5, 32)
    assert (choice.chosen, reversed_order.chosen) == ("SFT", "GRPO")
    assert choice.sentence == (
        "On 32 validation tasks, 100.0 % after SFT and 50.0 % after GRPO: the version after SFT was chosen "
        "(training templates in unseen worlds)."
    )
    figures = [(result.name, result.value, result.n) for result in choice.results("cycle_1_")]
    assert figures == [
        ("cycle_1_stage_sft", 1.0, 32),
        ("cycle_1_stage_grpo", 0.5, 32),
        ("cycle_1_stage", "SFT", None),
    ]


def test_of_equal_stages_the_last_is_chosen(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run", desk.config(tasks={"heldout_count": 8})) as context:
        same = replace(ADDER, version="other")
        assert choose_stage(context, "", {"SFT": same, "GRPO": ADDER}, {}).chosen == "GRPO"


def test_a_stage_above_its_limits_loses_to_one_within(desk: ModuleType, tmp_path: Path) -> None:
    """The judge gives every version a success; of its two evaluated in three, one is unsafe: a mean cost of .5."""
    config = desk.config(tasks={"heldout_count": 6}, environment={"verifier": "toy_desk:costly_judge"})
    versions = {"SFT": SOLVER, "GRPO": ADDER}
    with desk.opened(tmp_path / "run", config) as context:
        stage = choose_stage(context, "a/", versions, {"safety": 0.4}).stages[0]
        assert not stage.is_within_limits
        assert choose_stage(context, "b/", versions, {"safety": 0.5}).stages[0].is_within_limits
    above = Stage("SFT", "a@1", 0.9, 0.8, 1.0, 30, is_within_limits=False)
    text = StageChoice((above, Stage("GRPO", "a@2", 0.7, 0.5, 0.8, 30)), "GRPO", "m").sentence
    assert "90.0 % after SFT, above its limits on costs and 70.0 % after GRPO" in text


def test_limits_come_before_success(desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk.opened(tmp_path / "run", desk.config(tasks={"heldout_count": 8})) as context:
        measured = stage_choice._stage

        def over_its_limits(name: str, *rest: object) -> Stage:
            return replace(measured(name, *rest), is_within_limits=name != "SFT")  # type: ignore[arg-type]

        monkeypatch.setattr(stage_choice, "_stage", over_its_limits)
        assert choose_stage(context, "", {"SFT": SOLVER, "GRPO": ADDER}, {}).chosen == "GRPO"


def test_an_evaluated_stage_is_not_evaluated_again(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupted(runtime: object, version: AgentVersion, *rest: object, **options: object) -> object:
        calls.append(version.id)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate_version(runtime, version, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(stage_choice, "evaluate_version", interrupted)
    config, versions = desk.config(tasks={"heldout_count": 8}), {"SFT": SOLVER, "GRPO": ADDER}
    with desk.opened(tmp_path / "run", config) as context, pytest.raises(KeyboardInterrupt):
        choose_stage(context, "c/", versions, {})
    with desk.opened(tmp_path / "run", config) as context:
        assert choose_stage(context, "c/", versions, {}).chosen == "SFT"
    assert calls == ["adder@sft", "adder@grpo", "adder@grpo"]
    steps = [step.name for step in read_progress(tmp_path / "run").steps]
    assert steps == ["begin", "c/stage-sft", "c/stage-grpo"]


@pytest.mark.parametrize(("heldout", "count"), [(80, 80), (500, 216)])
def test_its_tasks_are_bounded_and_used_for_nothing_else(
    desk: ModuleType, tmp_path: Path, heldout: int, count: int
) -> None:
    with desk.opened(tmp_path / "run", desk.config(tasks={"heldout_count": heldout})) as context:
        tasks = stage_tasks(context).tasks
        assert len(tasks) == count
        assert {task.split for task in tasks} == {"train"}
        others = [*heldout_tasks(context), *selection_tasks(context).tasks, *context.next_tasks(400)]
        assert {task.id for task in tasks}.isdisjoint(task.id for task in others)


@pytest.mark.parametrize(("aside", "fresh"), [(124, 16), (120, 0)])
def test_of_a_file_they_are_others_than_those_of_model_selection_if_it_has_enough(
    desk: ModuleType, tmp_path: Path, aside: int, fresh: int
) -> None:
    """Model selection uses 108; with fewer than 16 others they are shared, which is said."""
    with desk.opened(tmp_path / "run", desk.config(tasks={"heldout_count": 40})) as context:
        tasks = [Task(f"t{number}", f"add {number} 1", "sums", "desk") for number in range(aside)]
        kit = FileKit(desk.kit(), context.kit.verifier, tasks, aside={task.id for task in tasks})
        told = replace(context, kit=kit)
        chosen, selected = stage_tasks(told), {task.id for task in selection_tasks(told).tasks}
        assert len(selected) == 108
        if fresh:
            assert len(chosen.tasks) == fresh
            assert selected.isdisjoint(task.id for task in chosen.tasks)
        else:
            assert len(chosen.tasks) == 40
            assert "favour the stage whose weights were selected on them" in chosen.measure
