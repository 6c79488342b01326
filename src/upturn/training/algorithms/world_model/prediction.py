"""Predictions of next observations, sampled as rollouts and compared with the recorded observations.

Each transition is a task of one turn in an environment that ends with the first action.
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
from upturn.training.evaluation_result import EvaluationResult

SLOTS = 64
"""Predictions that are generated at the same time."""


class Sampler(Model, Protocol):
    """A model whose weights can be refreshed; ``LocalEngine`` is one."""

    def refresh(self) -> None:
        """Uses the current weights, and clears all caches."""


class Prediction(NamedTuple):
    """A prediction of a transition."""

    trajectory: Trajectory
    """Of one turn: the next observation as the model wrote it."""
    similarity: float | None
    """To the recorded observation, in [0, 1]; 0 where the written text is no observation; None = nothing was
    written."""


class PredictionScore(NamedTuple):
    """The quality of a set of predictions."""

    accuracy: float
    """Share of predictions with a similarity of at least the threshold; missing ones are wrong."""
    baseline: float
    """Accuracy of always predicting the tool's most common output; 0 for a tool without one."""
    similarity: float
    """Mean over the predictions."""
    predictions: int
    """Number of predictions."""

    @property
    def lift(self) -> float:
        """Accuracy beyond that of the most common output, which needs no knowledge of the world."""
        return self.accuracy - self.baseline


class PredictionSource(Protocol):
    """Predicts observations, and compares them with the recorded ones."""

    @property
    def similarity(self) -> Similarity:
        """Compares a predicted observation with the recorded one."""

    def predict(
        self, transitions: Sequence[Transition], count: int, *, key: str, seed: int, temperature: float = 1.0
    ) -> list[list[Prediction]]:
        """See ``Predictor.predict``."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """Samples and reads predictions of the trained model."""

    sampler: Sampler
    """Of the trained model."""
    observations: ObservationWriter
    similarity: Similarity = field(default_factory=WordSimilarity)

    def predict(
        self, transitions: Sequence[Transition], count: int, *, key: str, seed: int, temperature: float = 1.0
    ) -> list[list[Prediction]]:
        """Returns ``count`` predictions of each transition with the current weights, in order.

        They depend on the weights, the transitions and (seed, temperature) only; ``key`` makes their ids unique.
        Raises TrainingError where no prediction could be written, with the reason.
        """
        jobs = [
            Job(
                RolloutRequest(prediction_task(transition), number, index),
                Setting(
                    key=key,
                    agent=_PredictionAgent(transition, self.observations),
                    agent_version="",
                    model=self.sampler,
                    limits=Limits(max_turns=1),
                    seed=seed,
                    temperature=temperature,
                ),
            )
            for index, transition in enumerate(transitions)
            for number in range(count)
        ]
        self.sampler.refresh()
        trajectories = asyncio.run(run_rollouts(jobs, _OneStepEnvironment, slots=SLOTS))
        if not any(trajectory.rows for trajectory in trajectories):
            raise TrainingError(
                f"not one of {len(trajectories)} predictions could be written, the first for: "
                f"{trajectories[0].error or trajectories[0].outcome}. Where the context has no room, extract "
                "transitions with a smaller max_tokens"
            )
        remaining = iter(trajectories)
        return [[self._read(transition, next(remaining)) for _ in range(count)] for transition in transitions]

    def _read(self, transition: Transition, trajectory: Trajectory) -> Prediction:
        if not trajectory.rows:
            return Prediction(trajectory, None)
        (row,) = trajectory.rows
        text = self.observations.read(row.token_ids[row.spans[0].start :])
        return Prediction(trajectory, 0.0 if text is None else self.similarity(text, transition.text))


def score_predictions(
    similarity: Similarity,
    transitions: Sequence[Transition],
    predicted: Sequence[Sequence[Prediction]],
    common: Mapping[str, str],
    *,
    threshold: float,
) -> list[PredictionScore]:
    """Returns the score of each transition's predictions. ``common``: the most common output of each tool."""
    scores = []
    for transition, predictions in zip(transitions, predicted, strict=True):
        output = common.get(transition.tool)
        baseline = 0.0 if output is None else similarity(output, transition.text)
        similarities = [prediction.similarity or 0.0 for prediction in predictions]
        count = len(similarities)
        accuracy = sum(value >= threshold for value in similarities) / count
        mean = math.fsum(similarities) / count
        scores.append(PredictionScore(accuracy, float(baseline >= threshold), mean, count))
    return scores


