"""Tabular softmax policies reach the optimum of a small decision process, which dynamic programming gives exactly.

Three states and a lure: in each, action 0 takes a small sure reward and ends; action 1 goes on with probability .9
and stays otherwise; the last step forward earns 1. Five turns. A policy is a table of logits by (turn, state).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from upturn.records import Task, Trajectory
from upturn.training import RewardComponent, ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.grpo import PRESETS, GrpoSettings, preset
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.loss import TokenBatch
from upturn.training.optimisation.batch import written_tokens
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.stream import Stream

Make = Callable[..., Trajectory]
TURNS, STATES, GROUP_SIZE = 5, 3, 48
LURES = (0.3, 0.2, 0.1)
FORWARD = 0.9
NOTHING = -1
"""Where no state follows."""


class Outcome(NamedTuple):
    probability: float
    reward: float
    state: int
    """NOTHING = the end."""


def outcomes(state: int, action: int) -> list[Outcome]:
    if action == 0:
        return [Outcome(1.0, LURES[state], NOTHING)]
    ahead = Outcome(FORWARD, 1.0, NOTHING) if state == STATES - 1 else Outcome(FORWARD, 0.0, state + 1)
    return [ahead, Outcome(1 - FORWARD, 0.0, state)]


def value(policy: Callable[[NDArray[np.float64], int, int], float]) -> float:
    """Of state 0 at turn 0; ``policy(action values, turn, state)`` gives the state's value."""
    values = np.zeros((TURNS + 1, STATES))
    for turn in reversed(range(TURNS)):
        for state in range(STATES):
            actions = [
                sum(
                    outcome.probability
                    * (outcome.reward + (0 if outcome.state == NOTHING else values[turn + 1, outcome.state]))
                    for outcome in outcomes(state, action)
                )
                for action in range(2)
            ]
            values[turn, state] = policy(np.asarray(actions), turn, state)
    return float(values[0, 0])


OPTIMUM = value(lambda actions, _turn, _state: float(actions.max()))


def test_the_optimum_matches_hand_computed_values() -> None:
    """Going on: at most two of five steps may fail, .9³(1 + 3·.1 + 6·.01). Who still is in state 0 after three
    turns, or in state 1 after four, takes the lure: .001·.3 + 3·.9·.01·.1·.2."""
    assert pytest.approx(0.9**3 * (1 + 3 * 0.1 + 6 * 0.01) + 0.0003 + 0.00054) == OPTIMUM


class Table:
    """A policy, a sampler and a trainer in one: log-probs come from the table instead of a model."""

    def __init__(self, make: Make, seed: int) -> None:
        self.make = make
        self.logits = torch.zeros(TURNS * STATES, 2, requires_grad=True)
        self.optimiser = torch.optim.Adam([self.logits], lr=0.1)
        self.rng = np.random.default_rng(seed)

    def value(self) -> float:
        with torch.no_grad():
            shares = self.logits.softmax(-1).numpy().reshape(TURNS, STATES, 2)
        return value(lambda actions, turn, state: float(actions @ shares[turn, state]))

    def collect(self, iteration: int) -> Sequence[ScoredGroup]:
        with torch.no_grad():
            logprobs = self.logits.log_softmax(-1).numpy().astype(float)
        members = tuple(self._rollout(logprobs, f"{iteration}/{index}") for index in range(GROUP_SIZE))
        return [ScoredGroup(Task("task", "", "", ""), members)]

    def _rollout(self, logprobs: NDArray[np.float64], name: str) -> ScoredTrajectory:
        """Tokens alternate between what is seen, turn · STATES + state, and the action."""
        tokens, chosen, rewards, state = list[int](), list[float](), list[float](), 0
        for turn in range(TURNS):
            seen = turn * STATES + state
            action = int(self.rng.random() < np.exp(logprobs[seen, 1]))
            possible = outcomes(state, action)
            drawn = possible[self.rng.choice(len(possible), p=[outcome.probability for outcome in possible])]
            tokens += [seen, action]
            chosen.append(logprobs[seen, action])
            rewards.append(drawn.reward)
            state = drawn.state
            if state == NOTHING:
                break
        spans = [(turn, 2 * turn + 1, 2 * turn + 2) for turn in range(len(rewards))]
        trajectory = self.make(tokens, spans, name=name, logprobs=chosen)
        return ScoredTrajectory(
            trajectory, tuple(rewards), components=(RewardComponent("reward", sum(rewards), 1.0),)
        )

    def uniform(self, rows: Sequence[TrainingRow]) -> list[FloatArray]:
        """The policy before training."""
        return [np.full(len(row.positions), np.log(0.5), dtype=np.float32) for row in rows]

    def step(self, stream: Stream) -> None:
        tokens = written_tokens(stream.rows)
        seen = np.concatenate([row.token_ids[row.positions - 1] for row in stream.rows])
        logprobs = self.logits.log_softmax(-1)[torch.from_numpy(seen), torch.from_numpy(tokens.targets)]
        columns: dict[str, Tensor] = {
            name: torch.from_numpy(getattr(tokens, name))
            for name in ("old_logprobs", "weights", "corrections", "reference_logprobs", "sequences")
        }
        batch = TokenBatch(logprobs, mask=torch.ones(len(logprobs), dtype=torch.bool), **columns)
        loss = (stream.objective.losses(batch) * torch.from_numpy(tokens.scales)).sum() / stream.denominator
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()


def _settings(name: str) -> GrpoSettings:
    """Without dynamic sampling, as there is one task only, and with two passes, so that ratios move."""
    return replace(preset(name), dynamic_sampling=None, minibatches=1, passes=2)


@pytest.mark.parametrize("name", PRESETS)
def test_tabular_policies_reach_the_optimum(make_trajectory: Make, name: str) -> None:
    settings = _settings(name)
    table = Table(make_trajectory, seed=0)
    reference = None if settings.objective.kl is None else table.uniform
    algorithm = PolicyGradient(table.collect, settings, 0, reference=reference)
    assert table.value() < 0.5 * OPTIMUM
    for iteration in range(40):
        for minibatch in algorithm.unit(iteration).minibatches:
            table.step(minibatch[0])
    assert table.value() >= 0.95 * OPTIMUM
