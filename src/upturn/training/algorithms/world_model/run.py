"""World-model training: the model predicts its environment's answers, and is rewarded for it.

RWML (Reinforcement World Model Learning, arXiv 2602.05842). Order of a run: transitions with a tool's most common
output are capped, an optional warm-up is trained, transitions that the model predicts by then are dropped, and the
rest are the tasks of GRPO: several predictions of each are sampled, and those that are similar enough to the
recorded observation have the reward 1. No environment is needed.

Departures: the default similarity compares words (ROUGE-L), where the paper compares embeddings of observations in
prose; a prediction is written directly after the action, without reasoning."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np
from transformers import PreTrainedModel

from upturn.agents import derived_seed
from upturn.errors import TrainingError
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.epochs import epoch_order
from upturn.training.algorithms.grpo import run_grpo
from upturn.training.algorithms.sft import run_sft
from upturn.training.algorithms.world_model.prediction import (
    Prediction,
    PredictionScore,
    PredictionSource,
    evaluate_lift,
    merge_scores,
    prediction_task,
    score_predictions,
    select_unknown,
)
from upturn.training.algorithms.world_model.settings import WorldModelSettings
from upturn.training.data import (
    Transition,
    cap_common_outputs,
    check_unseen,
    filter_by_tools,
    most_common_outputs,
    observation_rows,
    transitions_digest,
)
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import TrainingRow
from upturn.training.runs import WARM_UP_FOLDER, RunOptions, check_evaluation
from upturn.training.signature import signature
from upturn.training.stream import NO_STATE, State


def run_world_model(  # noqa: PLR0917  # a predictor and its transitions take the place of a collect
    model: PreTrainedModel,
    predictor: PredictionSource,
    transitions: Sequence[Transition],
    settings: WorldModelSettings,
    options: RunOptions,
    *,
    rehearsal: Sequence[TrainingRow] = (),
) -> TrainingOutcome:
    """Trains the model in place to predict the transitions; resumes from the options' folder.

    ``rehearsal``: actions that the model itself wrote, which the warm-up trains on in addition to the observations.
    Their cross-entropy is KL(before ‖ now) up to a constant, so that the model does not forget how to act. The
    warm-up's folder is ``warm-up`` in the run's folder; ``progress`` and the outcome are of the RL training.
    ``evaluate`` is called with the finished iterations; held-out transitions may take its place, with the lift of
    greedy predictions for the trained tools as the score. Resuming needs the model with its initial weights, the
    same transitions, settings and seed. Raises TrainingError, also when no transition is left to train on."""
    check_evaluation(options.evaluate, settings.evaluate_every)
    if rehearsal and settings.warm_up is None:
        raise TrainingError(
            f"{len(rehearsal)} rows to rehearse would do nothing with warm_up=None; set it, or give none"
        )
    capped = _cap(transitions, settings, options.seed)
    common = most_common_outputs(transitions)
    held_out: Sequence[Transition] = ()
    if isinstance(options.evaluate, Sequence):
        check_unseen(transitions, options.evaluate)
        held_out = filter_by_tools(options.evaluate, capped)
        options = replace(
            options, evaluate=lambda _: evaluate_lift(predictor, held_out, common, settings.threshold)
        )
    if (warm_up := settings.warm_up) is not None:
        rows = (*observation_rows(capped), *rehearsal)
        held_out_rows = None if warm_up.evaluate_every is None else observation_rows(held_out)
        folder = options.folder / WARM_UP_FOLDER
        run_sft(model, rows, warm_up, RunOptions(options.seed, folder, evaluate=held_out_rows))
    trained = capped
    if settings.easy is not None:
        trained = select_unknown(predictor, capped, settings.threshold, settings.easy)
    facts = {"world model": settings, "transitions": transitions_digest(capped)}
    collect = PredictionCollect(predictor, trained, settings, seed=options.seed, common=common, facts=facts)
    refill = None if settings.dynamic_sampling is None else collect.refill
    return run_grpo(model, collect, settings, options, refill=refill)


def _cap(transitions: Sequence[Transition], settings: WorldModelSettings, seed: int) -> list[Transition]:
    if not transitions:
        raise TrainingError("there are no transitions to train on; give at least one")
    ratio = settings.common_ratio
    capped = list(transitions) if ratio is None else cap_common_outputs(transitions, ratio, seed=seed)
    if not capped:
        raise TrainingError(
            f"each tool of the {len(transitions)} transitions has one output only: there is nothing to predict. "
            "Collect other trajectories, or leave the stage out"
        )
    return capped


@dataclass(slots=True)
class PredictionCollect:
    """A ``Collect`` of predictions of transitions."""

    predictor: PredictionSource
    transitions: Sequence[Transition]
    settings: WorldModelSettings
    _: KW_ONLY
    seed: int
    common: Mapping[str, str]
    """The most common output of each tool."""
    facts: Mapping[str, object]
    """How the transitions were selected, for the run's identity."""
    _scores: list[PredictionScore] = field(default_factory=list, init=False)
    """Of the last iteration."""

    def __call__(self, iteration: int, /) -> list[ScoredGroup]:
        """Returns the groups of the iteration; each transition occurs once per epoch, in an order that depends on
        (seed, epoch) only."""
        size = self.settings.transitions_per_iteration
        epoch, part = divmod(iteration, math.ceil(len(self.transitions) / size))
        order = epoch_order(len(self.transitions), self.seed, epoch)
        self._scores = []
        return self._groups(order[part * size : (part + 1) * size], (iteration, 0))

    def refill(self, iteration: int, round_index: int, /) -> list[ScoredGroup]:
        """Returns as many further groups, drawn from (seed, iteration, round_index)."""
        count = min(self.settings.transitions_per_iteration, len(self.transitions))
        rng = np.random.default_rng([self.seed, iteration, round_index])
        indices = rng.choice(len(self.transitions), count, replace=False)
        return self._groups(indices.tolist(), (iteration, round_index))

    def _groups(self, indices: Sequence[int], stage: tuple[int, int]) -> list[ScoredGroup]:
        """``stage``: iteration and round."""
        settings, transitions = self.settings, [self.transitions[index] for index in indices]
        predicted = self.predictor.predict(
            transitions, settings.group_size, key=f"foresight/{stage}", seed=derived_seed(self.seed, *stage)
        )
        self._scores += score_predictions(
            self.predictor.similarity, transitions, predicted, self.common, threshold=settings.threshold
        )
        return [
            ScoredGroup(
                prediction_task(transition),
                tuple(_reward(prediction, settings.threshold) for prediction in predictions),
            )
            for transition, predictions in zip(transitions, predicted, strict=True)
        ]

    def state(self) -> State:
        """Returns an empty state."""
        return NO_STATE

    def load_state(self, state: State) -> None:
        """Does nothing."""

    def metrics(self) -> Mapping[str, float]:
        """Returns the metrics of the iteration's predictions, at temperature 1; ``mean_return`` is the accuracy."""
        score = merge_scores(self._scores)
        return {
            "prediction_usual": score.baseline,
            "prediction_lift": score.lift,
            "prediction_similarity": score.similarity,
        }

    def identity(self) -> Mapping[str, object]:
        """Returns the similarity and the facts."""
        return {"similarity": signature(self.predictor.similarity), **self.facts}


def _reward(prediction: Prediction, threshold: float) -> ScoredTrajectory:
    """1 for a prediction with at least the threshold's similarity, else 0; missing where none was written."""
    similarity = prediction.similarity
    reward = None if similarity is None else (float(similarity >= threshold),)
    return ScoredTrajectory(prediction.trajectory, reward)
