"""A training run: units in order, evaluations, the curve, checkpoints, early stopping and resuming.

Order of each unit: the algorithm builds it, the trainer takes its steps, it is evaluated if due, its point goes on
the curve, a checkpoint is written if due. A clock decides only when checkpoints are written, so a resumed run ends
with the same weights, bit for bit on a CPU with the same number of threads, as an uninterrupted one. Where several
processes train one model, all execute the same units; rank 0 writes the records and the checkpoint.

An error or an interrupt while the algorithm builds a unit saves what is finished before, except where the algorithm
has tensors in its state; an interrupt in the rest of the unit takes effect after it, and it is saved. Of several
processes nothing is saved then: the run goes back to its latest checkpoint."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from types import TracebackType
from typing import Any

from torch import Tensor

from upturn.errors import TrainingError
from upturn.models.engine import adapter_identity, weights_hash, weights_stamp
from upturn.training.distributed import (
    broadcast_first,
    copy_tensors,
    refuse_different,
    restore_weights,
    trained_tensors,
)
from upturn.training.evaluation_result import Evaluate, EvaluationResult, check_result
from upturn.training.optimisation import StepMetrics, Trainer
from upturn.training.outcome import StopReason, TrainingOutcome
from upturn.training.run_settings import SAVING_SETTINGS
from upturn.training.runs.checkpoint import Checkpoint, TrainingProgress, load_checkpoint, save_checkpoint
from upturn.training.runs.curve import Curve, CurvePoint
from upturn.training.runs.disk import remove_partial
from upturn.training.runs.interruption import Deferral, deferred, terminable
from upturn.training.runs.run_folder import (
    CHECKPOINTS_FOLDER,
    CURVE_FILE,
    DESCRIPTION_FILE,
    EVENTS_FOLDER,
    OUTCOME_FILE,
    TRACKERS_FOLDER,
    RunDescription,
    RunPlan,
    read_description,
    write_description,
    write_outcome,
)
from upturn.training.runs.run_options import RunOptions
from upturn.training.runs.tensorboard import EventFile
from upturn.training.runs.trackers import TrackedRun, TrackerFeed, end_of
from upturn.training.stream import NO_STATE, Algorithm, State, Stateful, Unit, restore_state, state_of


def identity_of(trainer: Trainer, algorithm: str, settings: object, **further: object) -> dict[str, str]:
    """Returns the identity of a run: algorithm, model, initial weights and adapter, ``further`` facts, and each
    setting but those of checkpoints.

    Includes the number of processes, which changes the order of sums."""
    instance: Any = settings  # of a dataclass
    return {
        "algorithm": algorithm,
        "model": type(trainer.model).__name__,
        "initial weights": weights_hash(trainer.model),
        **adapter_identity(trainer.model),
        **{
            f"setting {entry.name}": repr(getattr(settings, entry.name))
            for entry in fields(instance)
            if entry.name not in SAVING_SETTINGS
        },
        **{name: repr(value) for name, value in further.items()},
        **({} if trainer.world is None else {"processes": repr(trainer.world.size)}),
    }


def check_evaluation(evaluate: object, evaluate_every: int | None) -> None:
    """Raises TrainingError when only one of the two is None."""
    if (evaluate is None) != (evaluate_every is None):
        shown = "no evaluate function" if evaluate is None else "an evaluate function"
        raise TrainingError(
            f"evaluate_every={evaluate_every!r} with {shown}: one without the other does nothing; "
            "give both, or evaluate_every=None and none"
        )


@dataclass(slots=True)
class Run:
    """A run in its folder. Single use."""

    trainer: Trainer
    algorithm: Algorithm
    plan: RunPlan
    identity: Mapping[str, str]
    """By name, everything that decides the result; a checkpoint of another identity is refused."""
    options: RunOptions
    clock: Callable[[], float] = time.monotonic
    """In seconds; decides when checkpoints are written."""
    _progress: TrainingProgress = field(default_factory=TrainingProgress)
    _best: Mapping[str, Tensor] = field(default_factory=dict)
    _saved_at: float = 0.0
    """By the clock: the latest checkpoint, or the start."""
    _saved_units: int | None = None
    """Of the latest checkpoint; None = there is none."""
    _recorder: "_Recorder | None" = None
    """None on ranks > 0."""

    def finish(self) -> TrainingOutcome:
        """Starts, or resumes from the checkpoint in the folder, and trains to the end.

        The trainer's model must have its initial weights, also when resuming. Raises TrainingError for a foreign or
        damaged checkpoint and for an evaluation that is not finite. Errors of the algorithm or the evaluation pass
        through, and the run can be resumed.
        """
        world, folder = self.trainer.world, self.options.folder
        refuse_different(world, {**self.identity, "the plan": repr(self.plan)})
        broadcast_first(world, lambda: folder.mkdir(parents=True, exist_ok=True))
        is_resumed = self._resume()
        self._saved_at = self.clock()
        with ExitStack() as stack:
            if world is None:
                stack.enter_context(terminable())
            if world is None or world.is_first:
                resumed_units = self._progress.units if is_resumed else None
                self._recorder = stack.enter_context(
                    _Recorder(self.options, RunDescription(self.identity, self.plan), resumed_units)
                )
            if not is_resumed:
                self._start()
            while (stopped := self._progress.stopped) is None:
                self._advance()
        outcome = self._outcome(stopped)
        broadcast_first(world, lambda: write_outcome(folder, outcome))
        return outcome

    def _start(self) -> None:
        if self.plan.cost_limits:  # the initial weights are the best until an evaluation is within the limits
            self._best = copy_tensors(trained_tensors(self.trainer.model))
        if (evaluate := self.options.evaluation) is not None:
            self._record(self._evaluate(evaluate))
            if self._is_due():
                self._save(state_of(self.algorithm))

    def _advance(self) -> None:
        started = time.perf_counter()
        unit = self._build()
        collect_seconds = time.perf_counter() - started
        with deferred() if self.trainer.world is None else nullcontext(Deferral()) as deferral:
            self._train(unit, collect_seconds)
        if deferral.is_asked:
            self._save(state_of(self.algorithm))
            raise KeyboardInterrupt

    def _build(self) -> Unit:
        """The next unit. If that fails or is interrupted, what is finished is saved, if it is unchanged."""
        index, world, model = self._progress.units, self.trainer.world, self.trainer.model
        state = NO_STATE if world is not None else state_of(self.algorithm)
        if world is not None or any(isinstance(value, Tensor) for value in state.values()):
            return self.algorithm.unit(index)
        state, stamp = dict(state), weights_stamp(model)
        try:
            return self.algorithm.unit(index)
        except BaseException:
            if weights_stamp(model) == stamp and (index > 0 or self._progress.last_score is not None):
                with suppress(OSError):  # the error that ends the run matters more
                    self._save(state)
            raise

    def _train(self, unit: Unit, collect_seconds: float) -> None:
        steps = [self.trainer.step(minibatch) for minibatch in unit.minibatches]
        self.trainer.optimiser.free_gradients()  # before the next rollouts
        units = self._progress.units + 1
        self._progress = replace(self._progress, units=units, steps=self.trainer.steps)
        metrics: dict[str, float | None] = {**unit.metrics, **summary(steps), "collect_seconds": collect_seconds}
        is_last = units >= self.plan.units
        evaluate, every = self.options.evaluation, self.plan.evaluate_every
        if evaluate is not None and every is not None and (is_last or units % every == 0):
            metrics.update(self._evaluate(evaluate))
        self._stop_if_due(is_last)
        self._record(metrics)
        if self._is_due():
            self._save(state_of(self.algorithm))

    def _is_due(self) -> bool:
        """Whether a checkpoint is written now; the same on all ranks."""
        every, seconds, progress = self.plan.checkpoint_every, self.plan.checkpoint_seconds, self._progress
        if progress.stopped is not None or (every is not None and progress.units % every == 0):
            return True
        if seconds is None:
            return False
        return broadcast_first(self.trainer.world, lambda: self.clock() - self._saved_at >= seconds)

    def _evaluate(self, evaluate: Evaluate) -> dict[str, float | None]:
        """Evaluates the weights, updates the progress and returns the metrics."""
        started = time.perf_counter()
        own_result = check_result(evaluate(self._progress.units), self.plan.cost_limits, self._progress.units)
        result = broadcast_first(
            self.trainer.world, lambda: own_result
        )  # all ranks must decide by the same numbers
        seconds = time.perf_counter() - started
        self._compare(result)
        if self._recorder is not None:
            self._recorder.describe(result.measure)
        return {**result.metrics(), "evaluate_seconds": seconds}

    def _compare(self, result: EvaluationResult) -> None:
        """Compares the result with the best one so far; one above a limit is never the best."""
        is_within = result.is_within(self.plan.cost_limits)
        progress = replace(self._progress, last_score=result.score, is_within_limits=is_within)
        if is_within and (progress.best_score is None or result.score > progress.best_score):
            progress = replace(
                progress, best_score=result.score, best_units=progress.units, evaluations_since_best=0
            )
            if self.plan.keep == "best":
                self._best = copy_tensors(trained_tensors(self.trainer.model))
        else:
            progress = replace(progress, evaluations_since_best=progress.evaluations_since_best + 1)
        self._progress = progress

    def _stop_if_due(self, is_last: bool) -> None:
        target, patience, progress = self.plan.target_score, self.plan.patience, self._progress
        stopped: StopReason | None = None
        if not progress.is_within_limits and progress.best_units is not None:
            stopped = "limit"
        elif target is not None and progress.best_score is not None and progress.best_score >= target:
            stopped = "target"
        elif patience is not None and progress.evaluations_since_best >= patience:
            stopped = "patience"
        elif is_last:
            stopped = "finished"
        if stopped is not None and self.plan.cost_limits and progress.best_units is None:
            stopped = "limit"
        self._progress = replace(progress, stopped=stopped)

    def _record(self, metrics: Mapping[str, float | None]) -> None:
        if self._recorder is None:
            return
        point = CurvePoint(self._progress.units, self._progress.steps, metrics)
        self._recorder.append(point)
        if self.options.progress is not None:
            self.options.progress(point)

    def _save(self, state: State) -> None:
        """Writes a checkpoint with the algorithm's ``state``, unless the latest one is of the same units."""
        if self._saved_units == self._progress.units:
            return
        if self._recorder is not None:
            self._recorder.sync()
        trainer = self.trainer
        checkpoint = Checkpoint(self._progress, trained_tensors(trainer.model), trainer.state(), self._best, state)
        folder, keep = self.options.folder / CHECKPOINTS_FOLDER, self.plan.checkpoints_kept
        save_checkpoint(folder, self.identity, checkpoint, trainer.world, keep=keep)
        self._saved_at, self._saved_units = self.clock(), self._progress.units

    def _resume(self) -> bool:
        """Loads the checkpoint and returns True, or returns False when there is none."""
        folder, keep = self.options.folder / CHECKPOINTS_FOLDER, self.plan.checkpoints_kept
        checkpoint = load_checkpoint(folder, self.identity, self.trainer, keep=keep)
        if checkpoint is None:
            return False
        _check_state(self.algorithm, checkpoint.algorithm)
        restore_state(self.algorithm, checkpoint.algorithm)
        restore_weights(self.trainer.model, checkpoint.weights)
        self.trainer.load_state(checkpoint.optimiser, checkpoint.progress.steps)
        self._progress, self._best = checkpoint.progress, checkpoint.best
        self._saved_units = checkpoint.progress.units
        return True

    def _outcome(self, stopped: StopReason) -> TrainingOutcome:
        progress, model = self._progress, self.trainer.model
        model.eval()
        kept_units = progress.units
        if self.plan.keep == "best" and self._best:
            restore_weights(model, self._best)
            kept_units = progress.best_units or 0
        return TrainingOutcome(
            stopped,
            progress.units,
            progress.steps,
            self.plan.keep,
            kept_units,
            weights_hash(model),
            progress.last_score,
            progress.best_score,
        )


