"""What a picture on a page about a training run is, before anything is drawn."""

from typing import Literal, NamedTuple

Kind = Literal["score", "noisy", "line", "stack"]
"""``score``: dots with intervals. ``noisy``: a bold mean of the latest points over the points themselves.
``line``: as measured. ``stack``: parts of a whole, one upon another."""
Scale = Literal["free", "from zero", "log"]
"""``free``: as far as the figures reach."""


class Line(NamedTuple):
    """One curve within a panel."""

    metric: str
    label: str


class Panel(NamedTuple):
    """A picture of one or a few curves on the same axis."""

    name: str
    title: str
    axis: str
    """What the vertical axis shows, with its unit."""
    good: str
    """One or two sentences: what it is and what good looks like."""
    lines: tuple[Line, ...]
    kind: Kind = "line"
    scale: Scale = "from zero"
    is_wide: bool = False
    ideal: float | None = None
    """No picture where all its curves are this throughout: all is well. None = no value is; always a picture."""
