"""What commands print: one JSON object for machines, or a table for people; progress goes to standard error.

With ``--json`` a command prints exactly one object and nothing else on standard output. Its shape is the same for
every demo, benchmark and validation, and ``summary.json`` is the same object in a file.
"""

import json
import math
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from upturn import __version__
from upturn.errors import ConfigError, UpturnError
from upturn.records import JsonValue, Result, fields_json
from upturn.threads import usable_cores

ENVELOPE_KEYS = ("command", "version", "machine", "config_hash", "results")
"""The keys every object has; details may not use them."""

_PLAIN_WIDTH = 160
"""Columns of a table that is not shown on a terminal: wide enough that no figure wraps in a log."""


def machine() -> dict[str, JsonValue]:
    """Where the command ran: processor, cores usable by this process, memory in GB, and versions."""
    return {
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "memory_gb": round(memory_bytes() / 2**30, 1),
        "python": platform.python_version(),
        "torch": package_version("torch"),
        "system": f"{platform.system()} {platform.release()}",
    }


def memory_bytes() -> int:
    """Physical memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def package_version(name: str) -> str:
    """The installed version of a package without importing it; empty when it is not installed."""
    try:
        return installed_version(name)
    except PackageNotFoundError:
        return ""


def _cpu_model() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def build_result_object(
    command: str,
    results: Sequence[Result],
    details: Mapping[str, object],
    *,
    machine: Mapping[str, JsonValue],
    config_hash: str = "",
) -> dict[str, JsonValue]:
    """The object that ``--json`` prints and ``summary.json`` holds.

    ``details`` are JSON values, mappings and sequences of them; tuples become lists. Raises ValueError when they
    use one of ENVELOPE_KEYS, hold a NaN, or two results have one name, and TypeError for what JSON cannot say.
    """
    taken = sorted(set(details) & set(ENVELOPE_KEYS))
    if taken:
        raise ValueError(f"details may not use the keys {taken!r}; they belong to the object itself")
    names = [result.name for result in results]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"results have one name each, got several of {repeated!r}")
    listed: list[JsonValue] = [cast(JsonValue, json.loads(fields_json(result))) for result in results]
    return {
        "command": command,
        "version": __version__,
        "machine": dict(machine),
        "config_hash": config_hash,
        "results": listed,
        **{name: _json_value(name, value) for name, value in details.items()},
    }


def _json_value(where: str, value: object) -> JsonValue:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # names of files may be any bytes
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value!r}, which JSON cannot say; use None for a missing figure")
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _json_value(f"{where}.{name}", inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_json_value(f"{where}[{index}]", inner) for index, inner in enumerate(value)]
    raise TypeError(f"{where} is a {type(value).__name__}, which is no JSON value: {value!r}")


def emit(
    command: str,
    results: Sequence[Result],
    details: Mapping[str, object],
    *,
    as_json: bool,
    config_hash: str = "",
) -> None:
    """Prints a command's results to standard output: one JSON object, or a table and the details for people."""
    described = build_result_object(command, results, details, machine=machine(), config_hash=config_hash)
    if as_json:
        _write(described)
        return
    console = _console(stderr=False)
    if results:
        console.print(_result_table(command, results))
    _print_details(console, {name: described[name] for name in details})


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table for people to standard output; all columns but the first hold figures."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    _console(stderr=False).print(table)


def emit_error(command: str, error: UpturnError, *, kind: str) -> None:
    """Prints what ``--json`` prints where a command failed: an object without results and with ``error``."""
    found = {"kind": kind, "message": str(error), "exit_code": error.exit_code}
    problems = {"problems": error.problems} if isinstance(error, ConfigError) else {}
    _write(build_result_object(command, [], {"error": found | problems}, machine=machine()))


def _write(described: Mapping[str, JsonValue]) -> None:
    """The object on one line of standard output, in signs that its encoding has."""
    out = _kept_output.get() or sys.stdout
    is_unicode = (out.encoding or "").lower().startswith("utf")
    out.write(json.dumps(described, ensure_ascii=not is_unicode, allow_nan=False) + "\n")
    out.flush()


_kept_output: ContextVar[TextIO | None] = ContextVar("kept_output", default=None)
"""Where the one object goes; None = standard output."""


