"""Demonstrations: scripted trajectories (walks) and their tokens, of which the actions are the model's output."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from upturn.environments import Environment
from upturn.models import CompactRenderer
from upturn.records import Action, Observation, Task

SEEN_WEIGHT = 0.1
"""Loss weight of observation tokens; action tokens have 1. A small weight helps the model to copy."""


class Step(NamedTuple):
    """One turn of a walk."""

    observation: Observation
    action: Action
    is_mistake: bool = False
    """Shown with its consequences, but not trained on."""


Walk: TypeAlias = Sequence[Step]
"""Observations and actions of a scripted trajectory, from the instruction on."""
PRETRAINING_STREAM = 7_000_000_000
"""Task numbers from here on are for pre-training only: runs with seeds below 7,000 draw none of them."""


def walked(environment: Environment, task: Task, actions: Iterable[tuple[Action, bool]]) -> Walk:
    """Runs these actions on the task, each with whether it is a mistake."""
    observation, _ = environment.reset(task)
    walk = []
    for action, is_mistake in actions:
        walk.append(Step(observation, action, is_mistake))
        observation = environment.step(action).observation
    return walk


class Demonstration(NamedTuple):
    """Token ids of one walk and their loss weights, from 0 to 1."""

    token_ids: list[int]
    weights: list[float]


def render(renderer: CompactRenderer, walk: Walk) -> Demonstration:
    """The walk as a model would have read and written it; mistakes have weight 0."""
    token_ids: list[int] = []
    weights: list[float] = []
    for number, step in enumerate(walk):
        observation_ids = renderer.extend(step.observation) if number else renderer.open(step.observation, "")
        action_ids = renderer.write(step.action)
        token_ids += [*observation_ids, *action_ids]
        weights += [SEEN_WEIGHT] * len(observation_ids) + [0.0 if step.is_mistake else 1.0] * len(action_ids)
    return Demonstration(token_ids, weights)
