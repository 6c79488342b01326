"""The decision at the core of a context budget, in numbers: which turns stay whole, short, or not at all."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Form = Literal["whole", "summary", "dropped"]
"""How a step of the history is shown."""


class StepTokens(NamedTuple):
    """What an action with its result takes."""

    whole: int
    summary: int

    def of(self, form: Form) -> int:
        """Tokens in this form."""
        return {"whole": self.whole, "summary": self.summary, "dropped": 0}[form]


def arranged(
    steps: Sequence[StepTokens], relevance: Sequence[float], *, room: int, window: int
) -> tuple[Form, ...]:
    """The form of each step, oldest first, so that all but the newest fit into ``room`` tokens beside it.

    In this order, as long as there is room: the newest step, whole in any case; those before it in the window of
    the latest ``window`` steps, newest first, whole, else as summaries; the older ones as summaries, by falling
    relevance, among equals the newer first. A step whose summary is no shorter is shown whole instead.
    """
    forms: list[Form] = ["dropped"] * len(steps)
    newest = len(steps) - 1
    forms[newest] = "whole"
    left = room - steps[newest].whole
    oldest_in_window = max(0, len(steps) - window)
    in_window = list(range(newest - 1, oldest_in_window - 1, -1))
    older = sorted(range(min(oldest_in_window, newest)), key=lambda place: (-relevance[place], -place))
    for place in (*in_window, *older):
        step = steps[place]
        wanted: tuple[Form, ...] = ("whole", "summary") if place >= oldest_in_window else ("summary",)
        if step.whole <= step.summary:
            wanted = ("whole",)
        form = next((each for each in wanted if step.of(each) <= left), None)
        if form is not None:
            forms[place] = form
            left -= step.of(form)
    return tuple(forms)