class _Recorder:
    """The description, the curve, the TensorBoard file and the trackers of a run."""

    def __init__(self, options: RunOptions, description: RunDescription, resumed_units: int | None) -> None:
        """``resumed_units``: units of the checkpoint; None = a new run."""
        self._folder = folder = options.folder
        self._description = description
        if resumed_units is not None and (folder / DESCRIPTION_FILE).exists():
            self._description = replace(self._description, measure=read_description(folder).measure)
        remove_partial(folder)
        (folder / OUTCOME_FILE).unlink(missing_ok=True)
        write_description(folder, self._description)
        self._curve = Curve(folder / CURVE_FILE, keep_units=resumed_units)
        self._events = EventFile(folder / EVENTS_FOLDER, self._curve.initial_points)
        points = None if resumed_units is None else self._curve.initial_points
        self._feeds = _feeds(options, description.identity, points)

    def describe(self, measure: str) -> None:
        """Writes what evaluations measure into the description, if it is new."""
        if measure and measure != self._description.measure:
            self._description = replace(self._description, measure=measure)
            write_description(self._folder, self._description)

    def append(self, point: CurvePoint) -> None:
        self._curve.append(point)
        self._events.append(point)
        for feed in self._feeds:
            feed.append(point)

    def sync(self) -> None:
        self._curve.sync()
        self._events.sync()

    def __enter__(self) -> "_Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._curve.close()
        self._events.close()
        for feed in self._feeds:
            feed.close(end_of(kind))