def prediction_task(transition: Transition) -> Task:
    """Returns the prediction of the transition as a task, with the tool as its family."""
    return Task(transition.id, "", transition.tool, "world model")


class _PredictionAgent:
    """An agent that writes the next observation instead of an action."""

    def __init__(self, transition: Transition, observations: ObservationWriter) -> None:
        self._transition = transition
        self._observations = observations

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:  # noqa: ARG002
        generation = await model.generate(
            self._transition.prompt_ids,
            # a text three times as long has a similarity of at most one half, which is below any threshold
            max_tokens=3 * len(self._transition.written_ids),
            stop_ids=self._observations.stop_ids,
        )
        return Reply(self._observations.read(generation.token_ids) or "", None)


class _OneStepEnvironment:
    """An environment that ends with the first action."""

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


def score_by_tool(
    predictor: PredictionSource, transitions: Sequence[Transition], common: Mapping[str, str], *, threshold: float
) -> dict[str, PredictionScore]:
    """Returns scores by tool, from one greedy prediction of each transition; ``common``: as for
    ``score_predictions``."""
    predicted = predictor.predict(transitions, 1, key="foresight", seed=0, temperature=0.0)
    scores = score_predictions(predictor.similarity, transitions, predicted, common, threshold=threshold)
    by_tool: dict[str, list[PredictionScore]] = {}
    for transition, score in zip(transitions, scores, strict=True):
        by_tool.setdefault(transition.tool, []).append(score)
    return {tool: merge_scores(tool_scores) for tool, tool_scores in by_tool.items()}


def merge_scores(scores: Collection[PredictionScore]) -> PredictionScore:
    """Returns the score of all their predictions; at least one."""
    count = sum(score.predictions for score in scores)
    accuracy, baseline, similarity = (
        math.fsum(score[index] * score.predictions for score in scores) / count for index in range(3)
    )
    return PredictionScore(accuracy, baseline, similarity, count)


def select_unknown(
    predictor: PredictionSource, transitions: Sequence[Transition], threshold: float, easy: EasySettings
) -> list[Transition]:
    """Returns the transitions with an accuracy below the rate. Raises TrainingError if there is none."""
    predicted = predictor.predict(transitions, easy.group_size, key="easy", seed=0)
    scores = score_predictions(predictor.similarity, transitions, predicted, {}, threshold=threshold)
    unknown = [
        transition for transition, score in zip(transitions, scores, strict=True) if score.accuracy < easy.rate
    ]
    if not unknown:
        raise TrainingError(
            f"the model predicts all {len(transitions)} transitions right in at least {easy.rate:.0%} of "
            f"{easy.group_size} predictions before training: there is nothing to learn. Leave the stage out, "
            "collect others, or raise threshold"
        )
    return unknown


def evaluate_lift(
    predictor: PredictionSource, held_out: Sequence[Transition], common: Mapping[str, str], threshold: float
) -> EvaluationResult:
    """Returns the lift of greedy predictions, with the two rates that it is the difference of."""
    score = merge_scores(score_by_tool(predictor, held_out, common, threshold=threshold).values())
    return EvaluationResult(
        score.lift,
        tasks=score.predictions,
        measure="share of held-out observations predicted right, less that of the tool's most common output",
        figures={"right": score.accuracy, "usual": score.baseline, "similarity": score.similarity},
    )
