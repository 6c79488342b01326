"""One training run: units in order, evaluations, the curve, checkpoints, stopping early and resuming.

Order of each unit: the algorithm makes it, the trainer takes its steps, it is evaluated if due, its point goes on
the curve, a checkpoint is written if due. Nothing here looks at a clock to decide, so a resumed run ends with the
same weights, bit for bit on a CPU with the same number of threads, as one that was never stopped.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor

from upturn.errors import TrainingError
from upturn.models.engine import weights_hash
from upturn.training.checkpoint import Checkpoint, TrainingProgress, read_checkpoint, write_checkpoint
from upturn.training.curve import Curve, CurvePoint
from upturn.training.outcome import StopReason, TrainingOutcome
from upturn.training.settings import Keep
from upturn.training.stream import Algorithm
from upturn.training.trainer import StepMetrics, Trainer, torch_threads
from upturn.training.weights import copied, put_back, weight_tensors

CHECKPOINT_FILE = "checkpoint.safetensors"
CURVE_FILE = "curve.jsonl"

Evaluate: TypeAlias = Callable[[int], float]
"""The score of the weights as they are; higher is better. Must not depend on anything but them."""
Progress: TypeAlias = Callable[[CurvePoint], None]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """When a run evaluates, saves and stops; counted in units."""

    units: int
    evaluate_every: int | None
    """None = never."""
    checkpoint_every: int
    keep: Keep
    target_score: float | None = None
    """None = no target."""
    patience: int | None = None
    """None = never stops for want of progress."""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a run keeps its files, and what it is."""

    folder: Path
    identity: Mapping[str, str]
    """By name, everything that decides the result; a checkpoint of another identity is refused."""


def identity_of(trainer: Trainer, algorithm: str, settings: object, **further: object) -> dict[str, str]:
    """What a run is: algorithm, model and its weights before training, each setting, and ``further`` facts."""
    each: Any = settings  # a dataclass instance
    return {
        "algorithm": algorithm,
        "model": type(trainer.model).__name__,
        "initial weights": weights_hash(trainer.model),
        **{f"setting {entry.name}": repr(getattr(settings, entry.name)) for entry in fields(each)},
        **{name: repr(value) for name, value in further.items()},
    }


def check_evaluation(evaluate: Evaluate | None, evaluate_every: int | None) -> None:
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

    def finish(self) -> TrainingOutcome:
        """Starts, or goes on from the checkpoint in the folder, and trains to the end.

        The model passed to the trainer must hold the weights it started from, also when resuming. Raises
        TrainingError for a foreign or damaged checkpoint and for an evaluation that is not a number; what the
        algorithm or the evaluation raises passes through, and the run can be resumed.
        """
        self.place.folder.mkdir(parents=True, exist_ok=True)
        is_resumed = self._resume()
        kept_units = self._done.units if is_resumed else None
        with (
            torch_threads(self.trainer.settings.threads),
            Curve(self.place.folder / CURVE_FILE, keep_units=kept_units) as curve,
        ):
            if not is_resumed and self.evaluate is not None:
                self._record(curve, {"score": self._evaluate(self.evaluate)})
                self._save(curve)
            while (stopped := self._done.stopped) is None:
                self._advance(curve)
        return self._outcome(stopped)

    def _advance(self, curve: Curve) -> None:
        started = time.perf_counter()
        unit = self.algorithm.unit(self._done.units)
        made = time.perf_counter()
        steps = [self.trainer.step(minibatch) for minibatch in unit.minibatches]
        self._done = replace(self._done, units=self._done.units + 1, steps=self.trainer.steps)
        metrics: dict[str, float | None] = {**unit.metrics, **summary(steps), "collect_seconds": made - started}
        is_last = self._done.units >= self.plan.units
        every = self.plan.evaluate_every
        if self.evaluate is not None and every is not None and (is_last or self._done.units % every == 0):
            metrics["score"] = self._evaluate(self.evaluate)
        self._stop_if_due(is_last)
        self._record(curve, metrics)
        if self._done.stopped is not None or self._done.units % self.plan.checkpoint_every == 0:
            self._save(curve)

    def _evaluate(self, evaluate: Evaluate) -> float:
        score = float(evaluate(self._done.units))
        if not math.isfinite(score):
            raise TrainingError(f"the evaluation after {self._done.units} units gave {score!r}; it must be finite")
        best = self._done.best_score
        if best is None or score > best:
            self._done = replace(
                self._done,
                last_score=score,
                best_score=score,
                best_units=self._done.units,
                evaluations_since_best=0,
            )
            if self.plan.keep == "best":
                self._best = copied(weight_tensors(self.trainer.model))
        else:
            since = self._done.evaluations_since_best + 1
            self._done = replace(self._done, last_score=score, evaluations_since_best=since)
        return score

    def _stop_if_due(self, is_last: bool) -> None:
        target, patience, done = self.plan.target_score, self.plan.patience, self._done
        if target is not None and done.best_score is not None and done.best_score >= target:
            self._done = replace(done, stopped="target")
        elif patience is not None and done.evaluations_since_best >= patience:
            self._done = replace(done, stopped="patience")
        elif is_last:
            self._done = replace(done, stopped="finished")

    def _record(self, curve: Curve, metrics: Mapping[str, float | None]) -> None:
        point = CurvePoint(self._done.units, self._done.steps, metrics)
        curve.append(point)
        if self.progress is not None:
            self.progress(point)

    def _save(self, curve: Curve) -> None:
        curve.sync()
        checkpoint = Checkpoint(self._done, weight_tensors(self.trainer.model), self.trainer.state(), self._best)
        write_checkpoint(self.place.folder / CHECKPOINT_FILE, self.place.identity, checkpoint)

    def _resume(self) -> bool:
        """True when there was a checkpoint to go on from."""
        path = self.place.folder / CHECKPOINT_FILE
        if not path.exists():
            return False
        found = read_checkpoint(path, self.place.identity)
        put_back(self.trainer.model, found.weights)
        self.trainer.load_state(found.optimiser, found.progress.steps)
        self._done, self._best = found.progress, found.best
        return True

    def _outcome(self, stopped: StopReason) -> TrainingOutcome:
        done, model = self._done, self.trainer.model
        model.eval()
        kept_units = done.units
        if self.plan.keep == "best" and done.best_units is not None:
            put_back(model, self._best)
            kept_units = done.best_units
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
        "update_seconds": seconds,
        "tokens_per_second": logical / seconds,
        **{name: sum(step.sums.get(name, 0.0) for step in steps) / written for name in steps[0].sums},
        **{f"max_{name}": value for name, value in steps[0].maxima.items()},
    }
