"""GRPO learns toys with known answers, counts filtered groups, and stops and resumes exactly."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from upturn.agents.context import COMPACTED
from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import Task, TokenRow, Trajectory, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantage import Advantage
from upturn.training.advantages import AdvantageSettings, GroupRelative, TurnRelative
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.distributed.weights import copy_tensors, weight_tensors
from upturn.training.outcome import TrainingOutcome
from upturn.training.policy_settings import (
    DynamicSamplingSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
)
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.metric import UNREPEATED
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
Toy = Callable[..., Any]
"""``CopyTask`` of conftest."""
PLAIN = GrpoSettings(iterations=3, evaluate_every=None, keep="final")


def _toy(**changes: object) -> GrpoSettings:
    base = GrpoSettings(
        iterations=100,
        optimiser=OptimiserSettings(learning_rate=5e-3),
        evaluate_every=5,
        target_score=0.95,
        checkpoint_every=100,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "advantage",
    [
        AdvantageSettings(),
        pytest.param(AdvantageSettings(baseline="leave_one_out"), marks=pytest.mark.slow),
        pytest.param(AdvantageSettings(scale="std"), marks=pytest.mark.slow),
    ],
    ids=["centred", "leave one out", "std"],
)
def test_copying_is_learned_to_95_percent(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, advantage: AdvantageSettings
) -> None:
    task = copy_task(tiny_model())
    before = task.score(0)
    outcome = run_grpo(
        task.model, task.collect, _toy(advantage=advantage), RunOptions(0, tmp_path, evaluate=task.score)
    )
    assert before < 0.15
    assert outcome.stopped == "target"
    assert task.score(0) == outcome.best_score
    assert task.score(0) >= 0.95
    curve = read_curve(tmp_path / CURVE_FILE)
    assert all(point.metrics.get("max_logprob_gap", 0.0) < 1e-5 for point in curve)  # type: ignore[operator]
    entropies = [entropy for point in curve if (entropy := point.metrics.get("entropy")) is not None]
    assert entropies[-1] < entropies[0]


def _train_second_turn(model: PreTrainedModel, make_trajectory: Make, folder: Path, constant: float) -> float:
    """Two turns of one token; what the second one writes is rewarded, and every turn gets a constant.

    Returns the expected reward of the second turn, without the constant.
    """

    def collect(iteration: int) -> list[ScoredGroup]:
        generator = torch.Generator().manual_seed(iteration)
        tokens, columns = torch.tensor([[1, 2]] * 24), []
        for _ in range(2):
            with torch.no_grad():
                log_probabilities = model(tokens).logits[:, -1].log_softmax(-1)
            drawn = torch.multinomial(log_probabilities.exp(), 1, generator=generator)
            tokens = torch.cat([tokens, drawn], dim=1)
            columns.append(log_probabilities.gather(1, drawn))
        members = []
        for number, (row, logprobs) in enumerate(zip(tokens.tolist(), torch.cat(columns, 1).tolist(), strict=True)):
            trajectory = make_trajectory(row, ((0, 2, 3), (1, 3, 4)), name=str(number), logprobs=logprobs)
            members.append(ScoredTrajectory(trajectory, (constant, constant + float(row[3] < 10))))
        return [ScoredGroup(Task("task", "", "", ""), tuple(members))]

    settings = replace(PLAIN, iterations=25, optimiser=OptimiserSettings(learning_rate=1e-2), minibatches=1)
    run_grpo(model, collect, settings, RunOptions(0, folder))
    with torch.no_grad():
        second = torch.stack(
            [model(torch.tensor([[1, 2, token]])).logits[0, -1].softmax(-1)[:10].sum() for token in range(20)]
        )
        first = model(torch.tensor([[1, 2]])).logits[0, -1].softmax(-1)
    return float((first * second).sum())


def test_credit_goes_to_the_turn_that_earns_the_reward(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    assert _train_second_turn(tiny_model(), make_trajectory, tmp_path, constant=0.0) > 0.9


def test_a_reward_that_every_turn_gets_changes_no_training(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    plain = _train_second_turn(tiny_model(), make_trajectory, tmp_path / "plain", constant=0.0)
    shifted = _train_second_turn(tiny_model(), make_trajectory, tmp_path / "shifted", constant=1.0)
    assert shifted == pytest.approx(plain, abs=1e-5)


def _updates(groups: Sequence[ScoredGroup], **changes: object) -> PolicyGradient:
    return PolicyGradient(lambda _: groups, replace(PLAIN, **changes), seed=0)  # type: ignore[arg-type]


def _group(make: Make, rewards: Sequence[float | None], *, task: str = "task", length: int = 1) -> ScoredGroup:
    members = tuple(
        ScoredTrajectory(
            make((1, 2, *(3,) * length), ((0, 2, 2 + length),), name=f"{task}/{index}", task=task),
            None if reward is None else (reward,),
        )
        for index, reward in enumerate(rewards)
    )
    return ScoredGroup(Task(task, "", "", ""), members)


def test_filtered_groups_are_not_trained_on_but_count_in_the_denominator(make_trajectory: Make) -> None:
    """2·1 tokens with a signal, 3·4 and 2·2 without: 18 in all, 9 for each of the two minibatches."""
    groups = [
        _group(make_trajectory, [1.0, 0.0], task="a"),
        _group(make_trajectory, [1.0, 1.0, 1.0], task="b", length=4),
        _group(make_trajectory, [None, 1.0], task="c", length=2),
    ]
    unit = _updates(groups).unit(0)
    (minibatch,) = unit.minibatches
    (stream,) = minibatch
    assert sorted(row.trajectory_id for row in stream.rows) == ["a/0", "a/1"]
    assert stream.denominator == 9.0
    expected = {
        "trajectories": 7.0,
        "mean_return": 5 / 6,
        "groups": 3.0,
        "filtered_groups": 2.0,
        "unscorable": 1.0,
        "forks": 0.0,
        "compactions": 0.0,
        "refused_outputs": 7.0,  # the turns have no action
        "repaired_calls": 0.0,
        "dropped_calls": 0.0,
        "written_tokens": 18.0,
        "trained_rows": 2.0,
    }
    assert unit.metrics == pytest.approx(expected)


def test_a_member_with_advantage_zero_is_not_trained_on(make_trajectory: Make) -> None:
    unit = _updates([_group(make_trajectory, [0.0, 0.5, 1.0])], minibatches=1).unit(0)
    assert sorted(row.trajectory_id for row in unit.minibatches[0][0].rows) == ["task/0", "task/2"]
    assert unit.minibatches[0][0].denominator == 3.0


def test_an_iteration_without_signal_takes_no_step(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    model = tiny_model()
    before = copy_tensors(weight_tensors(model))
    groups = [_group(make_trajectory, [1.0, 1.0]), _group(make_trajectory, [None, None], task="other")]
    outcome = run_grpo(model, lambda _: groups, PLAIN, RunOptions(0, tmp_path))
    assert (outcome.units, outcome.steps) == (3, 0)
    assert all(torch.equal(before[name], tensor) for name, tensor in weight_tensors(model).items())
    curve = read_curve(tmp_path / CURVE_FILE)
    assert [point.metrics["filtered_groups"] for point in curve] == [2.0] * 3


def test_every_group_with_signal_is_in_one_minibatch_of_the_iteration(make_trajectory: Make) -> None:
    groups = [_group(make_trajectory, [1.0, 0.0], task=str(index)) for index in range(7)]
    updates = _updates(groups, minibatches=3)
    for iteration in range(3):
        minibatches = updates.unit(iteration).minibatches
        tasks = [sorted({row.trajectory_id.split("/")[0] for row in batch[0].rows}) for batch in minibatches]
        assert sorted(len(names) for names in tasks) == [2, 2, 3]
        assert sorted(task for names in tasks for task in names) == [str(index) for index in range(7)]
        again = updates.unit(iteration).minibatches
        assert [[row.trajectory_id for row in batch[0].rows] for batch in again] == [
            [row.trajectory_id for row in batch[0].rows] for batch in minibatches
        ]


def test_splitting_rollouts_into_rows_changes_no_weight_and_no_denominator(make_trajectory: Make) -> None:
    whole = make_trajectory((1, 5, 6, 2, 9, 7, 2), ((0, 2, 4), (1, 5, 7)))
    split = replace(
        whole,
        rows=(
            TokenRow((1, 5, 6, 2), (WrittenSpan(0, 2, 4),), (-1.0, -1.0)),
            TokenRow((1, 9, 7, 2), (WrittenSpan(1, 2, 4),), (-1.0, -1.0), "history_changed"),
        ),
    )
    other = ScoredTrajectory(make_trajectory(name="other"), (0.0,))
    weights, denominators = [], []
    for trajectory in (whole, split):
        group = ScoredGroup(Task("task", "", "", ""), (ScoredTrajectory(trajectory, (0.0, 1.0)), other))
        (minibatch,) = _updates([group], minibatches=1).unit(0).minibatches
        denominators.append(minibatch[0].denominator)
        weights.append(
            [float(weight) for row in minibatch[0].rows if row.trajectory_id == "t" for weight in row.weights]
        )
    assert weights == [[0.5] * 4] * 2
    assert denominators == [5.0, 5.0]
    metrics = _updates([group], minibatches=1).unit(0).metrics
    assert (metrics["forks"], metrics["compactions"]) == (1.0, 0.0)
    first, second = split.rows
    cut = replace(split, rows=(first, replace(second, fork_cause=COMPACTED)))
    compacted = ScoredGroup(group.task, (ScoredTrajectory(cut, (0.0, 1.0)), other))
    metrics = _updates([compacted], minibatches=1).unit(0).metrics
    assert (metrics["forks"], metrics["compactions"]) == (1.0, 1.0)


def test_unusable_rollouts_are_refused_by_name(make_trajectory: Make) -> None:
    rendered = make_trajectory(name="demonstration", origin="rendered", temperature=None)
    task = Task("task", "", "", "")
    group = ScoredGroup(task, (ScoredTrajectory(rendered, (1.0,)), ScoredTrajectory(make_trajectory(), (0.0,))))
    with pytest.raises(TrainingError, match="trajectory 'demonstration' is 'rendered'"):
        _updates([group]).unit(0)
    foreign = ScoredGroup(task, (ScoredTrajectory(make_trajectory(name="x", task="other"), (0.0,)),))
    with pytest.raises(TrainingError, match="trajectory 'x' of task 'other' is in a group of task 'task'"):
        _updates([foreign]).unit(0)
    with pytest.raises(TrainingError, match="iteration 4 collected no trajectories"):
        _updates([ScoredGroup(task, ())]).unit(4)


class _InterruptedError(Exception):
    """Stops a run in a test."""


EVERYTHING = {
    "passes": 2,
    "objective": ObjectiveSettings("cispo", kl=KlSettings(0.05, target=0.01, horizon=500)),
    "advantage": AdvantageSettings(scale="batch_std"),
    "mismatch": MismatchSettings("token", 2.0, "geometric", 0.5, 2.0),
    "dynamic_sampling": DynamicSamplingSettings(max_rounds=2),
}
"""What remembers and what draws more: an adaptive coefficient, a reference, recomputed log-probs, refills."""


@pytest.mark.parametrize(
    ("stop_at", "every", "changes"),
    [(0, 1, {}), (3, 1, {}), (5, 2, {}), (6, 1, {}), (4, 2, EVERYTHING)],
    ids=["first", "fourth", "sixth", "last", "everything"],
)
def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, stop_at: int, every: int, changes: dict[str, object]
) -> None:
    settings = _toy(iterations=7, evaluate_every=3, target_score=None, checkpoint_every=every, **changes)

    def run(task: Any, folder: str, stop_at: int | None = None) -> TrainingOutcome:
        def collect(iteration: int) -> list[ScoredGroup]:
            if iteration == stop_at:
                raise _InterruptedError
            groups: list[ScoredGroup] = task.collect(iteration)
            return groups

        refill = task.refill if settings.dynamic_sampling else None
        return run_grpo(
            task.model, collect, settings, RunOptions(1, tmp_path / folder, evaluate=task.score), refill=refill
        )

    undisturbed, resumed = copy_task(tiny_model()), copy_task(tiny_model())
    expected = run(undisturbed, "a")
    with pytest.raises(_InterruptedError):
        run(copy_task(tiny_model()), "b", stop_at)
    assert run(resumed, "b") == expected
    ours = weight_tensors(resumed.model)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(undisturbed.model).items())
    assert _timeless(tmp_path / "a") == _timeless(tmp_path / "b")
    last = read_curve(tmp_path / "b" / CURVE_FILE)[-1].metrics
    assert ("kl_coefficient" in last) == bool(changes)


def _timeless(folder: Path) -> list[tuple[int, Mapping[str, float | None]]]:
    return [
        (point.units, {name: value for name, value in point.metrics.items() if name not in UNREPEATED})
        for point in read_curve(folder / CURVE_FILE)
    ]


def test_a_checkpoint_of_another_run_is_refused(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    def run(model: PreTrainedModel, settings: GrpoSettings, seed: int) -> None:
        task = copy_task(model, group_size=2)
        run_grpo(model, task.collect, settings, RunOptions(seed, tmp_path))

    run(tiny_model(), PLAIN, 0)
    with pytest.raises(TrainingError, match="seed is '1', the checkpoint has '0'"):
        run(tiny_model(), PLAIN, 1)
    with pytest.raises(TrainingError, match=r"setting passes is '2', the checkpoint has '1'"):
        run(tiny_model(), replace(PLAIN, passes=2), 0)
    with pytest.raises(TrainingError, match="initial weights is"):
        run(tiny_model(1), PLAIN, 0)


def test_recomputed_logprobs_change_nothing_if_sampler_and_trainer_agree(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    """The toy's sampler is the model itself: w = 1 up to rounding, so both ways lead to the same policy."""
    settings = _toy(iterations=4, evaluate_every=None, target_score=None, keep="final")
    scores = []
    for name, mismatch in (("recorded", None), ("recomputed", MismatchSettings())):
        task = copy_task(tiny_model())
        run_grpo(task.model, task.collect, replace(settings, mismatch=mismatch), RunOptions(0, tmp_path / name))
        scores.append(task.score(0))
    assert scores[1] == pytest.approx(scores[0], abs=1e-3)
    for point in read_curve(tmp_path / "recomputed" / CURVE_FILE):
        assert point.metrics["mismatch_weight_max"] == pytest.approx(1.0, abs=1e-5)
        assert point.metrics["mismatch_kl"] == pytest.approx(0.0, abs=1e-9)
        assert point.metrics["mismatch_masked"] == 0.0


