"""Demonstrations to pre-train on: walks through tasks, as tokens of which some are the model's to write."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from upturn.environments import Environment
from upturn.models import CompactRenderer
from upturn.records import Action, Observation, Task

SEEN_WEIGHT = 0.1
"""Weight of tokens that the model only sees, against 1 for those it writes: a little of them helps it to copy."""


class Step(NamedTuple):
    """One turn of a walk."""

    observation: Observation
    action: Action
    is_mistake: bool = False
    """Done to show what comes of it and what to do then, and not to be learned itself."""


Walk: TypeAlias = Sequence[Step]
"""What somebody saw and what they did then, from the instruction on."""
PRETRAINING_STREAM = 7_000_000_000
"""Task numbers from here on are for pre-training only: runs whose seed is below 7,000 draw none."""


def walked(environment: Environment, task: Task, actions: Iterable[tuple[Action, bool]]) -> Walk:
    """The task with these actions, each with whether it is a mistake."""
    observation, _ = environment.reset(task)
    walk = []
    for action, is_mistake in actions:
        walk.append(Step(observation, action, is_mistake))
        observation = environment.step(action).observation
    return walk


class Demonstration(NamedTuple):
    """Token ids of one walk and how much each counts in training, from 0 to 1."""

    token_ids: list[int]
    weights: list[float]


def render(renderer: CompactRenderer, walk: Walk) -> Demonstration:
    """The walk as a model would have seen and written it; mistakes stand there and weigh nothing."""
    token_ids: list[int] = []
    weights: list[float] = []
    for number, step in enumerate(walk):
        seen = renderer.extend(step.observation) if number else renderer.open(step.observation, "")
        written = renderer.write(step.action)
        token_ids += [*seen, *written]
        weights += [SEEN_WEIGHT] * len(seen) + [0.0 if step.is_mistake else 1.0] * len(written)
    return Demonstration(token_ids, weights)
