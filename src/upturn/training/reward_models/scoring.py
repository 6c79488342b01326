"""Scores of trajectories by a reward model, in [0, 1]."""

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.records import Trajectory
from upturn.training.optimisation import Trainer, state_values
from upturn.training.reward_models.description import Aggregation, RewardKind, RewardModelDescription
from upturn.training.row import TrainingRow, last_turn, turn_end_rows
from upturn.training.scorer import Scorer


class RewardModel:
    """Scores trajectories in batches. Independent of their order, up to rounding."""

    def __init__(self, model: PreTrainedModel, description: RewardModelDescription) -> None:
        """``model``: with a scalar output layer, as ``load_reward_model`` returns it."""
        self.model = model
        self.description = description
        self._trainer = Trainer(model, OptimiserSettings(learning_rate=1.0), read=state_values)  # takes no step

    def scores(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        """The score of each trajectory by its token rows, which must be of the model's tokenizer.

        None = it has no written tokens, does not fit the model's context or vocabulary, or the output is not
        finite.
        """
        rows = [read_rows(trajectory, self.description.kind) for trajectory in trajectories]
        readable = [part if self._can_read(part) else () for part in rows]
        return [
            None if not len(outputs) else _score(outputs, self.description)
            for outputs in model_outputs(self._trainer.score, readable)
        ]

    def _can_read(self, rows: Sequence[TrainingRow]) -> bool:
        config: Any = self.model.config.get_text_config()  # configurations of transformers are open-ended
        context = getattr(config, "max_position_embeddings", None)
        return all(
            (context is None or row.computed_length <= context)
            and int(row.token_ids.min()) >= 0
            and int(row.token_ids.max()) < config.vocab_size
            for row in rows
        )


def read_rows(trajectory: Trajectory, kind: RewardKind) -> tuple[TrainingRow, ...]:
    """Returns the rows of the states that a model of this kind reads, with weights 1; none without written
    tokens."""
    last = last_turn(trajectory)
    if last is None:
        return ()
    turns = (last,) if kind == "outcome" else range(last + 1)
    return turn_end_rows(trajectory, dict.fromkeys(turns, 1.0))


def model_outputs(scorer: Scorer, rows: Sequence[Sequence[TrainingRow]]) -> list[NDArray[np.float64]]:
    """Returns the outputs of each trajectory, by turn; its ``rows`` may be empty. ``scorer``: of a scalar model."""
    flat = [row for part in rows for row in part]
    outputs = iter(scorer(flat) if flat else ())
    return [np.concatenate([np.zeros(0), *islice(outputs, len(part))]) for part in rows]


def aggregate(probabilities: Sequence[float], how: Aggregation) -> float:
    """Returns the score of a trajectory from the probabilities of its turns, at least one, in order."""
    match how:
        case "min":
            return min(probabilities)
        case "product":
            return math.prod(probabilities)
        case "last":
            return probabilities[-1]
        case "mean":
            return math.fsum(probabilities) / len(probabilities)
        case _:
            assert_never(how)


def logistic(values: Iterable[float]) -> list[float]:
    """Returns σ of each value, exact at both ends of the range of floats."""
    return [1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x)) for x in values]


def _score(outputs: NDArray[np.float64], description: RewardModelDescription) -> float | None:
    """None = an output is not finite."""
    if not np.isfinite(outputs).all():
        return None
    probabilities = logistic((outputs - description.offset).tolist())
    return (
        probabilities[0] if description.aggregation is None else aggregate(probabilities, description.aggregation)
    )
