"""Components that are computed from any trajectory and its evaluation: ``[[rewards.measures]]``. Pure functions.

Each kind is one function in ``MEASURES``. A length is in tokens that the agent wrote; of endpoints as reported.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from math import isfinite

from upturn.config import MeasureKind, MeasureSettings
from upturn.records import Evaluation, Trajectory
from upturn.rewards.acceptance import format_reward
from upturn.rewards.budget import LCPO_ALPHA, LCPO_DELTA, cosine_length, lcpo_exact, lcpo_max, repetition, within
from upturn.rewards.calls import repeated_calls, use_bonus
from upturn.rewards.similarity import words

Measure = Callable[[MeasureSettings, Trajectory, Evaluation], float | None]


def written_length(trajectory: Trajectory) -> int:
    """Tokens that the agent wrote: those recorded, without any the ones that its usage reports."""
    recorded = sum(span.stop - span.start for row in trajectory.rows for span in row.spans)
    return recorded or trajectory.usage.written_tokens


def written_words(trajectory: Trajectory) -> tuple[str, ...]:
    """The words that the agent wrote in all turns."""
    return tuple(word for turn in trajectory.turns for word in words(turn.text))


def _tokens(settings: MeasureSettings) -> int:
    assert settings.tokens is not None  # the settings require it
    return settings.tokens


def _cosine(settings: MeasureSettings, trajectory: Trajectory, evaluation: Evaluation) -> float:
    length = written_length(trajectory)
    return cosine_length(length, limit=_tokens(settings), is_correct=evaluation.is_success)


def _lcpo_exact(settings: MeasureSettings, trajectory: Trajectory, evaluation: Evaluation) -> float:
    return lcpo_exact(
        written_length(trajectory),
        target=_tokens(settings),
        is_correct=evaluation.is_success,
        alpha=settings.alpha or LCPO_ALPHA,
    )


def _lcpo_max(settings: MeasureSettings, trajectory: Trajectory, evaluation: Evaluation) -> float:
    return lcpo_max(
        written_length(trajectory),
        target=_tokens(settings),
        is_correct=evaluation.is_success,
        alpha=settings.alpha or LCPO_ALPHA,
        delta=LCPO_DELTA if settings.delta is None else settings.delta,
    )


def _within(settings: MeasureSettings, trajectory: Trajectory, evaluation: Evaluation) -> float:
    return within(written_length(trajectory), limit=_tokens(settings), is_correct=evaluation.is_success)


def _repetition(settings: MeasureSettings, trajectory: Trajectory, _: Evaluation) -> float:
    assert settings.size is not None  # the settings require it
    return abs(repetition(written_words(trajectory), size=settings.size))


def _repeated_calls(_: MeasureSettings, trajectory: Trajectory, __: Evaluation) -> float:
    return len(repeated_calls(trajectory)) / max(1, len(trajectory.turns))


def _function(settings: MeasureSettings, trajectory: Trajectory, evaluation: Evaluation) -> float | None:
    module, _, name = settings.function.partition(":")
    function: Callable[[Trajectory, Evaluation], float | None] = getattr(import_module(module), name)
    return function(trajectory, evaluation)


MEASURES: Mapping[MeasureKind, Measure] = {
    "format": lambda _, trajectory, __: format_reward(trajectory),
    "cosine": _cosine,
    "lcpo_exact": _lcpo_exact,
    "lcpo_max": _lcpo_max,
    "within": _within,
    "repetition": _repetition,
    "repeated_calls": _repeated_calls,
    "tool_use": lambda _, trajectory, evaluation: use_bonus(trajectory, evaluation),
    "function": _function,
}


def measured(settings: MeasureSettings, trajectory: Trajectory, evaluation: Evaluation) -> float | None:
    """The component. None = the measure failed, or gave no finite number; a crash is missing, never 0."""
    try:
        value = MEASURES[settings.kind](settings, trajectory, evaluation)
    except (Exception, SystemExit):  # noqa: BLE001  a broken measure is missing; the others and the verdict stand
        return None
    return float(value) if isinstance(value, int | float) and isfinite(value) else None