@pytest.mark.slow
def test_a_kl_term_keeps_the_model_near_its_initial_weights(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    """Not near those of the last step: the reference is a copy that training does not touch."""
    results = []
    for coefficient in (0.01, 1.0):
        task = copy_task(tiny_model())
        objective = ObjectiveSettings(kl=KlSettings(coefficient, unbiased=True))
        settings = _toy(iterations=30, evaluate_every=None, target_score=None, keep="final", objective=objective)
        folder = tmp_path / str(coefficient)
        run_grpo(task.model, task.collect, settings, RunOptions(0, folder))
        points = read_curve(folder / CURVE_FILE)
        assert points[0].metrics["kl_reference"] == pytest.approx(0.0, abs=1e-2)
        results.append((points[-1].metrics["kl_reference"], task.score(0)))
    (weak_kl, weak_score), (strong_kl, strong_score) = results
    assert weak_kl is not None and strong_kl is not None
    assert weak_kl > 10 * strong_kl
    assert weak_score > 2 * strong_score


def _scripted(
    scores: Sequence[float], model: PreTrainedModel, copy_task: Toy, folder: Path, **changes: object
) -> tuple[object, ...]:
    """Trains with these scores as evaluations; returns (stopped, units, kept_units, evaluated)."""
    evaluated: list[int] = []

    def evaluate(iterations: int) -> float:
        evaluated.append(iterations)
        return scores[len(evaluated) - 1]

    task = copy_task(model, group_size=4)
    settings = _toy(iterations=8, evaluate_every=2, **{"target_score": None, **changes})
    outcome = run_grpo(model, task.collect, settings, RunOptions(0, folder, evaluate=evaluate))
    return outcome.stopped, outcome.units, outcome.kept_units, evaluated


def test_training_stops_at_the_target(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    outcome = _scripted([0.1, 0.5, 0.9], tiny_model(), copy_task, tmp_path, target_score=0.9)
    assert outcome == ("target", 4, 4, [0, 2, 4])


def test_training_stops_when_patience_runs_out(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    outcome = _scripted([0.1, 0.5, 0.5, 0.4], tiny_model(), copy_task, tmp_path, patience=2)
    assert outcome == ("patience", 6, 2, [0, 2, 4, 6])


def test_untrained_weights_are_kept_when_training_only_hurts(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    model = tiny_model()
    before = copy_tensors(weight_tensors(model))
    outcome = _scripted([0.9, 0.5, 0.4, 0.3, 0.2], model, copy_task, tmp_path)
    assert outcome == ("finished", 8, 0, [0, 2, 4, 6, 8])
    assert all(torch.equal(before[name], tensor) for name, tensor in weight_tensors(model).items())


def test_final_weights_are_kept_with_keep_final(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    model = tiny_model()
    before = copy_tensors(weight_tensors(model))
    outcome = _scripted([0.9, 0.5, 0.4, 0.3, 0.2], model, copy_task, tmp_path, keep="final")
    assert outcome == ("finished", 8, 8, [0, 2, 4, 6, 8])
    assert not all(torch.equal(before[name], tensor) for name, tensor in weight_tensors(model).items())


def test_learning_rate_falls_over_the_iterations(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    task = copy_task(tiny_model())
    settings = replace(PLAIN, minibatches=1, decay="linear", optimiser=OptimiserSettings(learning_rate=3e-3))
    run_grpo(task.model, task.collect, settings, RunOptions(0, tmp_path))
    points = read_curve(tmp_path / CURVE_FILE)
    assert [point.metrics["learning_rate"] for point in points] == pytest.approx([3e-3, 2e-3, 1e-3])


def test_learning_rate_falls_by_iteration_whatever_steps_are_taken_and_when_resumed(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    """The second of four iterations has no signal; then the run is stopped, and goes on."""
    settings = replace(
        PLAIN, iterations=4, decay="linear", optimiser=OptimiserSettings(learning_rate=4e-3), checkpoint_every=1
    )

    def run(folder: str, *, stop_at: int | None = None) -> PreTrainedModel:
        task = copy_task(tiny_model())

        def collect(iteration: int) -> list[ScoredGroup]:
            if iteration == stop_at:
                raise KeyboardInterrupt
            groups: list[ScoredGroup] = task.collect(iteration)
            return groups if iteration != 1 else [replace(group, members=group.members[:1]) for group in groups]

        run_grpo(task.model, collect, settings, RunOptions(0, tmp_path / folder))
        model: PreTrainedModel = task.model
        return model

    straight = weight_tensors(run("straight"))
    points = read_curve(tmp_path / "straight" / CURVE_FILE)
    assert [point.metrics["optimiser_steps"] for point in points] == [2.0, 0.0, 2.0, 2.0]
    rates = [rate for point in points if (rate := point.metrics.get("learning_rate")) is not None]
    assert rates == pytest.approx([4e-3, 2e-3, 1e-3])
    with pytest.raises(KeyboardInterrupt):
        run("resumed", stop_at=2)
    resumed = weight_tensors(run("resumed"))
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in straight.items())


@pytest.mark.parametrize("other", [None, GroupRelative(gamma=0.25), TurnRelative(gamma=0.5)])
def test_a_custom_estimator_is_part_of_the_runs_identity(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, other: Advantage | None
) -> None:
    def run(advantage: Advantage | None) -> TrainingOutcome:
        task = copy_task(tiny_model())
        return run_grpo(
            task.model, task.collect, replace(PLAIN, iterations=1), RunOptions(0, tmp_path), advantage=advantage
        )

    first = run(GroupRelative(gamma=0.5))
    assert run(GroupRelative(gamma=0.5)) == first
    with pytest.raises(TrainingError, match=r"another run: advantage is .*, the checkpoint has .*gamma=0\.5, "):
        run(other)
