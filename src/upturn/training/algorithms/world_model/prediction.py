"""Predictions of next observations: sampled as attempts at tasks are, and compared with what came.

Each transition is a task of one turn in a world that answers nothing: what has to be known of the real one was
recorded.
"""

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from upturn.agents import Job, ModelSession, Reply, RolloutRequest, Setting, run_rollouts
from upturn.config import Limits
from upturn.environments import Info, Step
from upturn.errors import TrainingError
from upturn.models import Model, ObservationWriter
from upturn.records import Action, JsonValue, Observation, Task, Trajectory, Turn
from upturn.rewards import Similarity, WordSimilarity
from upturn.training.algorithms.world_model.settings import EasySettings
from upturn.training.data import Transition
from upturn.training.evaluation_result import Assessment

SLOTS = 64
"""Predictions that are written at the same time."""


class Sampler(Model, Protocol):
    """A model that can be told that its weights changed; ``LocalEngine`` is one."""

    def refresh(self) -> None:
        """Takes the weights as they are, and forgets all caches."""


class Prediction(NamedTuple):
    """One prediction of a transition."""

    trajectory: Trajectory
    """Of one turn: the next observation as the model wrote it."""
    similarity: float | None
    """To what came, in [0, 1]; 0 where what was written is no observation; None = nothing was written."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """Who predicts, how predictions are read, and what they are compared by."""

    sampler: Sampler
    """Of the model that is trained."""
    observations: ObservationWriter
    similarity: Similarity = field(default_factory=WordSimilarity)

    def predict(
        self, transitions: Sequence[Transition], attempts: int, *, key: str, seed: int, temperature: float = 1.0
    ) -> list[list[Prediction]]:
        """Of each transition so many predictions by the weights as they are, in order.

        They depend on the weights, the transitions and (seed, temperature) only; ``key`` makes their ids unique.
        Raises TrainingError where not one of them could be written, naming why.
        """
        jobs = [
            Job(
                RolloutRequest(task_of(each), number, index),
                Setting(
                    key=key,
                    agent=_Foresight(each, self.observations),
                    agent_version="",
                    model=self.sampler,
                    limits=Limits(max_turns=1),
                    seed=seed,
                    temperature=temperature,
                ),
            )
            for index, each in enumerate(transitions)
            for number in range(attempts)
        ]
        self.sampler.refresh()
        found = asyncio.run(run_rollouts(jobs, _Recorded, slots=SLOTS))
        if not any(each.rows for each in found):
            raise TrainingError(
                f"not one of {len(found)} predictions could be written, the first for: "
                f"{found[0].error or found[0].outcome}. Where the context has no room, make transitions with "
                "max_tokens below it"
            )
        written = iter(found)
        return [[self._read(each, next(written)) for _ in range(attempts)] for each in transitions]

    def compared(
        self,
        transitions: Sequence[Transition],
        predicted: Sequence[Sequence[Prediction]],
        usual: Mapping[str, str],
        *,
        threshold: float,
    ) -> list["Foresight"]:
        """Of each transition. ``usual``: the most common output of each tool."""
        found = []
        for transition, predictions in zip(transitions, predicted, strict=True):
            common = usual.get(transition.tool)
            base = 0.0 if common is None else self.similarity(common, transition.text)
            reached = [prediction.similarity or 0.0 for prediction in predictions]
            right = sum(each >= threshold for each in reached) / len(reached)
            mean = math.fsum(reached) / len(reached)
            found.append(Foresight(right, float(base >= threshold), mean, len(reached)))
        return found

    def _read(self, transition: Transition, trajectory: Trajectory) -> Prediction:
        if not trajectory.rows:
            return Prediction(trajectory, None)
        (row,) = trajectory.rows
        text = self.observations.read(row.token_ids[row.spans[0].start :])
        return Prediction(trajectory, 0.0 if text is None else self.similarity(text, transition.text))


def task_of(transition: Transition) -> Task:
    """Predicting the transition, as a task; tools are its families."""
    return Task(transition.id, "", transition.tool, "world model")


class _Foresight:
    """An agent that writes what comes next instead of acting."""

    def __init__(self, transition: Transition, observations: ObservationWriter) -> None:
        self._transition = transition
        self._observations = observations

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:  # noqa: ARG002
        generation = await model.generate(
            self._transition.prompt_ids,
            # Three times as long as what came is half alike to it at best: what is cut off there is wrong anyway.
            max_tokens=3 * len(self._transition.written_ids),
            stop_ids=self._observations.stop_ids,
        )
        return Reply(self._observations.read(generation.token_ids) or "", None)


class _Recorded:
    """A world that is over with the first action."""

    def __init__(self, task: Task) -> None:
        self._instruction = Observation(task.instruction)

    def reset(self, task: Task) -> tuple[Observation, Info]:  # noqa: ARG002
        return self._instruction, Info({}, {})

    def step(self, action: Action) -> Step:  # noqa: ARG002
        return Step(Observation(""), 0.0, True, False, Info({}, {}))

    def state(self) -> Mapping[str, JsonValue]:
        return {}

    def snapshot(self) -> object:
        return None

    def restore(self, snapshot: object) -> None:
        pass


class Foresight(NamedTuple):
    """How well transitions are predicted."""

    right: float
    """Share of predictions that are alike enough to what came; one that could not be written is wrong."""
    usual: float
    """The same of always predicting the tool's most common output; wrong for a tool that has none."""
    similarity: float
    """Mean over the predictions."""
    predictions: int
    """How many."""

    @property
    def lift(self) -> float:
        """What the model gets right beyond the most common output, which says nothing of the world: 0 for it."""
        return self.right - self.usual


