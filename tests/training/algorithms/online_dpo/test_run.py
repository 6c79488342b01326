"""DPO in rounds: learns the best action, counts dropped comparisons, and stops and resumes exactly."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.online_dpo.run import PreferenceRounds, run_online_dpo
from upturn.training.algorithms.ppo import CriticSettings
from upturn.training.distributed.weights import copy_tensors, weight_tensors
from upturn.training.optimisation.critic import value_model
from upturn.training.pair_settings import PairObjectiveSettings, PairSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.metric import UNREPEATED, metric_of
from upturn.training.runs.run_folder import CURVE_FILE, read_description

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
Toy = Callable[..., Any]
"""``CopyTask`` of conftest."""
TURN = PairSettings(by="turn")
MIXED = PairSettings(by="turn", monte_carlo_share=0.5)
PLAIN = OnlineDpoSettings(iterations=3, evaluate_every=None, keep="final")


@pytest.mark.parametrize(
    ("pairs", "reference"),
    [
        (PairSettings(), "recorded"),
        pytest.param(TURN, "recorded", marks=pytest.mark.slow),
        pytest.param(TURN, "initial", marks=pytest.mark.slow),
    ],
    ids=["best and worst", "actions", "actions, held near the start"],
)
def test_copying_is_learned_to_95_percent(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, pairs: PairSettings, reference: str
) -> None:
    task = copy_task(tiny_model())
    assert task.score(0) < 0.15
    settings = OnlineDpoSettings(
        iterations=120,
        pairs=pairs,
        reference=reference,  # type: ignore[arg-type]
        optimiser=OptimiserSettings(learning_rate=5e-3),
        evaluate_every=5,
        target_score=0.95,
        checkpoint_every=100,
    )
    outcome = run_online_dpo(task.model, task.collect, settings, RunOptions(0, tmp_path, evaluate=task.score))
    assert outcome.stopped == "target"
    assert task.score(0) == outcome.best_score
    points = read_curve(tmp_path / CURVE_FILE)
    assert {name for point in points for name in point.metrics if metric_of(name) is None} == set()
    assert read_description(tmp_path).plan.unit == "round"


def _group(make: Make, rewards: Sequence[float | None], task: str = "task") -> ScoredGroup:
    members = tuple(
        ScoredTrajectory(
            make((1, 2, 3 + index), ((0, 2, 3),), name=f"{task}/{index}", task=task),
            None if reward is None else (reward,),
        )
        for index, reward in enumerate(rewards)
    )
    return ScoredGroup(Task(task, "", "", ""), members)


def test_a_round_without_pairs_takes_no_step(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    model = tiny_model()
    before = copy_tensors(weight_tensors(model))
    groups = [_group(make_trajectory, [1.0, 1.0]), _group(make_trajectory, [None, 1.0], "other")]
    outcome = run_online_dpo(model, lambda _: groups, PLAIN, RunOptions(0, tmp_path))
    assert (outcome.units, outcome.steps) == (3, 0)
    assert all(torch.equal(before[name], tensor) for name, tensor in weight_tensors(model).items())
    (point, *_) = read_curve(tmp_path / CURVE_FILE)
    shown = {
        "trajectories": 4.0,
        "groups": 2.0,
        "mean_return": 1.0,
        "unscorable": 1.0,
        "pairs": 0.0,
        "equal_pairs": 1.0,
    }
    assert {name: point.metrics[name] for name in shown} == shown


def test_every_pair_is_in_one_step_of_each_epoch(make_trajectory: Make) -> None:
    groups = [_group(make_trajectory, [1.0, 0.0], str(index)) for index in range(5)]
    settings = replace(PLAIN, epochs=2, batch_pairs=2)
    rounds = PreferenceRounds(lambda _: groups, settings, 3)
    for index in range(2):
        minibatches = rounds.unit(index).minibatches
        assert [stream.denominator for (stream,) in minibatches] == [2.0] * 6
        held = [sorted({row.pair or "" for row in stream.rows}) for (stream,) in minibatches]
        assert [len(names) for names in held] == [2, 2, 1] * 2
        for epoch in (held[:3], held[3:]):
            assert sorted(name for names in epoch for name in names) == [f"{at}/0 > {at}/1" for at in range(5)]
        again = rounds.unit(index).minibatches
        assert [[row.pair for row in stream.rows] for (stream,) in again] == [
            [row.pair for row in stream.rows] for (stream,) in minibatches
        ]


def test_the_reference_is_that_of_the_round_or_of_the_run(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    """In the second round the model has its sampling weights, but no longer the initial ones."""
    first_losses = {}
    for reference in ("recorded", "initial"):
        task = copy_task(tiny_model())
        settings = replace(
            PLAIN,
            iterations=2,
            reference=reference,
            pairs=TURN,
            batch_pairs=10_000,
            optimiser=OptimiserSettings(learning_rate=1e-2),
        )
        run_online_dpo(task.model, task.collect, settings, RunOptions(0, tmp_path / reference))
        points = read_curve(tmp_path / reference / CURVE_FILE)
        first_losses[reference] = [point.metrics["loss"] for point in points]
    assert first_losses["recorded"] == pytest.approx([math.log(2)] * 2, rel=1e-5)
    assert first_losses["initial"][0] == pytest.approx(math.log(2), rel=1e-5)
    assert first_losses["initial"][1] != pytest.approx(math.log(2), rel=1e-3)


class _InterruptedError(Exception):
    """Stops a run in a test."""


@pytest.mark.parametrize(
    ("reference", "pairs", "critic"),
    [
        ("recorded", TURN, None),
        ("initial", TURN, None),
        ("recorded", MIXED, CriticSettings(learning_rate=1e-2, alone_iterations=1, value_clip=0.2, warmup_steps=3)),
    ],
    ids=["recorded", "initial", "critic"],
)
def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    tiny_model: Model,
    copy_task: Toy,
    tmp_path: Path,
    reference: str,
    pairs: PairSettings,
    critic: CriticSettings | None,
) -> None:
    settings = OnlineDpoSettings(
        iterations=4,
        pairs=pairs,
        critic=critic,
        epochs=2,
        batch_pairs=16,
        reference=reference,  # type: ignore[arg-type]
        objective=PairObjectiveSettings(sft_coefficient=0.1),
        optimiser=OptimiserSettings(learning_rate=1e-2),
        decay="linear",
        evaluate_every=None,
        keep="final",
    )

    def run(folder: str, stop_at: int | None = None) -> PreTrainedModel:
        task = copy_task(tiny_model())

        def collect(index: int) -> list[ScoredGroup]:
            if index == stop_at:
                raise _InterruptedError
            groups: list[ScoredGroup] = task.collect(index)
            return groups

        run_online_dpo(task.model, collect, settings, RunOptions(1, tmp_path / folder))
        model: PreTrainedModel = task.model
        return model

    straight = weight_tensors(run("straight"))
    with pytest.raises(_InterruptedError):
        run("resumed", stop_at=2)
    resumed = weight_tensors(run("resumed"))
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in straight.items())
    curves = [read_curve(tmp_path / folder / CURVE_FILE) for folder in ("straight", "resumed")]
    metrics = [
        [{name: value for name, value in point.metrics.items() if name not in UNREPEATED} for point in curve]
        for curve in curves
    ]
    assert metrics[0] == metrics[1]
    rates = [point.metrics["learning_rate"] for point in curves[0]]
    assert rates == pytest.approx([1e-2, 7.5e-3, 5e-3, 2.5e-3])
    if critic is not None:
        rates = [point.metrics["critic_learning_rate"] for point in curves[0]]
        assert rates == pytest.approx([1e-2, 7.5e-3, 5e-3, 2.5e-3])  # four steps a round: three warm up
        assert curves[0][3].metrics["mean_value"] != 0.0


class _Critic:
    """Thinks that the smaller token is better."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, group: ScoredGroup) -> Sequence[Sequence[float | None]]:
        return [[-self.scale * member.trajectory.rows[0].token_ids[-1]] for member in group.members]


