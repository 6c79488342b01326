"""The world-model stage within a run: from stored attempts of all kinds to a version that goes on to practise."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.config import AgentConfig
from upturn.errors import TrainingError
from upturn.loop.cycle import serve
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.run.context import Context, version_of
from upturn.loop.trainers import world_model
from upturn.loop.trainers.candidate import training_folder
from upturn.loop.trainers.pool_data import demonstrations_in
from upturn.loop.trainers.registry import parse_full_config
from upturn.loop.trainers.training_plan import Plan
from upturn.loop.trainers.world_model import (
    is_held_out,
    observed,
    own_rows,
    take_world_snapshot,
    train_world_model,
)
from upturn.models.shipped import load_local
from upturn.report.training import TrainingReport
from upturn.training.algorithms.sft import SftSettings
from upturn.training.algorithms.world_model.settings import WorldModelSettings
from upturn.training.policy_settings import KlSettings, ObjectiveSettings
from upturn.training.runs.curve import CurvePoint, read_curve
from upturn.training.runs.run_folder import CURVE_FILE, RunDescription, RunPlan, read_outcome

ERRANDS = {
    "run": {"threads": 1},
    "agents": [
        {"name": "nano", "kind": "local_model", "model": MODEL},
        {"name": "rules", "kind": "rule_based", "import_path": "benchmarks.errands.rules:act"},
    ],
    "environment": {"name": ENVIRONMENT, "max_turns": 6, "max_tokens": 200, "max_action_tokens": 40},
    "tasks": {"count": 96, "heldout_count": 31, "families": ["mail_file", "unread_count", "sheet_total"]},
    "loop": {"train": []},
}
SHORT = WorldModelSettings(
    transitions_per_iteration=4,
    group_size=2,
    easy=None,
    warm_up=SftSettings(epochs=1),
    iterations=2,
    minibatches=2,
    objective=ObjectiveSettings(kl=KlSettings(0.01)),
    evaluate_every=2,
)
NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)


def _opened(desk: ModuleType, folder: Path) -> AbstractContextManager[Context]:
    opened: AbstractContextManager[Context] = desk.opened(folder, parse_full_config(ERRANDS))
    return opened


def test_a_plan_counts_the_predictions_that_are_sampled(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds each: those of practice, of what is too easy before it, and of the evaluations."""
    rest = Plan("world-model", "", 7, "iteration", 1, 1, 1, 100.0, "")
    monkeypatch.setattr(world_model, "rows_plan", lambda *_, **__: rest)
    monkeypatch.setattr(world_model, "FEW_TRANSITIONS", 3)
    own = {"iterations": 7, "evaluate_every": 3, "transitions_per_iteration": 5, "group_size": 4}
    settings = parse_full_config({**ERRANDS, "pool": {"path": str(tmp_path / "pool.db")}, "world_model": own})
    with desk.opened(tmp_path / "run", settings) as context:
        serve(context, "serve", 32)
        worker = PolicyWorker(context.runtime, version_of(NANO))
        world = observed(demonstrations_in(context, take_world_snapshot(context)), worker)
        assert world_model._seconds(worker, world.trained[:2]) > 0
        probed: list[int] = []

        def seconds(_: PolicyWorker, some: Sequence[object]) -> float:
            probed.append(len(some))
            return 2.0

        monkeypatch.setattr(world_model, "_seconds", seconds)
        found = world_model.plan(context, version_of(NANO))
    predictions = 7 * 5 * 4 + 8 * len(world.trained) + 4 * len(world.held_out)
    assert len(world.trained) > 3 and world.held_out
    assert (found.seconds, probed) == (100.0 + 2.0 * predictions, [3])
    assert found.basis.endswith("predictions of 3 of their answers take here; without held-out evaluations")


@pytest.mark.slow
def test_attempts_of_all_kinds_teach_the_world_and_become_a_version(desk: ModuleType, tmp_path: Path) -> None:
    with _opened(desk, tmp_path / "run") as context:
        serve(context, "serve", 32)
        snapshot = take_world_snapshot(context)
        world = observed(demonstrations_in(context, snapshot), PolicyWorker(context.runtime, version_of(NANO)))
        attempts = demonstrations_in(context, snapshot)
        own = [each for each in attempts if each.agent_version == version_of(NANO).id]
        rehearsed = own_rows(attempts, version_of(NANO))
        version = train_world_model(context, version_of(NANO), snapshot, "world", settings=SHORT)
        folder = training_folder(context, "world")
    trajectories = {name.rpartition("/")[0] for name in (each.id for each in world.trained)}
    assert len(snapshot.trajectory_ids) == 32
    assert {row.trajectory_id for row in rehearsed} == {each.id for each in own}
    assert 0 < len(own) < 32
    assert trajectories < set(snapshot.trajectory_ids)
    assert {"mail.move", "user.finish"} <= {each.tool for each in world.trained}
    assert {is_held_out(each.task_id) for each in world.trained} == {False}
    assert {is_held_out(each.task_id) for each in world.held_out} == {True}
    assert {each.prompt_ids for each in world.trained}.isdisjoint(each.prompt_ids for each in world.held_out)
    assert (version.agent, version.parent, version.snapshot) == ("nano", version_of(NANO).id, snapshot.id)
    assert version.weights_hash not in {"", version_of(NANO).weights_hash}
    assert load_local(version.model).model is not None
    outcome = read_outcome(folder)
    assert outcome is not None and outcome.units == 2
    first = read_curve(folder / CURVE_FILE)[0].metrics
    assert first["score"] == pytest.approx(first["held_out_right"] - first["held_out_usual"])  # type: ignore[operator]


def test_the_lift_over_the_most_common_answer_is_reported() -> None:
    first = {"score": -0.125, "score_tasks": 40.0, "held_out_right": 0.25, "held_out_usual": 0.375}
    later = {"score": 0.05, "score_tasks": 40.0, "held_out_right": 0.425, "held_out_usual": 0.375}
    points = (CurvePoint(0, 0, first), CurvePoint(2, 2, later))
    description = RunDescription({"algorithm": "grpo"}, RunPlan(2, 2, 1, "best"))
    report = TrainingReport("world-model", description, points, None, has_warm_up=True)
    found = world_model.learned(version_of(NANO), report)
    assert [(each.name, each.value, each.unit, each.n) for each in found.results] == [
        ("lift_first", -0.125, "share", 40),
        ("lift", 0.05, "share", 40),
    ]
    assert found.lines[-1] == (
        "Of 40 held-out answers the version predicts 42.5 % right, and always naming a tool's most common answer "
        "37.5 %: the lift is +5.0 points, and was -12.5 after the warm-up."
    )


def test_a_pool_without_attempts_is_refused_with_the_cure(desk: ModuleType, tmp_path: Path) -> None:
    with (
        _opened(desk, tmp_path) as context,
        pytest.raises(TrainingError, match=r"no attempt at mail_file.*let an agent"),
    ):
        take_world_snapshot(context)


def test_one_task_in_eight_is_held_out() -> None:
    """1,000 ids: mean 125, deviation 10.5; outside of 80..170 with probability below 1e-4. Ids decide alone."""
    held = [is_held_out(f"task-{number}") for number in range(1000)]
    assert 80 <= sum(held) <= 170
    assert held == [is_held_out(f"task-{number}") for number in range(1000)]