def _feeds(
    options: RunOptions, identity: Mapping[str, str], points: Sequence[CurvePoint] | None
) -> list[TrackerFeed]:
    """The started feeds of a run's trackers; ``points`` as for ``TrackerFeed``."""
    if options.tracking is None:
        return []
    run = TrackedRun(None, options.tracking.project, options.tracking.run, options.folder, identity)
    return [TrackerFeed(name, run, options.folder / TRACKERS_FOLDER, points) for name in options.tracking.names]


def _check_state(algorithm: Algorithm, state: State) -> None:
    """Raises TrainingError where only one of algorithm and checkpoint has a state."""
    own = state_of(algorithm)
    if own and not state:
        raise TrainingError(
            f"the checkpoint has no state of the algorithm ({', '.join(map(repr, own))}): an older version wrote "
            "it. Use another run folder, or delete it to train from the start"
        )
    if state and not isinstance(algorithm, Stateful):
        raise TrainingError(
            f"the checkpoint has the state of an algorithm ({', '.join(map(repr, state))}), this one has none. "
            "Resume with what it was started with, or use another run folder"
        )


def _means(steps: Sequence[StepMetrics]) -> dict[str, float]:
    """The objectives' statistics, each as a mean over the tokens or pairs that report it."""
    names = dict.fromkeys(name for step in steps for name in step.sums)
    counts = {name: sum(step.counts.get(name, 0.0) for step in steps) for name in names}
    return {
        name: sum(step.sums.get(name, 0.0) for step in steps) / count for name, count in counts.items() if count
    }


