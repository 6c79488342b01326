"""The pictures of a report: each a pure function of the content, with a caption and a label of its own.

A picture whose figures were not measured does not exist; nothing is drawn from missing values.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from upturn.errors import UnknownNameError
from upturn.report import canvas, drawing, sentence
from upturn.report.content import Canary, Change, ReportContent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Picture(NamedTuple):
    """One picture, ready for the page."""

    name: str
    """Unique on the page, and its anchor."""
    title: str
    caption: str
    """One or two sentences: what to see."""
    svg: str


class Plan(NamedTuple):
    """A picture that can be drawn."""

    name: str
    title: str
    caption: str
    draw: Callable[[], "Figure"]


def plans(content: ReportContent) -> tuple[Plan, ...]:
    """Every picture this content has the figures for, in the page's order."""
    return (
        *_success(content),
        *_learning(content),
        *_change(content),
        *(_canary(index, canary) for index, canary in enumerate(content.canaries) if canary.release.evidence),
        *_routing(content),
    )


def draw(content: ReportContent) -> tuple[Picture, ...]:
    """All pictures of the report; the same content gives the same bytes."""
    pictures = []
    for plan in plans(content):
        with canvas.style():
            pictures.append(Picture(plan.name, plan.title, plan.caption, canvas.svg(plan.draw(), plan.name)))
    return tuple(pictures)


def save_png(content: ReportContent, name: str, path: Path) -> None:
    """Writes one picture as a PNG file; raises UnknownNameError when the content has no picture of that name."""
    known = {plan.name: plan for plan in plans(content)}
    if name not in known:
        raise UnknownNameError(f"no picture {name!r} in this report; it has: {', '.join(known) or 'none'}")
    with canvas.style():
        canvas.png(known[name].draw(), path)


def _success(content: ReportContent) -> list[Plan]:
    stages = sentence.sampled(content.measurements)
    found = []
    if stages:
        caption = sentence.level_caption(stages)
        found.append(Plan("levels", "Success by level", caption, partial(drawing.levels, stages)))
    if any(stage.families for stage in stages):
        caption = sentence.family_caption(stages)
        found.append(Plan("families", "Success by task family", caption, partial(drawing.families, stages)))
    return found


def _learning(content: ReportContent) -> list[Plan]:
    return [
        Plan(
            f"learning-{index}",
            f"Learning curve: {curve.algorithm}",
            sentence.curve_caption(curve),
            partial(drawing.curve, curve),
        )
        for index, curve in enumerate(content.curves)
        if curve.points
    ]


def _change(content: ReportContent) -> list[Plan]:
    kinds: Sequence[tuple[str, str, tuple[str, ...]]] = (
        ("components", "Rewards and costs, kept apart", ("reward", "cost")),
        ("effort", "What a success takes", ("effort",)),
    )
    found = []
    for name, title, wanted in kinds:
        changes = [item for item in content.changes if item.kind in wanted and (item.before or item.after)]
        if changes:
            found.append(_change_plan(name, title, changes))
    return found


def _change_plan(name: str, title: str, changes: Sequence[Change]) -> Plan:
    return Plan(name, title, sentence.change_caption(changes), partial(drawing.changes, changes))


def _canary(index: int, canary: Canary) -> Plan:
    return Plan(
        f"canary-{index}",
        f"{canary.title}: {sentence.verdict(canary.release)}",
        sentence.canary_caption(canary),
        partial(drawing.canary, canary),
    )


def _routing(content: ReportContent) -> list[Plan]:
    routing = content.routing
    if routing is None or not routing.points:
        return []
    return [
        Plan("routing", "Who gets the work", sentence.routing_caption(routing), partial(drawing.routing, routing))
    ]
