"""Style and output of figures, without global state and with the same bytes every time.

Colours are Okabe and Ito's, which are distinguishable with common kinds of colour blindness; a marker, a line style
or a label repeats the meaning of every colour.
"""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from upturn.errors import UpturnError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2933"
MUTED = "#5f6b7a"
GRID = "#e3e8ee"
BEFORE = "#7b8794"
MIDDLE = "#56b4e9"
AFTER = "#0072b2"
GOOD = "#007a5a"
BAD = "#c4500a"
LINE, STRONG_LINE, PAPER = "#c5ced8", "#aab6c2", "#ffffff"
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6d1f", "#7b8794")
"""For series without a fixed meaning, such as agents."""
_VARIABLES = {
    **{INK: "ink", MUTED: "muted", GRID: "grid", LINE: "line", STRONG_LINE: "strong-line", PAPER: "paper"},
    **{BEFORE: "before", MIDDLE: "middle", AFTER: "after", GOOD: "good", BAD: "bad"},
    **{"#e69f00": "orange", "#009e73": "green", "#cc79a7": "pink", "#d55e00": "red", "#8c6d1f": "brown"},
}
"""Names of the colours in a page, whose style sheet has other values for dark pages."""
MARKERS = ("o", "D", "s", "^", "v", "P", "X", "*")

WIDE, NARROW = 9.6, 4.9
"""Widths of figures in inches, for pages on a screen and on a phone; the page scales them to its column."""

_STYLE: dict[str, object] = {
    "font.family": "DejaVu Sans",
    "font.size": 11.0,
    "text.color": INK,
    "text.parse_math": False,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": LINE,
    "axes.titlesize": 12.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "upturn",
}

_TAG = re.compile(r"<[^>]+>")
_COLOUR = re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})")
_REFERENCES = re.compile(r'(\bid="|xlink:href="#|url\(#)')


@contextmanager
def style() -> Iterator[None]:
    """The report's style while a picture is drawn and written; matplotlib's settings are restored afterwards."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        # Names may be in any script: the browser's fonts draw them, only their width is estimated.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        mpl.rcdefaults()
        cast(Any, mpl.rcParams).update(_STYLE)  # typed by its 300 names
        yield


def label(text: str, max_characters: int = 36) -> str:
    """The name shortened to one line, without unprintable characters."""
    line = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return line if len(line) <= max_characters else f"{line[: max_characters - 1]}…"


def new_figure(width: float, height: float, *, gap: float = 0.02) -> "Figure":
    """An empty figure of this size in inches that draws without a screen; ``gap``: space between panels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(hspace=gap, wspace=gap))
    FigureCanvasAgg(figure)
    return figure


def svg(figure: "Figure", name: str) -> str:
    """The figure as an ``<svg>`` element whose ids begin with ``name``, so that several fit on one page.

    Colours are variables, such as ``var(--plot-ink, #1f2933)``, so that they follow the page's colour scheme.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true" focusable="false">', text, count=1
    )
    text = text.replace(
        "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ', 1
    )
    return _TAG.sub(lambda tag: _COLOUR.sub(_variable, _REFERENCES.sub(rf"\g<1>{name}-", tag[0])), text).strip()


def _variable(colour: re.Match[str]) -> str:
    return f"{colour[1]}: var(--plot-{_VARIABLES[colour[2]]}, {colour[2]})"


def png(figure: "Figure", path: Path, *, dots_per_inch: int = 160) -> None:
    """Writes the figure as a PNG file; the folder must exist."""
    if path.suffix != ".png":
        raise UpturnError(f"pictures are saved as .png, got {str(path)!r}; change the file's suffix")
    figure.savefig(path, format="png", dpi=dots_per_inch, metadata={"Software": None})


def percent_axis(axes: "Axes", which: str = "x", *, ticks: int = 5) -> None:
    """An axis of shares, from 0 to 100 %, with this number of ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator([tick / (ticks - 1) for tick in range(ticks)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 100:.0f} %"))
    limits = (-0.02, 1.02)
    if which == "x":
        axes.set_xlim(*limits)
    else:
        axes.set_ylim(*limits)


def count_axis(axes: "Axes", *, max_steps: int = 8) -> None:
    """A horizontal axis of counts, such as tasks or iterations, without fractional ticks."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(max_steps, integer=True, steps=(1, 2, 5, 10)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def end_label(axes: "Axes", x: float, y: float, text: str, *, colour: str = INK, size: float = 11.0) -> None:
    """A bold label to the right of a curve's last point."""
    axes.annotate(
        text,
        (x, y),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color=colour,
        fontsize=size,
        fontweight="bold",
        annotation_clip=False,
    )


def power_of_ten(power: int) -> str:
    """``3`` → ``1,000``; far from 0 as a power: ``10⁻⁴``."""
    names = {0: "1", 1: "10", 2: "100", 3: "1,000", -1: "0.1", -2: "0.01"}
    superscript = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return names.get(power, f"10{str(power).translate(superscript)}")