def foresight(
    predictor: Predictor, transitions: Sequence[Transition], usual: Mapping[str, str], *, threshold: float
) -> dict[str, Foresight]:
    """By tool, of one greedy prediction of each transition; ``usual``: the most common output of each tool."""
    found: dict[str, list[Foresight]] = {}
    predicted = predictor.predict(transitions, 1, key="foresight", seed=0, temperature=0.0)
    compared = predictor.compared(transitions, predicted, usual, threshold=threshold)
    for transition, each in zip(transitions, compared, strict=True):
        found.setdefault(transition.tool, []).append(each)
    return {tool: together(each) for tool, each in found.items()}


def together(parts: Collection[Foresight]) -> Foresight:
    """Of all their predictions; there must be some."""
    count = sum(each.predictions for each in parts)
    sums = (math.fsum(each[place] * each.predictions for each in parts) for place in range(3))
    right, usual, similarity = (found / count for found in sums)
    return Foresight(right, usual, similarity, count)


def unknown(
    predictor: Predictor, transitions: Sequence[Transition], threshold: float, easy: EasySettings
) -> list[Transition]:
    """Those that are predicted right less often than the rate; one that could not be written is not right."""
    found = predictor.predict(transitions, easy.group_size, key="easy", seed=0)
    compared = predictor.compared(transitions, found, {}, threshold=threshold)
    left = [each for each, met in zip(transitions, compared, strict=True) if met.right < easy.rate]
    if not left:
        raise TrainingError(
            f"the model predicts all {len(transitions)} transitions right in at least {easy.rate:.0%} of "
            f"{easy.group_size} predictions before practice: there is nothing to learn. Leave the stage out, "
            f"collect "
            "others, or raise threshold"
        )
    return left


def assessed_lift(
    predictor: Predictor, held_out: Sequence[Transition], usual: Mapping[str, str], threshold: float
) -> Assessment:
    """The lift of greedy predictions, with the rates that it is the difference of."""
    found = together(foresight(predictor, held_out, usual, threshold=threshold).values())
    return Assessment(
        found.lift,
        tasks=found.predictions,
        measure="share of held-out observations predicted right, less that of the tool's most common output",
        figures={"right": found.right, "usual": found.usual, "similarity": found.similarity},
    )
