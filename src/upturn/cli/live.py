"""The display of progress: a live view on a terminal, plain lines elsewhere, nothing if quiet.

It writes to standard error, since standard output is for results, and never changes the work. Names and notes are
plain text, not markup.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from upturn.cli.output import StoppedError

_BARS = "▁▂▃▄▅▆▇█"
_HISTORY = 40
"""Length of a sparkline, which fits next to a name on 80 columns."""
_NOTES = 6
"""Number of latest notes in the live view; the plain view prints all."""
_LINE_SECONDS = 10.0
"""Minimum interval between plain progress lines."""


@dataclass(slots=True)
class _Stage:
    name: str
    total: int | None
    started: float
    done: int = 0
    seconds: float | None = None
    """None = running."""
    mark: str = "…"
    figures: set[str] = field(default_factory=set)
    """Names of the stage's figures; its lines omit those of earlier stages."""


@dataclass(slots=True)
class _Figure:
    latest: float | str
    history: list[float] = field(default_factory=list)


class LiveView:
    """A progress view for ``with``; single use.

    A terminal shows a checklist with times, a bar and the latest figures; a file or pipe gets lines with times.
    Ctrl-C or an error in the block marks the current stage, and the exception propagates.
    """

    def __init__(
        self,
        title: str,
        *,
        stages: Sequence[str] = (),
        is_quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``stages``: names of planned stages; ``stream``: None = standard error."""
        self._title = title
        self._planned = tuple(stages)
        self._is_quiet = is_quiet
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._started = clock()
        self._last_line = self._started
        self._stages: list[_Stage] = []
        self._figures: dict[str, _Figure] = {}
        self._notes: list[str] = []
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._started = self._last_line = self._clock()
        if self._is_quiet:
            return self
        self._live = self._open_live() if self._stream.isatty() else None
        if self._live is None:
            self._line(self._title)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._close("✓")
        elif issubclass(kind, KeyboardInterrupt | StoppedError):
            self._close("■")
        else:
            self._close("✗")
        if self._live is not None:
            self._live.stop()
            self._live = None

    def stage(self, name: str, total: int | None = None) -> None:
        """Starts the next stage and ends the previous one; ``total`` units of work, None = unknown."""
        self._close("✓")
        self._stages.append(_Stage(name, total, self._clock()))
        self._last_line = self._clock()
        self._print(f"{self._position()}{name}" + (f" ({total:,})" if total is not None else ""))

    def advance(self, count: int = 1, **figures: float) -> None:
        """Adds ``count`` finished units to the current stage; ``figures`` are latest values by name."""
        if self._stages:
            self._stages[-1].done += count
        for name, value in figures.items():
            self._store(name, value)
        self._print_progress()

    def note(self, text: str) -> None:
        """Shows a sentence, such as a verdict."""
        self._notes = [*self._notes, text][-_NOTES:]
        self._print(text)

    def figure(self, name: str, value: float | str) -> None:
        """Sets the latest value of a figure; numbers are drawn as a sparkline."""
        self._store(name, value)
        self._print_progress()

    def _store(self, name: str, value: float | str) -> None:
        figure = self._figures.setdefault(name, _Figure(value))
        figure.latest = value
        if self._stages:
            self._stages[-1].figures.add(name)
        if not isinstance(value, str):
            figure.history = [*figure.history, float(value)][-_HISTORY:]

    def _close(self, mark: str) -> None:
        """Ends the current stage, if one is running."""
        if not self._stages or self._stages[-1].seconds is not None:
            return
        stage = self._stages[-1]
        stage.seconds = self._clock() - stage.started
        stage.mark = mark
        state = {"✓": "done", "■": "stopped", "✗": "failed"}[mark]
        self._print(f"{self._position()}{stage.name}: {state} after {_duration(stage.seconds)}{self._latest()}")

    def _position(self) -> str:
        return f"[{len(self._stages)}/{max(len(self._planned), len(self._stages))}] " if self._planned else ""

    def _latest(self) -> str:
        names = self._stages[-1].figures
        figures = ((name, figure) for name, figure in self._figures.items() if name in names)
        return "".join(f"; {name} {_format(figure.latest)}" for name, figure in figures)

    def _print_progress(self) -> None:
        now = self._clock()
        if not self._stages or now - self._last_line < _LINE_SECONDS:
            return
        self._last_line = now
        stage = self._stages[-1]
        of = f"/{stage.total:,}" if stage.total is not None else ""
        self._print(f"{self._position()}{stage.name}: {stage.done:,}{of}{self._latest()}")

    def _print(self, text: str) -> None:
        """Prints a line unless there is a live view."""
        if self._live is None and not self._is_quiet:
            self._line(text)

    def _line(self, text: str) -> None:
        minutes, seconds = divmod(int(self._clock() - self._started), 60)
        self._stream.write(f"{minutes:02d}:{seconds:02d} {_printable(text)}\n")
        self._stream.flush()

    def _open_live(self) -> Live | None:
        """The live view; None on a terminal that cannot move its cursor."""
        console = Console(file=self._stream)
        if console.is_dumb_terminal:
            return None
        # Standard output is for results.
        live = Live(get_renderable=self._render, console=console, refresh_per_second=4, redirect_stdout=False)
        live.start()
        return live

    def _render(self) -> RenderableType:
        seconds = self._clock() - self._started
        head = Text.assemble((_printable(self._title), "bold"), (f"  {_duration(seconds)}", "dim"))
        parts: list[RenderableType] = [head, self._stage_table()]
        if self._figures:
            parts += [Text(""), self._figure_table()]
        if self._notes:
            parts += [Text(""), *(Text(f"  {_printable(note)}") for note in self._notes)]
        return Group(*parts)

    def _stage_table(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for stage in self._stages:
            colour = {"✓": "green", "✗": "red", "■": "yellow"}.get(stage.mark, "cyan")
            name = Text.assemble((f"  {stage.mark} ", colour), _printable(stage.name))
            seconds = stage.seconds if stage.seconds is not None else self._clock() - stage.started
            table.add_row(name, Text(_duration(seconds), style="dim", justify="right"), self._bar(stage))
        started = {stage.name for stage in self._stages}
        for planned in self._planned:
            if planned not in started:
                table.add_row(Text(f"  · {_printable(planned)}", style="dim"))
        return table

    def _bar(self, stage: _Stage) -> RenderableType:
        """The progress of a running stage: a bar if its total is known, else a count."""
        if stage.seconds is not None or not stage.total:
            return Text(f"{stage.done:,}" if stage.done and stage.seconds is None else "", style="dim")
        bar = ProgressBar(total=stage.total, completed=min(stage.done, stage.total), width=30)
        row = Table.grid(padding=(0, 1))
        row.add_row(bar, Text(f"{stage.done:,}/{stage.total:,}", style="dim"))
        return row

    def _figure_table(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for name, figure in list(self._figures.items()):  # a copy, since rich draws in another thread
            line = sparkline(figure.history) if len(figure.history) > 1 else ""
            table.add_row(
                Text(f"  {_printable(name)}", style="dim"),
                Text(_printable(_format(figure.latest)), style="bold"),
                Text(line, style="cyan"),
            )
        return table


def sparkline(values: Sequence[float]) -> str:
    """One block per value, scaled from lowest to highest; equal values give a flat line in the middle."""
    low, high = min(values), max(values)
    if high == low:
        return _BARS[3] * len(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)


def _format(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"


def _printable(text: str) -> str:
    """The text without control characters: foreign text must not control the terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)
