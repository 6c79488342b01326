"""A world-model stage before practice: the model predicts what its environment answers, and is rewarded for it.

RWML (Reinforcement World Model Learning, arXiv 2602.05842). Order of a run: transitions with a tool's most common
output are capped, the warm-up is trained where there is one, transitions that the model knows by then are left
out, and the rest are the tasks of GRPO: of each, several predictions are sampled, and those that are alike enough
to what came earn 1. What was recorded decides everything; no environment is asked.

Departures: words are compared (ROUGE-L) wherever no other similarity is handed in, where the paper compares
embeddings of observations that are prose; a prediction is written straight after the action, without reasoning.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np
from transformers import PreTrainedModel

from upturn.agents import derived_seed
from upturn.errors import TrainingError
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.grpo import run_grpo
from upturn.training.algorithms.sft import epoch_order, run_sft
from upturn.training.algorithms.world_model.prediction import (
    Foresight,
    Prediction,
    Predictor,
    assessed_lift,
    task_of,
    together,
    unknown,
)
from upturn.training.algorithms.world_model.settings import WorldModelSettings
from upturn.training.data import (
    Transition,
    capped,
    most_common,
    observation_rows,
    of_same_tools,
    refuse_seen,
    transitions_digest,
)
from upturn.training.evaluation_result import Evaluate
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import TrainingRow
from upturn.training.runs import WARM_UP_FOLDER, RunOptions, check_evaluation
from upturn.training.signature import signature
from upturn.training.stream import NO_STATE, State


def run_world_model(  # noqa: PLR0917  # a predictor and its transitions stand for what others collect
    model: PreTrainedModel,
    predictor: Predictor,
    transitions: Sequence[Transition],
    settings: WorldModelSettings,
    options: RunOptions,
    *,
    rehearsal: Sequence[TrainingRow] = (),
) -> TrainingOutcome:
    """Trains the model in place to predict the transitions; resumes from the options' folder.

    ``rehearsal``: what the model wrote itself when it acted, gone through in the warm-up beside the observations.
    Its cross-entropy is KL(before ‖ now) but for a constant, so that learning the world does not unlearn acting.
    A warm-up lies in the folder's ``warm-up``; ``progress`` and the outcome are of practice. ``evaluate`` is called
    with the iterations of practice done; transitions in its place are held out, and the score is the lift of greedy
    predictions of those whose tool is learned. Resuming needs the model as it was before training, the same
    transitions, settings and seed. Raises TrainingError, also when no transition is left to learn from.
    """
    check_evaluation(options.evaluate, settings.evaluate_every)
    if rehearsal and settings.warm_up is None:
        raise TrainingError(
            f"{len(rehearsal)} rows to rehearse would do nothing with warm_up=None; set it, or give none"
        )
    kept = _kept(transitions, settings, options.seed)
    usual = most_common(transitions)
    held_out: Sequence[Transition] = ()
    watch = options.evaluate
    if isinstance(watch, Sequence):
        refuse_seen(transitions, watch)
        held_out = of_same_tools(watch, kept)
        watch = _watch(predictor, held_out, usual, settings.threshold)
    if (warm_up := settings.warm_up) is not None:
        watched = None if warm_up.evaluate_every is None else observation_rows(held_out)
        rows = (*observation_rows(kept), *rehearsal)
        run_sft(model, rows, warm_up, RunOptions(options.seed, options.folder / WARM_UP_FOLDER, evaluate=watched))
    used = kept if settings.easy is None else unknown(predictor, kept, settings.threshold, settings.easy)
    facts = {"world model": settings, "transitions": transitions_digest(kept)}
    collect = Predictions(predictor, used, settings, seed=options.seed, usual=usual, facts=facts)
    return run_grpo(
        model,
        collect,
        settings,
        replace(options, evaluate=watch),
        refill=None if settings.dynamic_sampling is None else collect.refill,
    )


def _watch(
    predictor: Predictor, held_out: Sequence[Transition], usual: Mapping[str, str], threshold: float
) -> Evaluate:
    return lambda _: assessed_lift(predictor, held_out, usual, threshold)


def _kept(transitions: Sequence[Transition], settings: WorldModelSettings, seed: int) -> list[Transition]:
    ratio = settings.common_ratio
    kept = list(transitions) if ratio is None else capped(transitions, ratio, seed=seed)
    if not transitions:
        raise TrainingError("there are no transitions to learn from; give at least one")
    if not kept:
        raise TrainingError(
            f"each tool of the {len(transitions)} transitions gives one output only: there is nothing to predict. "
            "Collect other attempts, or leave the stage out"
        )
    return kept


@dataclass(slots=True)
class Predictions:
    """Collects the groups of an iteration: predictions of the transitions that are its turn."""

    predictor: Predictor
    transitions: Sequence[Transition]
    settings: WorldModelSettings
    _: KW_ONLY
    seed: int
    usual: Mapping[str, str]
    """The most common output of each tool."""
    facts: Mapping[str, object]
    """What the transitions were chosen by."""
    _seen: list[Foresight] = field(default_factory=list, init=False)
    """Of the iteration that was collected last."""

    def __call__(self, iteration: int, /) -> list[ScoredGroup]:
        """All transitions come once before any comes again; which come when depends on (seed, iteration) only."""
        size = self.settings.transitions_per_iteration
        epoch, part = divmod(iteration, math.ceil(len(self.transitions) / size))
        order = epoch_order(len(self.transitions), self.seed, epoch)
        self._seen = []
        return self._groups(order[part * size : (part + 1) * size], (iteration, 0))

    def refill(self, iteration: int, attempt: int, /) -> list[ScoredGroup]:
        """As many others, drawn from (seed, iteration, attempt)."""
        count = min(self.settings.transitions_per_iteration, len(self.transitions))
        rng = np.random.default_rng([self.seed, iteration, attempt])
        drawn = rng.choice(len(self.transitions), count, replace=False)
        return self._groups(drawn.tolist(), (iteration, attempt))

    def _groups(self, places: Sequence[int], when: tuple[int, int]) -> list[ScoredGroup]:
        settings, chosen = self.settings, [self.transitions[place] for place in places]
        predicted = self.predictor.predict(
            chosen, settings.group_size, key=f"foresight/{when}", seed=derived_seed(self.seed, *when)
        )
        self._seen += self.predictor.compared(chosen, predicted, self.usual, threshold=settings.threshold)
        return [
            ScoredGroup(task_of(transition), tuple(_scored(each, settings.threshold) for each in predictions))
            for transition, predictions in zip(chosen, predicted, strict=True)
        ]

    def state(self) -> State:
        """Nothing."""
        return NO_STATE

    def load_state(self, state: State) -> None:
        """Nothing is remembered."""

    def metrics(self) -> Mapping[str, float]:
        """Of all predictions of the iteration, at temperature 1; the share that is right is ``mean_return``."""
        found = together(self._seen)
        return {
            "prediction_usual": found.usual,
            "prediction_lift": found.lift,
            "prediction_similarity": found.similarity,
        }

    def identity(self) -> Mapping[str, object]:
        """How predictions are compared, and the facts."""
        return {"similarity": signature(self.predictor.similarity), **self.facts}


def _scored(prediction: Prediction, threshold: float) -> ScoredTrajectory:
    """1 for a prediction that is alike enough to what came, else 0; missing where none was written."""
    reached = prediction.similarity
    return ScoredTrajectory(prediction.trajectory, None if reached is None else (float(reached >= threshold),))
