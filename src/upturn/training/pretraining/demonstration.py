"""Demonstrations: scripted trajectories, and their tokens with the loss weight of each."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from upturn.environments import Environment
from upturn.models import CompactRenderer
from upturn.records import Action, Observation, Task

OBSERVATION_WEIGHT = 0.1
"""Loss weight of observation tokens; action tokens have 1. A small weight helps the model to copy."""
PRETRAINING_STREAM = 7_000_000_000
"""Task numbers from here on are for pre-training only: runs with seeds below 7,000 draw none of them."""


class Step(NamedTuple):
    """One turn of a demonstration."""

    observation: Observation
    action: Action
    is_mistake: bool = False
    """Shown with its consequences, but not trained on."""


Demonstration: TypeAlias = Sequence[Step]
"""A scripted trajectory, from the instruction on."""


def demonstrate(environment: Environment, task: Task, actions: Iterable[tuple[Action, bool]]) -> Demonstration:
    """Runs these actions on the task, each with whether it is a mistake."""
    observation, _ = environment.reset(task)
    steps = []
    for action, is_mistake in actions:
        steps.append(Step(observation, action, is_mistake))
        observation = environment.step(action).observation
    return steps


class WeightedTokens(NamedTuple):
    """Token ids of one demonstration and their loss weights, from 0 to 1."""

    token_ids: list[int]
    weights: list[float]


def render(renderer: CompactRenderer, demonstration: Demonstration) -> WeightedTokens:
    """The demonstration as a model would have read and written it; mistakes have weight 0."""
    token_ids: list[int] = []
    weights: list[float] = []
    for number, step in enumerate(demonstration):
        observation_ids = renderer.extend(step.observation) if number else renderer.open(step.observation, "")
        action_ids = renderer.write(step.action)
        token_ids += [*observation_ids, *action_ids]
        weights += [OBSERVATION_WEIGHT] * len(observation_ids)
        weights += [0.0 if step.is_mistake else 1.0] * len(action_ids)
    return WeightedTokens(token_ids, weights)
