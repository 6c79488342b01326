"""A critic of actions: hand-computed values, the order of valuing and training, and a toy solved with it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import PreTrainedModel

from benchmarks.algorithms.toy import key_door
from benchmarks.algorithms.toy_policy import ToyPolicy, toy_model
from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.online_dpo.action_value import ActionCritic
from upturn.training.algorithms.online_dpo.run import PreferenceRounds, run_online_dpo
from upturn.training.algorithms.ppo import CriticSettings
from upturn.training.data.pair_mining import mine_pairs
from upturn.training.optimisation.critic import value_model
from upturn.training.pair_settings import PairSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.metric import metric_of
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
LEFT, RIGHT, UP = 11, 12, 13
MIXED = PairSettings(by="turn", monte_carlo_share=0.25, gamma=0.5)
SETTINGS = OnlineDpoSettings(iterations=30, pairs=MIXED, evaluate_every=None, keep="final", critic=CriticSettings())


class Rollout(NamedTuple):
    """Two turns of one token, and their rewards."""

    actions: tuple[int, int]
    rewards: tuple[float, ...] | None


ROLLOUTS = (Rollout((LEFT, UP), (0.25, 1.0)), Rollout((RIGHT, UP), (0.5, 0.0)))


def _group(make: Make, rollouts: Sequence[Rollout] = ROLLOUTS, **changes: Any) -> ScoredGroup:
    """The observation after the first turn is 3."""
    members = []
    for index, (actions, rewards) in enumerate(rollouts):
        trajectory = make((1, 2, actions[0], 3, actions[1]), ((0, 2, 3), (1, 4, 5)), name=f"w{index}", **changes)
        members.append(ScoredTrajectory(trajectory, rewards))
    return ScoredGroup(Task("task", "", "", ""), tuple(members))


def _network(model: PreTrainedModel, *, bias: float = 0.0, slope: float = 0.0) -> PreTrainedModel:
    """A value model whose head is not 0."""
    network = value_model(model)
    head: Any = network.get_output_embeddings()
    torch.nn.init.constant_(head.bias, bias)
    torch.nn.init.normal_(head.weight, std=slope, generator=torch.Generator().manual_seed(0))
    return network


def test_the_mix_of_returns_and_critic_matches_hand_computed_values(
    tiny_model: Model, make_trajectory: Make
) -> None:
    """The critic's value of every state is .5. Left: .25·(.25 + .5·1) + .75·(.25 + .5·.5) = .5625; right: .25·.5 +
    .75·(.5 + .25) = .6875. By returns alone left is better, by .25."""
    group = _group(make_trajectory)
    critic = ActionCritic(_network(tiny_model(), bias=0.5), SETTINGS, 0)
    round_values = critic.value_actions(0, [group])
    assert round_values.values["w0"] == pytest.approx([0.5, 1.0])
    assert round_values.values["w1"] == pytest.approx([0.75, 0.0])
    (pair,) = mine_pairs([group], MIXED, round_values).pairs
    assert pair.id == "w1@0 > w0@0"
    assert pair.margin == pytest.approx(0.125)
    (alone,) = mine_pairs([group], replace(MIXED, monte_carlo_share=1.0)).pairs
    assert alone.id == "w0@0 > w1@0"
    assert alone.margin == pytest.approx(0.25)


def test_a_value_is_the_networks_output_at_the_start_of_the_next_turn(
    tiny_model: Model, make_trajectory: Make
) -> None:
    """Against the network's output after the tokens before the next turn."""
    network = _network(tiny_model(), bias=0.1, slope=0.5)
    with torch.no_grad():
        after = [float(network(torch.tensor([[1, 2, action, 3]])).logits[0, -1, 0]) for action in (LEFT, RIGHT)]
    assert abs(after[0] - after[1]) > 0.01
    round_values = ActionCritic(network, SETTINGS, 0).value_actions(0, [_group(make_trajectory)])
    for name, reward, last, value in (("w0", 0.25, 1.0, after[0]), ("w1", 0.5, 0.0, after[1])):
        assert round_values.values[name] == pytest.approx([reward + 0.5 * value, last], abs=1e-5)


def test_the_critic_learns_returns_and_only_after_valuing_the_round(
    tiny_model: Model, make_trajectory: Make
) -> None:
    """Nothing is expected at first; in the end Q(left) = .25 + .5·1 and Q(right) = .5 + 0."""
    settings = replace(SETTINGS, critic=CriticSettings(learning_rate=1e-2))
    group = _group(make_trajectory)
    critic = ActionCritic(value_model(tiny_model()), settings, 0)
    values_by_round = [critic.value_actions(index, [group]) for index in range(20)]
    assert values_by_round[0].values == {"w0": [0.25, 1.0], "w1": [0.5, 0.0]}
    assert values_by_round[0].metrics["mean_value"] == 0.0
    assert values_by_round[1].values != values_by_round[0].values
    assert values_by_round[-1].values["w0"] == pytest.approx([0.75, 1.0], abs=0.05)
    assert values_by_round[-1].values["w1"] == pytest.approx([0.5, 0.0], abs=0.05)
    assert values_by_round[-1].metrics["explained_variance"] > 0.9
    assert values_by_round[-1].metrics["value_loss"] < 0.1 * values_by_round[0].metrics["value_loss"]


