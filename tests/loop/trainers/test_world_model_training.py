"""World-model training within a run: from stored trajectories of all outcomes to a version."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.config import AgentConfig
from upturn.errors import TrainingError
from upturn.loop.cycle import serve
from upturn.loop.evaluation.evaluate import HeldoutResult
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.run.context import Context, version_of
from upturn.loop.trainers.algorithms import world_model
from upturn.loop.trainers.algorithms.world_model import (
    is_held_out,
    rehearsal_rows,
    split_transitions,
    take_world_snapshot,
    train,
)
from upturn.loop.trainers.candidate import training_folder
from upturn.loop.trainers.pool_data import load_demonstrations
from upturn.loop.trainers.registry import parse_full_config
from upturn.loop.trainers.training_plan import Plan
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
    config = parse_full_config(ERRANDS).with_sections(SHORT)
    opened: AbstractContextManager[Context] = desk.opened(folder, config)
    return opened


def test_a_plan_counts_the_predictions_that_are_sampled(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds each: those of RL training, of the easy ones filtered before it, and of the evaluations."""
    base = Plan("world-model", "", 7, "iteration", 1, 1, 1, 100.0, "")
    monkeypatch.setattr(world_model, "plan_on_rows", lambda *_, **__: base)
    monkeypatch.setattr(world_model, "PROBE_TRANSITIONS", 3)
    section = {"iterations": 7, "evaluate_every": 3, "transitions_per_iteration": 5, "group_size": 4}
    settings = parse_full_config({**ERRANDS, "pool": {"path": str(tmp_path / "pool.db")}, "world_model": section})
    with desk.opened(tmp_path / "run", settings) as context:
        serve(context, "serve", 32)
        worker = PolicyWorker(context.runtime, version_of(NANO))
        transitions = split_transitions(load_demonstrations(context, take_world_snapshot(context)), worker)
        assert world_model.prediction_seconds(worker, transitions.trained[:2]) > 0
        probed: list[int] = []

        def seconds(_: PolicyWorker, probe: Sequence[object]) -> float:
            probed.append(len(probe))
            return 2.0

        monkeypatch.setattr(world_model, "prediction_seconds", seconds)
        plan = world_model.plan(context, version_of(NANO))
    predictions = 7 * 5 * 4 + 8 * len(transitions.trained) + 4 * len(transitions.held_out)
    assert len(transitions.trained) > 3 and transitions.held_out
    assert (plan.seconds, probed) == (100.0 + 2.0 * predictions, [3])
    assert plan.basis.endswith("predictions of 3 of their answers on this machine; without held-out evaluations")


@pytest.mark.slow
def test_trajectories_of_all_outcomes_train_a_version(desk: ModuleType, tmp_path: Path) -> None:
    with _opened(desk, tmp_path / "run") as context:
        serve(context, "serve", 32)
        snapshot = take_world_snapshot(context)
        stored = load_demonstrations(context, snapshot)
        transitions = split_transitions(stored, PolicyWorker(context.runtime, version_of(NANO)))
        own = [trajectory for trajectory in stored if trajectory.agent_version == version_of(NANO).id]
        rehearsed = rehearsal_rows(stored, version_of(NANO))
        version = train(context, version_of(NANO), HeldoutResult("before", "", 1.0, ()), "world").version
        folder = training_folder(context, "world")
    trajectories = {name.rpartition("/")[0] for name in (item.id for item in transitions.trained)}
    assert len(snapshot.trajectory_ids) == 32
    assert {row.trajectory_id for row in rehearsed} == {item.id for item in own}
    assert 0 < len(own) < 32
    assert trajectories < set(snapshot.trajectory_ids)
    assert {"mail.move", "user.finish"} <= {item.tool for item in transitions.trained}
    assert {is_held_out(item.task_id) for item in transitions.trained} == {False}
    assert {is_held_out(item.task_id) for item in transitions.held_out} == {True}
    assert {item.prompt_ids for item in transitions.trained}.isdisjoint(
        item.prompt_ids for item in transitions.held_out
    )
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
    trained = world_model.with_lift(version_of(NANO), report)
    assert [(result.name, result.value, result.unit, result.n) for result in trained.results] == [
        ("lift_first", -0.125, "share", 40),
        ("lift", 0.05, "share", 40),
    ]
    assert trained.lines[-1] == (
        "Of 40 held-out answers the version predicts 42.5 % correctly, and always predicting a tool's most common "
        "answer 37.5 %: the lift is +5.0 points, and was -12.5 after the warm-up."
    )


def test_a_pool_without_trajectories_is_refused_with_the_remedy(desk: ModuleType, tmp_path: Path) -> None:
    with (
        _opened(desk, tmp_path) as context,
        pytest.raises(TrainingError, match=r"no trajectory of mail_file.*let an agent"),
    ):
        take_world_snapshot(context)


def test_one_task_in_eight_is_held_out() -> None:
    """1,000 ids: mean 125, deviation 10.5; outside of 80..170 with probability below 1e-4. Ids decide alone."""
    held = [is_held_out(f"task-{number}") for number in range(1000)]
    assert 80 <= sum(held) <= 170
    assert held == [is_held_out(f"task-{number}") for number in range(1000)]