@contextmanager
def kept_for_json() -> Iterator[None]:
    """Keeps standard output for the one object: what agents and libraries print meanwhile goes to standard error.

    Not covered: what is written to the file descriptor past Python.
    """
    token = _kept_output.set(_kept_output.get() or sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _kept_output.reset(token)


def printable(text: str) -> str:
    """The text without control characters but line breaks: what others wrote must not steer a terminal."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "�" for sign in text)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _PLAIN_WIDTH, highlight=False, soft_wrap=False)


def _result_table(command: str, results: Sequence[Result]) -> Table:
    table = Table(title=f"upturn {command}", title_justify="left", box=None, pad_edge=False)
    rows = [_cells(result) for result in results]
    # On a narrow terminal every column counts, and a name cut short could be any.
    used = [place for place in range(len(_COLUMNS)) if any(row[place] for row in rows)]
    for place in used:
        table.add_column(_COLUMNS[place], justify="right" if place in _RIGHT else "left", overflow="fold")
    for row in rows:
        table.add_row(*(row[place] for place in used))
    return table


_COLUMNS = ("what", "value", "interval", "n", "bar")
_RIGHT = range(1, 4)


def _cells(result: Result) -> tuple[Text, ...]:
    """One text for each of _COLUMNS; empty = nothing to say."""
    interval = (
        "" if result.low is None or result.high is None else f"{_figure(result.low)} … {_figure(result.high)}"
    )
    verdict = "" if result.holds is None else (" holds" if result.holds else " MISSED")
    return (
        Text(printable(result.name)),
        Text(printable(f"{_figure(result.value)} {result.unit}".rstrip())),
        Text(interval),
        Text("" if result.n is None else str(result.n)),
        Text(f"{result.bar or ''}{verdict}".strip(), style="red" if result.holds is False else ""),
    )


def _figure(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def _print_details(console: Console, details: Mapping[str, JsonValue], indent: str = "") -> None:
    for name, value in details.items():
        if isinstance(value, dict):
            console.print(Text(printable(f"{indent}{name}:")), soft_wrap=True)
            _print_details(console, value, indent + "  ")
        elif isinstance(value, list) and any(_needs_a_line(item) for item in value):
            console.print(Text(f"{indent}{name}:"), soft_wrap=True)
            for item in value:
                console.print(Text(printable(f"{indent}  {_inline(item)}")), soft_wrap=True)
        else:
            console.print(Text(printable(f"{indent}{name}: {_inline(value)}")), soft_wrap=True)


def _needs_a_line(item: JsonValue) -> bool:
    """Whether an item of a list could not be told from its neighbours between commas."""
    return isinstance(item, dict | list) or (isinstance(item, str) and ", " in item)


def _inline(value: JsonValue) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_inline(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_inline(inner) for inner in value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _figure(value)


def say(message: str) -> None:
    """One line for people on standard error: what is happening now. It is never broken: commands stay whole."""
    _console(stderr=True).print(Text(printable(message)), soft_wrap=True)


@dataclass(slots=True)
class Ticker:
    """Counts finished pieces of a stated total; made by ``progress``."""

    total: int
    description: str
    done: int = 0
    _bar: Progress | None = None
    """None = no terminal: a plain line is printed at every tenth of the way."""

    def advance(self, steps: int = 1) -> None:
        """Marks ``steps`` more pieces as finished."""
        before, self.done = self.done, self.done + steps
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], steps)
        elif self.total > 0 and before * 10 // self.total < self.done * 10 // self.total:
            say(f"{self.description}: {self.done}/{self.total}")


@contextmanager
def progress(description: str, total: int) -> Iterator[Ticker]:
    """A progress bar on standard error; plain lines where that is not a terminal."""
    if not sys.stderr.isatty():
        yield Ticker(total, description)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_console(stderr=True), transient=True) as bar:
        bar.add_task(description, total=total)
        yield Ticker(total, description, _bar=bar)


class StoppedError(UpturnError):
    """Ctrl-C reached work that can be resumed; the message says how."""

    exit_code = 130  # 128 + SIGINT, as shells have it


@contextmanager
def resumable(resume_command: str) -> Iterator[None]:
    """Turns Ctrl-C inside the block into one line that says how to go on: ``resume_command``."""
    try:
        yield
    except KeyboardInterrupt as exc:
        raise StoppedError(f"stopped; resume with: {resume_command}") from exc