def test_a_fixed_critic_can_decide_alone_and_is_part_of_the_runs_identity(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    groups = [_group(make_trajectory, [0.0, 1.0])]
    settings = replace(PLAIN, iterations=1, pairs=PairSettings(by="turn", monte_carlo_share=0.0))
    rounds = PreferenceRounds(lambda _: groups, settings, 0, critic=_Critic(1.0))
    ((stream,),) = rounds.unit(0).minibatches
    assert {row.pair for row in stream.rows} == {"task/0@0 > task/1@0"}

    def run(scale: float) -> None:
        run_online_dpo(tiny_model(), lambda _: groups, settings, RunOptions(0, tmp_path), critic=_Critic(scale))

    run(1.0)
    run(1.0)
    with pytest.raises(TrainingError, match="another run: critic is"):
        run(2.0)


def test_an_earlier_value_model_is_trained_further_and_is_part_of_the_runs_identity(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    task, network = copy_task(tiny_model(), group_size=4), value_model(tiny_model())
    settings = replace(PLAIN, iterations=2, pairs=MIXED, critic=CriticSettings(learning_rate=1e-2))
    for name in ("first", "second"):
        before = copy_tensors(weight_tensors(network))
        run_online_dpo(task.model, task.collect, settings, RunOptions(0, tmp_path / name), critic=network)
        assert not all(torch.equal(before[name], value) for name, value in weight_tensors(network).items())
    values = [read_curve(tmp_path / name / CURVE_FILE)[0].metrics["mean_value"] for name in ("first", "second")]
    assert values[0] == 0.0
    assert values[1] != 0.0
    with pytest.raises(TrainingError, match="another run"):
        run_online_dpo(task.model, task.collect, settings, RunOptions(0, tmp_path / "second"), critic=network)


def test_a_critic_of_the_wrong_kind_is_refused(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    groups, model = [_group(make_trajectory, [0.0, 1.0])], tiny_model()
    fixed = replace(PLAIN, pairs=MIXED)

    def run(settings: OnlineDpoSettings, critic: object) -> None:
        untyped: Any = critic
        run_online_dpo(model, lambda _: groups, settings, RunOptions(0, tmp_path), critic=untyped)

    with pytest.raises(
        TrainingError, match=r"a Qwen2ForCausalLM with settings\.critic=None: a value model is trained"
    ):
        run(fixed, value_model(model))
    with pytest.raises(TrainingError, match=r"a _Critic with settings\.critic=CriticSettings"):
        run(replace(fixed, critic=CriticSettings()), _Critic(1.0))
    with pytest.raises(TrainingError, match=r"monte_carlo_share=0\.5 with no critic"):
        run(fixed, None)
    with pytest.raises(TrainingError, match="a critic needs one output per state"):
        run(replace(fixed, critic=CriticSettings()), tiny_model())


def test_unusable_calls_are_refused(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    def refused(message: str, collect: Callable[[int], Sequence[ScoredGroup]], seed: int = 0) -> None:
        with pytest.raises(TrainingError, match=message):
            run_online_dpo(tiny_model(), collect, PLAIN, RunOptions(seed, tmp_path))

    groups = [_group(make_trajectory, [1.0, 0.0])]
    refused("round 0 collected no trajectories", lambda _: [])
    refused("two trajectories of one iteration have the id", lambda _: groups * 2)
    refused("seed must be 0 or more, got -1", lambda _: groups, seed=-1)
    rendered_trajectory = replace(groups[0].members[1].trajectory, origin="rendered")
    rendered = replace(
        groups[0], members=(groups[0].members[0], replace(groups[0].members[1], trajectory=rendered_trajectory))
    )
    refused("'task/1' is 'rendered': it has no log-probs of a sampler", lambda _: [rendered])
    pairs = PairSettings(by="turn", monte_carlo_share=0.0, gamma=0.9)
    with pytest.raises(TrainingError, match=r"pairs\.gamma=0\.9 would do nothing with pairs\.monte_carlo_share=0"):
        run_online_dpo(
            tiny_model(),
            lambda _: groups,
            replace(PLAIN, pairs=pairs),
            RunOptions(0, tmp_path),
            critic=lambda _: [],
        )
    with pytest.raises(TrainingError, match="evaluate_every=5 with no evaluate function"):
        run_online_dpo(tiny_model(), lambda _: groups, OnlineDpoSettings(keep="final"), RunOptions(0, tmp_path))
