"""A training run's folder: what the run is, when it stops, and what it leaves there. No torch here.

``run.json`` says what the run is, ``curve.jsonl`` how it went, ``tensorboard/`` the same for TensorBoard,
``checkpoint.safetensors`` where it goes on, ``outcome.json`` how it ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from upturn.config import refuse
from upturn.errors import RecordError, TrainingError
from upturn.records import from_json, record, to_json
from upturn.training.outcome import TrainingOutcome
from upturn.training.run_settings import Keep, Planned, plan_problems

CHECKPOINT_FILE = "checkpoint.safetensors"
CURVE_FILE = "curve.jsonl"
WARM_UP_FOLDER = "warm-up"
"""Within a run's folder: the supervised run that went before it."""
DESCRIPTION_FILE = "run.json"
OUTCOME_FILE = "outcome.json"
EVENTS_FOLDER = "tensorboard"

UnitName = Literal["iteration", "optimiser step", "round"]


@record
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
    cost_limits: Mapping[str, float] = field(default_factory=dict)
    """The most that each of these held-out costs may be. Weights that break a limit are never kept, and a run that
    leaves the limits, once within them, stops."""
    unit: UnitName = "iteration"
    """What a unit is."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(*plan_problems(self))


def plan_of(settings: Planned, units: int, unit: UnitName = "iteration") -> RunPlan:
    """When a run of ``units`` rounds with these settings evaluates, saves and stops."""
    return RunPlan(
        units=units,
        evaluate_every=settings.evaluate_every,
        checkpoint_every=settings.checkpoint_every,
        keep=settings.keep,
        target_score=settings.target_score,
        patience=settings.patience,
        cost_limits=settings.cost_limits,
        unit=unit,
    )


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a run keeps its files, and what it is."""

    folder: Path
    identity: Mapping[str, str]
    """By name, everything that decides the result; a checkpoint of another identity is refused."""


@record
class RunDescription:
    """What stands in ``run.json``."""

    identity: Mapping[str, str]
    plan: RunPlan
    measure: str = ""
    """What the evaluations measure, in words; empty = never evaluated, or not said."""


def write_description(folder: Path, description: RunDescription) -> None:
    """Writes ``run.json``, all of it or nothing."""
    _write(folder / DESCRIPTION_FILE, to_json(description))


def write_outcome(folder: Path, outcome: TrainingOutcome) -> None:
    """Writes ``outcome.json``, all of it or nothing."""
    _write(folder / OUTCOME_FILE, to_json(outcome))


def read_description(folder: Path) -> RunDescription:
    """What a run's folder says it is; raises TrainingError when nothing readable does."""
    path = folder / DESCRIPTION_FILE
    try:
        return from_json(RunDescription, path.read_text())
    except (OSError, UnicodeDecodeError, RecordError) as exc:
        raise TrainingError(
            f"{str(folder)!r} is no folder of a training run: cannot read {path.name}: {exc}; name a folder that a "
            "training run wrote, such as runs/<id>/training/<name>"
        ) from exc


def read_outcome(folder: Path) -> TrainingOutcome | None:
    """How the run ended; None = it is under way, or was interrupted. Raises TrainingError when it is damaged."""
    path = folder / OUTCOME_FILE
    if not path.exists():
        return None
    try:
        return from_json(TrainingOutcome, path.read_text())
    except (OSError, UnicodeDecodeError, RecordError) as exc:
        raise TrainingError(f"cannot read {str(path)!r}: {exc}; delete it and resume the run") from exc


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text + "\n")
    partial.replace(path)
