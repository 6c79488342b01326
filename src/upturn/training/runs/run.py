"""One training run: units in order, evaluations, the curve, checkpoints, stopping early and resuming.

Order of each unit: the algorithm makes it, the trainer takes its steps, it is evaluated if due, its point goes on
the curve, a checkpoint is written if due. Nothing here looks at a clock to decide, so a resumed run ends with the
same weights, bit for bit on a CPU with the same number of threads, as one that was never stopped. Where several
processes train one model, all go through the same units; the first one keeps the records and the checkpoint.
"""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torch import Tensor

from upturn.errors import TrainingError
from upturn.models.engine import adapter_identity, weights_hash
from upturn.training.distributed import (
    broadcast_first,
    copy_tensors,
    refuse_different,
    restore_weights,
    weight_tensors,
)
from upturn.training.evaluation_result import Assessment, Evaluate, assessed
from upturn.training.optimisation import StepMetrics, Trainer
from upturn.training.outcome import StopReason, TrainingOutcome
from upturn.training.runs.checkpoint import Checkpoint, TrainingProgress, load_checkpoint, save_checkpoint
from upturn.training.runs.curve import Curve, CurvePoint, Progress
from upturn.training.runs.run_folder import (
    CHECKPOINT_FILE,
    CURVE_FILE,
    DESCRIPTION_FILE,
    EVENTS_FOLDER,
    OUTCOME_FILE,
    RunDescription,
    RunPlace,
    RunPlan,
    read_description,
    write_description,
    write_outcome,
)
from upturn.training.runs.tensorboard import EventFile
from upturn.training.stream import NO_STATE, Algorithm, State, Stateful

__all__ = [
    "CHECKPOINT_FILE",
    "CURVE_FILE",
    "Evaluate",
    "Progress",
    "Run",
    "RunPlace",
    "RunPlan",
    "check_evaluation",
    "identity_of",
    "summary",
]


def identity_of(trainer: Trainer, algorithm: str, settings: object, **further: object) -> dict[str, str]:
    """What a run is: algorithm, model, its weights and adapter before training, each setting, ``further`` facts.

    Several processes belong to it too: sums are rounded in another order then.
    """
    each: Any = settings  # a dataclass instance
    return {
        "algorithm": algorithm,
        "model": type(trainer.model).__name__,
        "initial weights": weights_hash(trainer.model),
        **adapter_identity(trainer.model),
        **{f"setting {entry.name}": repr(getattr(settings, entry.name)) for entry in fields(each)},
        **{name: repr(value) for name, value in further.items()},
        **({} if trainer.world is None else {"processes": repr(trainer.world.size)}),
    }


def check_evaluation(evaluate: object, evaluate_every: int | None) -> None:
    """Raises TrainingError when one of the two is given without the other."""
    if (evaluate is None) != (evaluate_every is None):
        shown = "no evaluate function" if evaluate is None else "an evaluate function"
        raise TrainingError(
            f"evaluate_every={evaluate_every!r} with {shown}: one without the other does nothing; "
            "give both, or evaluate_every=None and none"
        )


