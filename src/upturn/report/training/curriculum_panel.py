"""What a run with a curriculum shows of it: success by level, what is practised, and what was forgotten."""

from collections.abc import Sequence
from itertools import pairwise

from upturn.report.training.content import TrainingReport
from upturn.report.training.panel_kind import Line, Panel

SUCCESS, MIX, FORGOTTEN = "levels", "mix", "forgotten"
"""Names of the panels."""
NOT_DRAWN = ("curriculum_level", "curriculum_final", "best_level_")
"""Beginnings of what is marked in the pictures, or follows from them."""


def curriculum_panels(metrics: Sequence[str]) -> list[Panel]:
    """One curve or band for each level; empty for a run without a curriculum."""
    if not _levels(metrics, "practice_level_"):
        return []
    return [
        Panel(
            SUCCESS,
            "Success by level",
            "recent successes",
            "Each level should rise in its turn and stay up. A dashed mark: from there on that level was practised "
            "most; “all”: the last one was learned, and all were mixed.",
            _levels(metrics, "success_level_"),
            is_wide=True,
        ),
        Panel(
            MIX,
            "What was practised",
            "share of the tasks",
            "By level. The bulk should move upwards while a part of the easier levels stays.",
            _levels(metrics, "practice_level_"),
            "stack",
        ),
        Panel(
            FORGOTTEN,
            "Forgotten",
            "best minus now",
            "Near 0. A level that falls below its best was learned and is being lost.",
            _levels(metrics, "drop_level_"),
            ideal=0.0,
        ),
        Panel(
            "resting",
            "Families at rest",
            "families",
            "Those that nearly always or never succeed teach little and are only probed now and then. All of them "
            "at rest: the tasks are too easy or too hard.",
            (Line("curriculum_closed", "at rest"),),
            ideal=0.0,
        ),
    ]


def promotions(report: TrainingReport) -> list[tuple[int, str]]:
    """(units, text) wherever another level became the current one, and where the final mix began."""
    found = []
    for (_, before), (units, now) in pairwise(report.values("curriculum_level")):
        if now != before:
            found.append((units, f"level {now:g}"))
    for (_, before), (units, now) in pairwise(report.values("curriculum_final")):
        if now > before:
            found.append((units, "all"))
    return sorted(found)


def _levels(metrics: Sequence[str], beginning: str) -> tuple[Line, ...]:
    """By level, easiest first. Names that only begin alike are somebody's own."""
    endings = (name.removeprefix(beginning) for name in metrics if name.startswith(beginning))
    return tuple(
        Line(f"{beginning}{level}", f"level {level}") for level in sorted(int(e) for e in endings if e.isdecimal())
    )
