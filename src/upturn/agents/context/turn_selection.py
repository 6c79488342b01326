"""Selects which turns of a long history stay in full, as summaries, or not at all, from token counts alone."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

TurnForm = Literal["full", "summary", "dropped"]
"""How a turn of the history is rendered."""


class StepTokens(NamedTuple):
    """Tokens of an action with its result."""

    full: int
    summary: int

    def of(self, form: TurnForm) -> int:
        """Tokens in this form."""
        return {"full": self.full, "summary": self.summary, "dropped": 0}[form]


def select_forms(
    steps: Sequence[StepTokens], relevance: Sequence[float], *, room: int, window: int
) -> tuple[TurnForm, ...]:
    """The form of each step, oldest first, so that all other steps fit with the newest into ``room`` tokens.

    In this order, while there is room: the newest step, always in full; the others of the latest ``window`` steps,
    newest first, in full or else as summaries; older ones as summaries, by falling relevance, newer first among
    equals. A step whose summary is no shorter is rendered in full instead.
    """
    forms: list[TurnForm] = ["dropped"] * len(steps)
    newest = len(steps) - 1
    forms[newest] = "full"
    left = room - steps[newest].full
    oldest_in_window = max(0, len(steps) - window)
    in_window = list(range(newest - 1, oldest_in_window - 1, -1))
    older = sorted(range(min(oldest_in_window, newest)), key=lambda index: (-relevance[index], -index))
    for index in (*in_window, *older):
        step = steps[index]
        candidates: tuple[TurnForm, ...] = ("full", "summary") if index >= oldest_in_window else ("summary",)
        if step.full <= step.summary:
            candidates = ("full",)
        form = next((candidate for candidate in candidates if step.of(candidate) <= left), None)
        if form is not None:
            forms[index] = form
            left -= step.of(form)
    return tuple(forms)