def test_unscorable_trajectories_have_no_values(tiny_model: Model, make_trajectory: Make) -> None:
    group = _group(make_trajectory, (*ROLLOUTS, Rollout((UP, UP), None), Rollout((UP, UP), (float("nan"), 1.0))))
    with_them, without = (
        ActionCritic(value_model(tiny_model()), SETTINGS, 0).value_actions(0, [group])
        for group in (group, _group(make_trajectory))
    )
    assert with_them.values == without.values
    timeless = [{**values.metrics, "critic_seconds": 0.0} for values in (with_them, without)]
    assert timeless[0] == timeless[1]
    critic = ActionCritic(value_model(tiny_model()), SETTINGS, 0)
    nothing = critic.value_actions(0, [_group(make_trajectory, [Rollout((UP, UP), None)])])
    assert nothing.values == {}
    assert nothing.metrics.keys() == {"critic_seconds"}
    assert critic.state()["count.steps"] == 0.0


def test_the_critic_trains_on_any_temperature(tiny_model: Model, make_trajectory: Make) -> None:
    """It needs no log-probs."""
    critic = ActionCritic(value_model(tiny_model()), SETTINGS, 0)
    assert critic.value_actions(0, [_group(make_trajectory, temperature=1.5)]).values.keys() == {"w0", "w1"}


def test_pairs_go_by_returns_while_the_critic_trains_alone(tiny_model: Model, make_trajectory: Make) -> None:
    """With a critic that prefers right, and two rounds in which its values are not used."""
    settings = replace(SETTINGS, critic=CriticSettings(learning_rate=1e-6, alone_iterations=2))
    group = _group(make_trajectory)
    critic = ActionCritic(_network(tiny_model(), bias=0.5), settings, 0)
    rounds = PreferenceRounds(lambda _: [group], settings, 0, critic=critic)
    outcomes = []
    for index in range(3):
        unit = rounds.unit(index)
        ((stream,),) = unit.minibatches
        outcomes.append(({row.pair for row in stream.rows}, unit.metrics["critic_optimiser_steps"]))
    assert outcomes == [({"w0@0 > w1@0"}, 2.0), ({"w0@0 > w1@0"}, 2.0), ({"w1@0 > w0@0"}, 2.0)]


def test_a_turn_without_tokens_is_refused_by_name(tiny_model: Model, make_trajectory: Make) -> None:
    group = _group(make_trajectory)
    silent = ScoredTrajectory(make_trajectory((1, 2, UP), ((0, 2, 3),), name="silent", turns=2), (0.0, 1.0))
    critic = ActionCritic(value_model(tiny_model()), SETTINGS, 0)
    rounds = PreferenceRounds(
        lambda _: [replace(group, members=(*group.members, silent))], SETTINGS, 0, critic=critic
    )
    with pytest.raises(TrainingError, match="turn 1 of trajectory 'silent' has no recorded tokens"):
        rounds.unit(0)


@pytest.mark.slow
def test_key_and_door_is_solved_by_single_actions_and_a_critic(tmp_path: Path) -> None:
    toy = key_door(2)
    policy = ToyPolicy(toy, toy_model(toy, 0), group_size=16, seed=0)
    settings = OnlineDpoSettings(
        iterations=100,
        batch_pairs=16,
        pairs=PairSettings(by="turn", monte_carlo_share=0.5, min_margin=0.05),
        critic=CriticSettings(learning_rate=6e-3, minibatches=1, passes=1, alone_iterations=3),
        optimiser=OptimiserSettings(learning_rate=6e-3),
        evaluate_every=5,
        target_score=0.95,
        checkpoint_every=100,
    )
    before = policy.expected_reward()
    outcome = run_online_dpo(
        policy.model, policy.collect, settings, RunOptions(0, tmp_path, evaluate=lambda _: policy.expected_reward())
    )
    assert before < 0.3
    assert outcome.stopped == "target"
    assert policy.expected_reward() >= 0.95
    names = {name for point in read_curve(tmp_path / CURVE_FILE) for name in point.metrics}
    assert {"explained_variance", "value_loss", "critic_grad_norm", "mean_value", "critic_seconds"} <= names
    assert {name for name in names if metric_of(name) is None} == set()