def summary(steps: Sequence[StepMetrics]) -> dict[str, float | None]:
    """Returns the metrics of a unit's steps: means over steps or tokens, totals, and maxima of the first step."""
    if not steps:
        return {"optimiser_steps": 0.0}
    written = sum(step.action_tokens for step in steps)
    logical = sum(step.logical_tokens for step in steps)
    physical = sum(step.physical_tokens for step in steps)
    seconds = sum(step.seconds for step in steps)
    attention = Counter[str]()
    for step in steps:
        attention.update(step.attention)
    return {
        "optimiser_steps": float(len(steps)),
        "loss": sum(step.loss for step in steps) / len(steps),
        "grad_norm": sum(step.grad_norm for step in steps) / len(steps),
        "learning_rate": steps[-1].learning_rate,
        "logical_tokens": float(logical),
        "physical_tokens": float(physical),
        "share_ratio": sum(step.needed_tokens for step in steps) / physical,
        "action_fraction": written / logical,
        **{f"attention_{name}": tokens / physical for name, tokens in attention.items()},
        "fallbacks": float(sum(step.fallbacks for step in steps)),
        **({} if math.isnan(steps[-1].verify_gap) else {"verify_gap": steps[-1].verify_gap}),
        "update_seconds": seconds,
        "tokens_per_second": logical / seconds,
        **_means(steps),
        **{f"max_{name}": value for name, value in steps[0].maxima.items()},
    }