@dataclass(slots=True)
class Run:
    """A run in its folder; single use."""

    trainer: Trainer
    algorithm: Algorithm
    plan: RunPlan
    place: RunPlace
    evaluate: Evaluate | None = None
    progress: Progress | None = None
    _done: TrainingProgress = field(default_factory=TrainingProgress)
    _best: Mapping[str, Tensor] = field(default_factory=dict)
    _records: "_Records | None" = None
    """None = another process keeps them."""

    def finish(self) -> TrainingOutcome:
        """Starts, or goes on from the checkpoint in the folder, and trains to the end.

        The model passed to the trainer must hold the weights it started from, also when resuming. Raises
        TrainingError for a foreign or damaged checkpoint and for an evaluation that is not a number; what the
        algorithm or the evaluation raises passes through, and the run can be resumed.
        """
        world = self.trainer.world
        refuse_different(world, {**self.place.identity, "the plan": repr(self.plan)})
        broadcast_first(world, lambda: self.place.folder.mkdir(parents=True, exist_ok=True))
        is_resumed = self._resume()
        with ExitStack() as stack:
            if world is None or world.is_first:
                resumed = self._done.units if is_resumed else None
                self._records = stack.enter_context(_Records(self.place, self.plan, resumed))
            if not is_resumed:
                self._begin()
            while (stopped := self._done.stopped) is None:
                self._advance()
        outcome = self._outcome(stopped)
        broadcast_first(world, lambda: write_outcome(self.place.folder, outcome))
        return outcome

    def _begin(self) -> None:
        if self.plan.cost_limits:
            self._best = copy_tensors(
                weight_tensors(self.trainer.model)
            )  # until an evaluation is within the limits
        if self.evaluate is not None:
            self._record(self._evaluate(self.evaluate))
            self._save()

    def _advance(self) -> None:
        started = time.perf_counter()
        unit = self.algorithm.unit(self._done.units)
        made = time.perf_counter()
        steps = [self.trainer.step(minibatch) for minibatch in unit.minibatches]
        self._done = replace(self._done, units=self._done.units + 1, steps=self.trainer.steps)
        metrics: dict[str, float | None] = {**unit.metrics, **summary(steps), "collect_seconds": made - started}
        is_last = self._done.units >= self.plan.units
        every = self.plan.evaluate_every
        if self.evaluate is not None and every is not None and (is_last or self._done.units % every == 0):
            metrics.update(self._evaluate(self.evaluate))
        self._stop_if_due(is_last)
        self._record(metrics)
        if self._done.stopped is not None or self._done.units % self.plan.checkpoint_every == 0:
            self._save()

    def _evaluate(self, evaluate: Evaluate) -> dict[str, float | None]:
        """The metrics of an evaluation, which is taken into account."""
        started = time.perf_counter()
        mine = assessed(evaluate(self._done.units), self.plan.cost_limits, self._done.units)
        found = broadcast_first(self.trainer.world, lambda: mine)  # what is decided by it must be decided alike
        seconds = time.perf_counter() - started
        self._compare(found)
        if self._records is not None:
            self._records.describe(found.measure)
        return {**found.metrics(), "evaluate_seconds": seconds}

    def _compare(self, found: Assessment) -> None:
        """With the best evaluation so far. One that breaks a limit is never the best."""
        done, is_within = self._done, found.is_within(self.plan.cost_limits)
        done = replace(done, last_score=found.score, is_within_limits=is_within)
        if is_within and (done.best_score is None or found.score > done.best_score):
            done = replace(done, best_score=found.score, best_units=done.units, evaluations_since_best=0)
            if self.plan.keep == "best":
                self._best = copy_tensors(weight_tensors(self.trainer.model))
        else:
            done = replace(done, evaluations_since_best=done.evaluations_since_best + 1)
        self._done = done

    def _stop_if_due(self, is_last: bool) -> None:
        target, patience, done = self.plan.target_score, self.plan.patience, self._done
        stopped: StopReason | None = None
        if not done.is_within_limits and done.best_units is not None:
            stopped = "limit"
        elif target is not None and done.best_score is not None and done.best_score >= target:
            stopped = "target"
        elif patience is not None and done.evaluations_since_best >= patience:
            stopped = "patience"
        elif is_last:
            stopped = "finished"
        if stopped is not None and self.plan.cost_limits and done.best_units is None:
            stopped = "limit"
        self._done = replace(done, stopped=stopped)

    def _record(self, metrics: Mapping[str, float | None]) -> None:
        if self._records is None:
            return
        point = CurvePoint(self._done.units, self._done.steps, metrics)
        self._records.append(point)
        if self.progress is not None:
            self.progress(point)

    def _save(self) -> None:
        if self._records is not None:
            self._records.sync()
        checkpoint = Checkpoint(
            self._done,
            weight_tensors(self.trainer.model),
            self.trainer.state(),
            self._best,
            self.algorithm.state() if isinstance(self.algorithm, Stateful) else NO_STATE,
        )
        path = self.place.folder / CHECKPOINT_FILE
        save_checkpoint(path, self.place.identity, checkpoint, self.trainer.world)

    def _resume(self) -> bool:
        """True when there was a checkpoint to go on from."""
        path = self.place.folder / CHECKPOINT_FILE
        found = load_checkpoint(path, self.place.identity, self.trainer)
        if found is None:
            return False
        _restore(self.algorithm, found.algorithm)
        restore_weights(self.trainer.model, found.weights)
        self.trainer.load_state(found.optimiser, found.progress.steps)
        self._done, self._best = found.progress, found.best
        return True

    def _outcome(self, stopped: StopReason) -> TrainingOutcome:
        done, model = self._done, self.trainer.model
        model.eval()
        kept_units = done.units
        if self.plan.keep == "best" and self._best:
            restore_weights(model, self._best)
            kept_units = 0 if done.best_units is None else done.best_units
        return TrainingOutcome(
            stopped,
            done.units,
            done.steps,
            self.plan.keep,
            kept_units,
            weights_hash(model),
            done.last_score,
            done.best_score,
        )


