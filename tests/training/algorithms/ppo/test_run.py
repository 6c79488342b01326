"""PPO learns toys with known answers, skips unscorable trajectories, and resumes exactly."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.models.engine import weights_hash
from upturn.records import Task, TokenRow, Trajectory, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.algorithms.ppo import CreditSettings, CriticSettings, PpoSettings, StepKind
from upturn.training.algorithms.ppo.run import ProximalPolicy, run_ppo
from upturn.training.data.async_rollouts import AheadCollect
from upturn.training.distributed.weights import copy_tensors, weight_tensors
from upturn.training.optimisation.critic import Critic, value_model
from upturn.training.outcome import TrainingOutcome
from upturn.training.policy_settings import KlSettings, MismatchSettings, ObjectiveSettings
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.metric import UNREPEATED, metric_of
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
Toy = Callable[..., Any]
"""``CopyTask`` of conftest."""
TASK = Task("task", "", "", "")
PLAIN = PpoSettings(iterations=3, evaluate_every=None, keep="final")


def _toy(**changes: object) -> PpoSettings:
    base = PpoSettings(
        iterations=100,
        optimiser=OptimiserSettings(learning_rate=5e-3),
        critic=CriticSettings(learning_rate=5e-3),
        evaluate_every=5,
        target_score=0.95,
        checkpoint_every=100,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [{}, pytest.param({"objective": ObjectiveSettings("turn"), "passes": 2}, marks=pytest.mark.slow)],
    ids=["clipped by token", "clipped by turn"],
)
def test_copying_is_learned_to_95_percent(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, changes: dict[str, object]
) -> None:
    task = copy_task(tiny_model())
    before = task.score(0)
    outcome = run_ppo(task.model, task.collect, _toy(**changes), RunOptions(0, tmp_path, evaluate=task.score))
    assert before < 0.15
    assert outcome.stopped == "target"
    assert task.score(0) == outcome.best_score
    assert task.score(0) >= 0.95


class FirstTurn:
    """Two turns of one token each; the second has the reward 1 if the first wrote one of ten of twenty tokens."""

    def __init__(self, model: PreTrainedModel, make: Make) -> None:
        self.model = model
        self.make = make

    def collect(self, iteration: int) -> list[ScoredGroup]:
        generator = torch.Generator().manual_seed(iteration)
        tokens, columns = torch.tensor([[1, 2]] * 24), []
        for _ in range(2):
            with torch.no_grad():
                log_probabilities = self.model(tokens).logits[:, -1].log_softmax(-1)
            drawn = torch.multinomial(log_probabilities.exp(), 1, generator=generator)
            tokens = torch.cat([tokens, drawn], dim=1)
            columns.append(log_probabilities.gather(1, drawn))
        members = []
        for number, (row, logprobs) in enumerate(zip(tokens.tolist(), torch.cat(columns, 1).tolist(), strict=True)):
            trajectory = self.make(row, ((0, 2, 3), (1, 3, 4)), name=str(number), logprobs=logprobs)
            members.append(ScoredTrajectory(trajectory, (0.0, float(row[2] < 10))))
        return [ScoredGroup(TASK, tuple(members))]

    def score(self, _: int) -> float:
        """The exact expected reward."""
        with torch.no_grad():
            return float(self.model(torch.tensor([[1, 2]])).logits[0, -1].softmax(-1)[:10].sum())


@pytest.mark.parametrize("step", ["turn", "token"])
def test_a_later_reward_credits_the_turn_that_earned_it(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path, step: StepKind
) -> None:
    toy = FirstTurn(tiny_model(), make_trajectory)
    before = toy.score(0)
    settings = _toy(credit=CreditSettings(step))
    outcome = run_ppo(toy.model, toy.collect, settings, RunOptions(0, tmp_path, evaluate=toy.score))
    assert before < 0.7
    assert outcome.stopped == "target"
    last = read_curve(tmp_path / CURVE_FILE)[-1].metrics
    assert last["mean_value"] == pytest.approx(last["mean_return"], abs=0.2)


def _scored(make: Make, name: str, rewards: tuple[float, ...] | None, *, task: str = "task") -> ScoredTrajectory:
    """Two turns, of two and of three tokens."""
    return ScoredTrajectory(make((1, 5, 6, 2, 9, 7, 3), ((0, 1, 3), (1, 4, 7)), name=name, task=task), rewards)


def _algorithm(
    model: PreTrainedModel, groups: Sequence[ScoredGroup], settings: PpoSettings = PLAIN
) -> ProximalPolicy:
    critic = Critic(value_model(model), settings.critic.optimiser(settings.optimiser))
    return ProximalPolicy(lambda _: groups, settings, 0, critic=critic)


def test_stream_weights_of_two_turns_match_hand_computed_values(tiny_model: Model, make_trajectory: Make) -> None:
    """An untrained critic expects 0: A = (0 + .5·.5·2, 2) = (.5, 2) with γ = λ = .5. Five tokens in the loss."""
    settings = replace(PLAIN, minibatches=1, credit=CreditSettings(gamma=0.5, trace=0.5, is_whitened=False))
    group = ScoredGroup(TASK, (_scored(make_trajectory, "t", (0.0, 2.0)),))
    unit = _algorithm(tiny_model(), [group], settings).unit(0)
    ((stream,),) = unit.minibatches
    (row,) = stream.rows
    assert row.weights.tolist() == [0.5, 0.5, 2.0, 2.0, 2.0]
    assert stream.denominator == 5.0
    assert unit.metrics["mean_value"] == 0.0
    assert unit.metrics["mean_return"] == 2.0
    assert unit.metrics["advantage_std"] == 0.75
    assert unit.metrics["value_loss"] < (0.5**2 + 2**2) / 4  # the first of four critic steps saw just this


def test_values_are_computed_before_the_critic_is_trained(tiny_model: Model, make_trajectory: Make) -> None:
    settings = replace(
        PLAIN, credit=CreditSettings(trace=0.0, is_whitened=False), critic=CriticSettings(learning_rate=1e-2)
    )
    algorithm = _algorithm(
        tiny_model(), [ScoredGroup(TASK, (_scored(make_trajectory, "t", (0.0, 1.0)),))], settings
    )
    first, second = algorithm.unit(0), algorithm.unit(1)
    assert first.minibatches[0][0].rows[0].weights.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert 0 < second.minibatches[0][0].rows[0].weights[-1] < 1
    assert second.metrics["mean_value"] > 0


CREDIT, CRITIC = CreditSettings(gamma=0.9), CriticSettings(learning_rate=1e-3, value_clip=0.5)
CHANGES: dict[str, tuple[CreditSettings | CriticSettings, dict[str, object]]] = {
    "step": (CREDIT, {"step": "token"}),
    "gamma": (CREDIT, {"gamma": 0.8}),
    "trace": (CREDIT, {"trace": 0.5}),
    "value_trace": (CREDIT, {"value_trace": 0.5}),
    "is_whitened": (CREDIT, {"is_whitened": False}),
    "learning_rate": (CRITIC, {"learning_rate": 2e-3}),
    "warmup_steps": (CRITIC, {"warmup_steps": 3}),
    "minibatches": (CRITIC, {"minibatches": 1}),
    "passes": (CRITIC, {"passes": 1}),
    "alone_iterations": (CRITIC, {"alone_iterations": 1}),
    "value_clip": (CRITIC, {"value_clip": 0.005}),
}


def _told(model: PreTrainedModel, make: Make, part: CreditSettings | CriticSettings) -> list[object]:
    """Of two iterations: the policy's weights and the critic's numbers."""
    named = {"credit": part} if isinstance(part, CreditSettings) else {"critic": part}
    rewards = {"a": (0.0, 2.0), "b": (1.0, 0.0), "c": (0.5, 0.5)}
    groups = [
        ScoredGroup(replace(TASK, id=name), (_scored(make, name, turns, task=name),))
        for name, turns in rewards.items()
    ]
    algorithm = _algorithm(model, groups, replace(PLAIN, **named))
    results: list[object] = []
    for index in range(2):
        unit = algorithm.unit(index)
        results += [row.weights.tolist() for minibatch in unit.minibatches for row in minibatch[0].rows]
        results.append({name: value for name, value in unit.metrics.items() if name not in UNREPEATED})
    return results


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_of_credit_and_critic_changes_something(
    tiny_model: Model, make_trajectory: Make, name: str
) -> None:
    before, change = CHANGES[name]
    after = replace(before, **change)  # type: ignore[arg-type]
    assert list(change) == [name]
    assert _told(tiny_model(), make_trajectory, before) != _told(tiny_model(), make_trajectory, after)
    assert _told(tiny_model(), make_trajectory, after) == _told(tiny_model(), make_trajectory, after)


def test_all_settings_of_credit_and_critic_are_tested() -> None:
    assert list(CHANGES) == [field.name for part in (CREDIT, CRITIC) for field in fields(part)]


def _with_missing(make: Make) -> ScoredGroup:
    """Two scorable trajectories, and two without a reward."""
    rewards = {"c": None, "a": (0.0, 2.0), "b": (1.0, 0.0), "d": (1.0, float("nan"))}
    return ScoredGroup(TASK, tuple(_scored(make, name, turns) for name, turns in rewards.items()))


def test_unscorable_trajectories_are_not_trained_on(tiny_model: Model, make_trajectory: Make) -> None:
    everything = _with_missing(make_trajectory)
    seen = []
    for members in (everything.members[1:3], everything.members):
        unit = _algorithm(tiny_model(), [ScoredGroup(TASK, members)]).unit(0)
        rows = [row for minibatch in unit.minibatches for stream in minibatch for row in stream.rows]
        metrics = {
            name: unit.metrics[name] for name in ("mean_return", "advantage_std", "value_loss", "trained_rows")
        }
        seen.append(({row.trajectory_id: row.weights.tolist() for row in rows}, metrics))
    assert seen[0] == seen[1]
    assert unit.metrics["unscorable"] == 2.0


@pytest.mark.parametrize(
    ("objective", "denominator"),
    [
        (ObjectiveSettings(), 20.0),
        (ObjectiveSettings(aggregation="sequence_mean"), 4.0),
        (ObjectiveSettings(aggregation="constant", constant_tokens=10), 40.0),
        (ObjectiveSettings(kl=KlSettings(0.1)), 20.0),
    ],
    ids=["tokens", "sequences", "constant", "kl"],
)
def test_unscorable_trajectories_count_in_the_denominator_as_without_a_critic(
    tiny_model: Model, make_trajectory: Make, objective: ObjectiveSettings, denominator: float
) -> None:
    """Four trajectories of five tokens: whether a judge crashed must not change the weight of the others."""
    group = _with_missing(make_trajectory)
    settings = replace(PLAIN, minibatches=1, objective=objective)

    def reference(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [row.old_logprobs for row in rows if row.old_logprobs is not None]

    scored = None if objective.kl is None else reference
    critic = Critic(value_model(tiny_model()), settings.critic.optimiser(settings.optimiser))
    algorithms = (
        ProximalPolicy(lambda _: [group], settings, 0, critic=critic, reference=scored),
        PolicyGradient(lambda _: [group], settings.policy, 0, reference=scored),
    )
    for algorithm in algorithms:
        ((stream,),) = algorithm.unit(0).minibatches
        assert stream.denominator == denominator
        trained = sorted(row.trajectory_id for row in stream.rows)
        assert trained == (["a", "b"] if objective.kl is None else ["a", "b", "c", "d"])


def test_an_unscorable_iteration_trains_neither_network(tiny_model: Model, make_trajectory: Make) -> None:
    algorithm = _algorithm(tiny_model(), [ScoredGroup(TASK, (_scored(make_trajectory, "a", None),))])
    before = {name: torch.as_tensor(value).clone() for name, value in algorithm.state().items()}
    unit = algorithm.unit(0)
    assert unit.minibatches == []
    assert unit.metrics["unscorable"] == 1.0
    assert "value_loss" not in unit.metrics
    after = algorithm.state()
    assert all(torch.equal(value, torch.as_tensor(after[name])) for name, value in before.items())
    assert before.keys() == after.keys()


def test_splitting_rollouts_into_rows_changes_no_weight_and_no_denominator(
    tiny_model: Model, make_trajectory: Make
) -> None:
    whole = _scored(make_trajectory, "t", (0.5, 2.0))
    split = replace(
        whole.trajectory,
        rows=(
            TokenRow((1, 5, 6, 2), (WrittenSpan(0, 1, 3),), (-1.0, -1.0)),
            TokenRow((1, 5, 9, 7, 3), (WrittenSpan(1, 2, 5),), (-1.0,) * 3, "history_changed"),
        ),
    )
    other = _scored(make_trajectory, "other", (0.0, 0.0))
    seen = []
    for trajectory in (whole.trajectory, split):
        group = ScoredGroup(TASK, (replace(whole, trajectory=trajectory), other))
        unit = _algorithm(tiny_model(), [group], replace(PLAIN, minibatches=1)).unit(0)
        ((stream,),) = unit.minibatches
        weights = [float(weight) for row in stream.rows if row.trajectory_id == "t" for weight in row.weights]
        seen.append((weights, stream.denominator))
    assert seen[0] == seen[1]
    assert unit.metrics["forks"] == 1.0


def test_unusable_rollouts_are_refused_by_name(tiny_model: Model, make_trajectory: Make) -> None:
    def unit(*members: ScoredTrajectory) -> object:
        return _algorithm(tiny_model(), [ScoredGroup(TASK, members)]).unit(0)

    rendered = ScoredTrajectory(make_trajectory(name="demonstration", origin="rendered", temperature=None), (1.0,))
    with pytest.raises(TrainingError, match="trajectory 'demonstration' is 'rendered'"):
        unit(rendered)
    with pytest.raises(TrainingError, match="trajectory 'short' has 2 turns but 1 turn rewards"):
        unit(_scored(make_trajectory, "short", (1.0,)))
    with pytest.raises(TrainingError, match="iteration 0 collected no trajectories"):
        unit()


def test_the_policy_is_unchanged_while_the_critic_trains_alone(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    task = copy_task(tiny_model())
    before = copy_tensors(weight_tensors(task.model))
    settings = _toy(
        iterations=3,
        target_score=None,
        evaluate_every=None,
        keep="final",
        critic=CriticSettings(alone_iterations=2),
        checkpoint_every=1,
    )
    is_unchanged: list[bool] = []

    def progress(_: object) -> None:
        is_unchanged.append(
            all(torch.equal(before[name], tensor) for name, tensor in weight_tensors(task.model).items())
        )

    run_ppo(task.model, task.collect, settings, RunOptions(0, tmp_path, progress=progress))
    assert is_unchanged == [True, True, False]
    points = read_curve(tmp_path / CURVE_FILE)
    assert [point.metrics["optimiser_steps"] for point in points] == [0.0, 0.0, 2.0]
    assert [point.metrics["critic_optimiser_steps"] for point in points] == [4.0] * 3
    assert points[2].metrics["mean_value"] != 0.0


def test_an_earlier_critic_is_trained_further_and_is_part_of_the_runs_identity(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    task, critic = copy_task(tiny_model(), group_size=4), value_model(tiny_model())
    run_ppo(task.model, task.collect, PLAIN, RunOptions(0, tmp_path / "first"), critic=critic)
    again, trained = tiny_model(), copy_tensors(weight_tensors(critic))
    run_ppo(again, task.collect, PLAIN, RunOptions(0, tmp_path / "second"), critic=critic)
    points = [read_curve(tmp_path / name / CURVE_FILE)[0].metrics for name in ("first", "second")]
    assert points[0]["mean_value"] == 0.0
    assert points[1]["mean_value"] != 0.0
    assert not all(torch.equal(trained[name], tensor) for name, tensor in weight_tensors(critic).items())
    with pytest.raises(TrainingError, match="critic is"):
        run_ppo(tiny_model(), task.collect, PLAIN, RunOptions(0, tmp_path / "second"), critic=critic)


class _InterruptedError(Exception):
    """Stops a run in a test."""


EVERYTHING = {
    "passes": 2,
    "objective": ObjectiveSettings("turn", kl=KlSettings(0.05, target=0.01, horizon=500)),
    "credit": CreditSettings("token", gamma=0.95, trace=0.9, value_trace=1.0),
    "critic": CriticSettings(learning_rate=3e-3, alone_iterations=2, value_clip=0.2, warmup_steps=3),
    "mismatch": MismatchSettings("token", 2.0, "geometric", 0.5, 2.0),
    "decay": "linear",
}


@pytest.mark.parametrize(
    ("stop_at", "every", "changes"),
    [(0, 1, {}), (3, 1, {}), (5, 2, {}), (4, 2, EVERYTHING)],
    ids=["first", "fourth", "sixth", "everything"],
)
def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, stop_at: int, every: int, changes: dict[str, object]
) -> None:
    settings = _toy(iterations=6, evaluate_every=3, target_score=None, checkpoint_every=every, **changes)

    def run(task: Any, folder: str, stop_at: int | None = None) -> TrainingOutcome:
        def collect(iteration: int) -> list[ScoredGroup]:
            if iteration == stop_at:
                raise _InterruptedError
            groups: list[ScoredGroup] = task.collect(iteration)
            return groups

        return run_ppo(task.model, collect, settings, RunOptions(1, tmp_path / folder, evaluate=task.score))

    undisturbed, resumed = copy_task(tiny_model()), copy_task(tiny_model())
    expected = run(undisturbed, "a")
    with pytest.raises(_InterruptedError):
        run(copy_task(tiny_model()), "b", stop_at)
    assert run(resumed, "b") == expected
    ours = weight_tensors(resumed.model)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(undisturbed.model).items())
    assert _timeless(tmp_path / "a") == _timeless(tmp_path / "b")


def _timeless(folder: Path) -> list[tuple[int, Mapping[str, float | None]]]:
    return [
        (point.units, {name: value for name, value in point.metrics.items() if name not in UNREPEATED})
        for point in read_curve(folder / CURVE_FILE)
    ]


def test_every_metric_has_a_meaning(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    task = copy_task(tiny_model(), group_size=4)
    settings = _toy(iterations=3, target_score=None, evaluate_every=None, keep="final", **EVERYTHING)
    run_ppo(task.model, task.collect, settings, RunOptions(0, tmp_path))
    names = {name for point in read_curve(tmp_path / CURVE_FILE) for name in point.metrics}
    assert {
        "value_loss",
        "value_clip_fraction",
        "explained_variance",
        "critic_grad_norm",
        "kl_coefficient",
    } <= names
    assert {name for name in names if metric_of(name) is None} == set()


def test_groups_may_be_sampled_ahead(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    task, sampler = copy_task(tiny_model(), group_size=4), copy_task(tiny_model(), group_size=4)

    def sample(iteration: int, weights: Mapping[str, torch.Tensor]) -> list[ScoredGroup]:
        for name, tensor in weight_tensors(sampler.model).items():
            tensor.copy_(weights[name])
        version = weights_hash(sampler.model)
        return [
            replace(
                group,
                members=tuple(
                    replace(member, trajectory=replace(member.trajectory, model_version=version))
                    for member in group.members
                ),
            )
            for group in sampler.collect(iteration)
        ]

    settings = replace(PLAIN, iterations=3)
    with AheadCollect(task.model, sample, staleness=1, iterations=3) as collect:
        run_ppo(task.model, collect, settings, RunOptions(0, tmp_path))
    points = read_curve(tmp_path / CURVE_FILE)
    assert [point.metrics["staleness"] for point in points] == [0.0, 1.0, 1.0]
