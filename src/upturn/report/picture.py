"""The pictures of a report: pure functions of the content, with a title and a caption.

A picture without data is omitted; missing values are not drawn.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from upturn.errors import UnknownNameError
from upturn.report import canvas, drawing, sentence
from upturn.report.content import ChangeKind, ReportContent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Picture(NamedTuple):
    """One drawn picture."""

    name: str
    """Unique on the page; also its anchor."""
    title: str
    caption: str
    """One or two sentences on what it shows."""
    svg: str
    narrow_svg: str
    """The same for a screen of a phone; its ids differ. Empty = ``svg`` is narrow."""


class Plan(NamedTuple):
    """A picture that can be drawn."""

    name: str
    title: str
    caption: str
    draw: Callable[[float], "Figure"]
    """The figure for a width in inches."""


_CHANGES: Sequence[tuple[str, str, tuple[ChangeKind, ...]]] = (
    ("components", "Rewards and costs", ("reward", "cost")),
    ("effort", "Effort per success", ("effort",)),
)


def plans(content: ReportContent) -> Iterator[Plan]:
    """All pictures that the content has data for, in the page's order."""
    stages = sentence.sampled(content.measurements)
    if stages:
        yield Plan("levels", "Success by level", sentence.level_caption(stages), partial(drawing.levels, stages))
    if any(stage.families for stage in stages):
        caption = sentence.family_caption(stages)
        yield Plan("families", "Success by task family", caption, partial(drawing.families, stages))
    for index, curve in enumerate(content.curves):
        if curve.points:
            title, caption = f"Learning curve: {curve.algorithm}", sentence.curve_caption(curve)
            yield Plan(f"learning-{index}", title, caption, partial(drawing.curve, curve))
    for name, title, kinds in _CHANGES:
        changes = [item for item in content.changes if item.kind in kinds and (item.before or item.after)]
        if changes:
            yield Plan(name, title, sentence.change_caption(changes), partial(drawing.changes, changes))
    for index, canary in enumerate(content.canaries):
        if canary.release.evidence:
            title, caption = f"{canary.title}: {sentence.verdict(canary.release)}", sentence.canary_caption(canary)
            yield Plan(f"canary-{index}", title, caption, partial(drawing.canary, canary))
    routing = content.routing
    if routing is not None and routing.points:
        yield Plan(
            "routing", "Routing shares", sentence.routing_caption(routing), partial(drawing.routing, routing)
        )


def draw(content: ReportContent) -> tuple[Picture, ...]:
    """All pictures of the report; the same content gives the same bytes."""
    pictures = []
    for plan in plans(content):
        with canvas.style():
            wide = canvas.svg(plan.draw(canvas.WIDE), plan.name)
            narrow = canvas.svg(plan.draw(canvas.NARROW), f"{plan.name}-narrow")
        pictures.append(Picture(plan.name, plan.title, plan.caption, wide, narrow))
    return tuple(pictures)


def save_png(content: ReportContent, name: str, path: Path) -> None:
    """Writes one picture as a PNG file; raises UnknownNameError if the content has no picture with this name."""
    known = {plan.name: plan for plan in plans(content)}
    if name not in known:
        raise UnknownNameError(f"no picture {name!r} in this report; it has: {', '.join(known) or 'none'}")
    with canvas.style():
        canvas.png(known[name].draw(canvas.WIDE), path)