class _Records:
    """What a run tells as it goes: its description, its curve, and the curve for TensorBoard."""

    def __init__(self, place: RunPlace, plan: RunPlan, resumed_units: int | None) -> None:
        """``resumed_units``: units that the checkpoint has; None = the run starts."""
        self._folder = place.folder
        self._description = RunDescription(place.identity, plan)
        if resumed_units is not None and (place.folder / DESCRIPTION_FILE).exists():
            self._description = replace(self._description, measure=read_description(place.folder).measure)
        (place.folder / OUTCOME_FILE).unlink(missing_ok=True)
        write_description(place.folder, self._description)
        self._curve = Curve(place.folder / CURVE_FILE, keep_units=resumed_units)
        self._events = EventFile(place.folder / EVENTS_FOLDER, self._curve.kept)

    def describe(self, measure: str) -> None:
        """Says what evaluations measure, if that is new."""
        if measure and measure != self._description.measure:
            self._description = replace(self._description, measure=measure)
            write_description(self._folder, self._description)

    def append(self, point: CurvePoint) -> None:
        """Adds a point to both."""
        self._curve.append(point)
        self._events.append(point)

    def sync(self) -> None:
        """Makes both durable."""
        self._curve.sync()
        self._events.sync()

    def __enter__(self) -> "_Records":
        return self

    def __exit__(self, *_: object) -> None:
        self._curve.close()
        self._events.close()


def _restore(algorithm: Algorithm, state: State) -> None:
    """Gives the algorithm back what it remembered; raises TrainingError where only one side knows of it."""
    own = algorithm.state() if isinstance(algorithm, Stateful) else NO_STATE
    if own and not state:
        raise TrainingError(
            f"the checkpoint holds nothing of what the algorithm remembers ({', '.join(map(repr, own))}): it was "
            "written before algorithms could. Use another run folder, or delete it to train from the start"
        )
    if not state:
        return
    if not isinstance(algorithm, Stateful):
        raise TrainingError(
            f"the checkpoint holds what an algorithm remembered ({', '.join(map(repr, state))}), this one "
            "remembers nothing. Resume with what it was started with, or use another run folder"
        )
    algorithm.load_state(state)


def _means(steps: Sequence[StepMetrics]) -> dict[str, float]:
    """What the objectives told, each over all that it was told of; streams of several kinds do not dilute it."""
    names = dict.fromkeys(name for step in steps for name in step.sums)
    counts = {name: sum(step.counts.get(name, 0.0) for step in steps) for name in names}
    return {
        name: sum(step.sums.get(name, 0.0) for step in steps) / count for name, count in counts.items() if count
    }


def summary(steps: Sequence[StepMetrics]) -> dict[str, float | None]:
    """The steps of a unit as metrics: means over steps or tokens, totals, and maxima of the first step."""
    if not steps:
        return {"optimiser_steps": 0.0}
    written = sum(step.action_tokens for step in steps)
    logical = sum(step.logical_tokens for step in steps)
    physical = sum(step.physical_tokens for step in steps)
    seconds = sum(step.seconds for step in steps)
    return {
        "optimiser_steps": float(len(steps)),
        "loss": sum(step.loss for step in steps) / len(steps),
        "grad_norm": sum(step.grad_norm for step in steps) / len(steps),
        "learning_rate": steps[-1].learning_rate,
        "logical_tokens": float(logical),
        "physical_tokens": float(physical),
        "share_ratio": sum(step.needed_tokens for step in steps) / physical,
        "action_fraction": written / logical,
        "fallbacks": float(sum(step.fallbacks for step in steps)),
        **({} if math.isnan(steps[-1].verify_gap) else {"verify_gap": steps[-1].verify_gap}),
        "update_seconds": seconds,
        "tokens_per_second": logical / seconds,
        **_means(steps),
        **{f"max_{name}": value for name, value in steps[0].maxima.items()},
    }
