"""The files of a training run and its plan. No torch here.

``run.json`` describes the run, ``curve.jsonl`` and ``tensorboard/`` hold its learning curve, ``trackers/`` how far
services are that receive it, ``checkpoints/`` its state, and ``outcome.json`` its outcome.
"""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from upturn.config import refuse
from upturn.errors import RecordError, TrainingError
from upturn.records import from_json, record, to_json
from upturn.training.outcome import TrainingOutcome
from upturn.training.run_settings import CHECKPOINT_SECONDS, IterationSettings, Keep, evaluation_problems
from upturn.training.runs.disk import PARTIAL

CHECKPOINTS_FOLDER = "checkpoints"
CURVE_FILE = "curve.jsonl"
WARM_UP_FOLDER = "warm-up"
"""Folder of the preceding supervised run, in a run's folder."""
DESCRIPTION_FILE = "run.json"
OUTCOME_FILE = "outcome.json"
MARKER = "upturn.json"
"""File in a model's folder with the hash of its weights."""
EVENTS_FOLDER = "tensorboard"
TRACKERS_FOLDER = "trackers"

UnitName = Literal["iteration", "optimiser step", "round"]


@record
class RunPlan:
    """When a run evaluates, saves and stops, in units. Raises ConfigError."""

    units: int
    evaluate_every: int | None
    """None = never."""
    checkpoint_every: int | None
    """None = not by the number of units."""
    keep: Keep
    target_score: float | None = None
    """None = no target."""
    patience: int | None = None
    """None = the run never stops for lack of progress."""
    cost_limits: Mapping[str, float] = field(default_factory=dict)
    """Upper limits of held-out costs. Weights that exceed one are never kept, and a run that exceeds one after an
    evaluation within all of them stops."""
    unit: UnitName = "iteration"
    checkpoint_seconds: float | None = CHECKPOINT_SECONDS
    """Since the last checkpoint; None = not by time."""
    checkpoints_kept: int = 1

    def __post_init__(self) -> None:
        refuse(
            *evaluation_problems(
                self.evaluate_every,
                keep=self.keep,
                patience=self.patience,
                target_score=self.target_score,
                cost_limits=self.cost_limits,
            )
        )


def plan_of(settings: IterationSettings, unit: UnitName = "iteration") -> RunPlan:
    """Returns the plan of a run in iterations."""
    return RunPlan(
        units=settings.iterations,
        evaluate_every=settings.evaluate_every,
        checkpoint_every=settings.checkpoint_every,
        keep=settings.keep,
        target_score=settings.target_score,
        patience=settings.patience,
        cost_limits=settings.cost_limits,
        unit=unit,
        checkpoint_seconds=settings.checkpoint_seconds,
        checkpoints_kept=settings.checkpoints_kept,
    )


@record
class RunDescription:
    """The content of ``run.json``."""

    identity: Mapping[str, str]
    plan: RunPlan
    measure: str = ""
    """What the evaluations measure; empty = no evaluation, or unknown."""


def write_description(folder: Path, description: RunDescription) -> None:
    """Writes ``run.json`` atomically."""
    _write(folder / DESCRIPTION_FILE, to_json(description))


def write_outcome(folder: Path, outcome: TrainingOutcome) -> None:
    """Writes ``outcome.json`` atomically."""
    _write(folder / OUTCOME_FILE, to_json(outcome))


def read_description(folder: Path) -> RunDescription:
    """Returns the description of a run; raises TrainingError when it is missing or unreadable."""
    path = folder / DESCRIPTION_FILE
    try:
        return from_json(RunDescription, path.read_text())
    except (OSError, UnicodeDecodeError, RecordError) as exc:
        raise TrainingError(
            f"{str(folder)!r} is no folder of a training run: cannot read {path.name}: {exc}; name a folder that a "
            "training run wrote, such as runs/<id>/training/<name>"
        ) from exc


def read_outcome(folder: Path) -> TrainingOutcome | None:
    """Returns the outcome of a run; None = not finished. Raises TrainingError when it is unreadable."""
    path = folder / OUTCOME_FILE
    if not path.exists():
        return None
    try:
        return from_json(TrainingOutcome, path.read_text())
    except (OSError, UnicodeDecodeError, RecordError) as exc:
        raise TrainingError(f"cannot read {str(path)!r}: {exc}; delete it and resume the run") from exc


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + PARTIAL)
    partial.write_text(text + "\n")
    partial.replace(path)
