"""The output of commands: one JSON object or a table on standard output; progress on standard error.

With ``--json`` a command prints exactly one object on standard output. Its shape is the same for all commands, and
``summary.json`` is the same object in a file.
"""

import errno
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
"""Keys of every object; details may not use them."""

_PLAIN_WIDTH = 160
"""Width of a table outside a terminal: wide enough that no figure wraps in a log."""


def machine() -> dict[str, JsonValue]:
    """This machine: processor, cores usable by this process, memory in GB, and versions."""
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
    """The version of a package without importing it; empty if it is not installed."""
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
    """The object of ``--json`` and ``summary.json``.

    ``details``: JSON values, mappings and sequences of them; tuples become lists. Raises ValueError if they use
    one of ENVELOPE_KEYS or contain NaN, or if two results have the same name, and TypeError for other values.
    """
    reserved = sorted(set(details) & set(ENVELOPE_KEYS))
    if reserved:
        raise ValueError(f"details may not use the reserved keys {reserved!r}")
    names = [result.name for result in results]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"names of results must be unique, got several of {repeated!r}")
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
        return value.encode("utf-8", "replace").decode()  # file names may be any bytes
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value!r}, which JSON cannot represent; use None for a missing figure")
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _json_value(f"{where}.{name}", inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_json_value(f"{where}[{index}]", inner) for index, inner in enumerate(value)]
    raise TypeError(f"{where} is a {type(value).__name__}, not a JSON value: {value!r}")


def emit(
    command: str, results: Sequence[Result], details: Mapping[str, object], *, as_json: bool, config_hash: str = ""
) -> None:
    """Prints a command's results to standard output: as one JSON object, or as a table and the details."""
    content = build_result_object(command, results, details, machine=machine(), config_hash=config_hash)
    if as_json:
        _write(content)
        return
    console = _console(stderr=False)
    if results:
        console.print(_result_table(command, results))
    _print_details(console, {name: content[name] for name in details})


def write_summary(
    run_dir: Path, command: str, results: Sequence[Result], details: Mapping[str, object], *, config_hash: str
) -> None:
    """Writes ``summary.json``, the object of ``--json``, into the run's folder."""
    content = build_result_object(command, results, details, machine=machine(), config_hash=config_hash)
    (run_dir / "summary.json").write_text(json.dumps(content, indent=2) + "\n")


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table to standard output; all columns but the first contain figures."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    _console(stderr=False).print(table)


def emit_error(command: str, error: UpturnError, *, kind: str) -> None:
    """Prints the object of a failed command for ``--json``: without results, with ``error``."""
    described = {"kind": kind, "message": str(error), "exit_code": error.exit_code}
    problems = {"problems": error.problems} if isinstance(error, ConfigError) else {}
    _write(build_result_object(command, [], {"error": described | problems}, machine=machine()))


def _write(content: Mapping[str, JsonValue]) -> None:
    """Writes the object on one line, in characters that the encoding has."""
    out = _json_output.get() or sys.stdout
    is_unicode = (out.encoding or "").lower().startswith("utf")
    out.write(json.dumps(content, ensure_ascii=not is_unicode, allow_nan=False) + "\n")
    out.flush()


_json_output: ContextVar[TextIO | None] = ContextVar("json_output", default=None)
"""Destination of the object; None = standard output."""


@contextmanager
def reserve_stdout() -> Iterator[None]:
    """Reserves standard output for the object: output of agents and libraries goes to standard error.

    Not covered: writes to the file descriptor that bypass Python.
    """
    token = _json_output.set(_json_output.get() or sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _json_output.reset(token)


def printable(text: str) -> str:
    """The text without control characters other than line breaks: foreign text must not control a terminal."""
    return "".join(character if character.isprintable() or character == "\n" else "�" for character in text)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _PLAIN_WIDTH, highlight=False, soft_wrap=False)


def _result_table(command: str, results: Sequence[Result]) -> Table:
    table = Table(title=f"upturn {command}", title_justify="left", box=None, pad_edge=False)
    rows = [_cells(result) for result in results]
    # Empty columns are omitted, since names must not be truncated on a narrow terminal.
    used = [index for index in range(len(_COLUMNS)) if any(row[index] for row in rows)]
    for index in used:
        table.add_column(_COLUMNS[index], justify="right" if index in _RIGHT else "left", overflow="fold")
    for row in rows:
        table.add_row(*(row[index] for index in used))
    return table


_COLUMNS = ("what", "value", "interval", "n", "bar")
_RIGHT = range(1, 4)


def _cells(result: Result) -> tuple[Text, ...]:
    """One text for each of _COLUMNS, which may be empty."""
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
        if isinstance(value, dict) and value:
            console.print(Text(printable(f"{indent}{name}:")), soft_wrap=True)
            _print_details(console, value, indent + "  ")
        elif isinstance(value, list) and any(_needs_a_line(item) for item in value):
            console.print(Text(f"{indent}{name}:"), soft_wrap=True)
            for item in value:
                console.print(Text(printable(f"{indent}  {_inline(item)}")), soft_wrap=True)
        else:
            console.print(Text(printable(f"{indent}{name}: {_inline(value)}")), soft_wrap=True)


def _needs_a_line(item: JsonValue) -> bool:
    """Whether an item would be ambiguous in a comma-separated list."""
    return isinstance(item, dict | list) or (isinstance(item, str) and ", " in item)


def _inline(value: JsonValue) -> str:
    """A value on one line."""
    if isinstance(value, dict | list) and not value:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_inline(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_inline(inner) for inner in value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _figure(value)


def print_message(message: str) -> None:
    """Prints one line to standard error, unwrapped so that commands can be copied."""
    _console(stderr=True).print(Text(printable(message)), soft_wrap=True)


@dataclass(slots=True)
class Ticker:
    """A counter of finished steps; created by ``progress``."""

    total: int
    description: str
    done: int = 0
    _bar: Progress | None = None
    """None = no terminal: a plain line is printed at every tenth of the total."""

    def advance(self, steps: int = 1) -> None:
        """Adds ``steps`` finished steps."""
        before, self.done = self.done, self.done + steps
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], steps)
        elif self.total > 0 and before * 10 // self.total < self.done * 10 // self.total:
            print_message(f"{self.description}: {self.done}/{self.total}")


@contextmanager
def progress(description: str, total: int) -> Iterator[Ticker]:
    """A progress bar on standard error, or plain lines without a terminal."""
    if not sys.stderr.isatty():
        yield Ticker(total, description)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_console(stderr=True), transient=True) as bar:
        bar.add_task(description, total=total)
        yield Ticker(total, description, _bar=bar)


class StoppedError(UpturnError):
    """Interrupted by Ctrl-C; the message has the command to resume with."""

    exit_code = 130  # 128 + SIGINT, the shells' convention


_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk, a quota or a file that cannot grow."""


@contextmanager
def resume_hint(resume_command: str) -> Iterator[None]:
    """Turns Ctrl-C and a full disk in the block into a message with the command to resume with."""
    try:
        yield
    except KeyboardInterrupt as exc:
        raise StoppedError(f"stopped; resume with: {resume_command}") from exc
    except OSError as exc:
        if exc.errno not in _FULL_DISK:
            raise
        where = "" if exc.filename is None else f": {os.fsdecode(exc.filename)!r}"
        raise UpturnError(
            f"{exc.strerror}{where}; acknowledged work is saved. Free some space, then resume with: "
            f"{resume_command}"
        ) from exc
