"""Options that several commands have, and the end of a command."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from upturn.cli import emit, print_message
from upturn.errors import ConfigError
from upturn.records import JsonValue, Result
from upturn.threads import usable_cores

if TYPE_CHECKING:
    from benchmarks.measurement import Bench

Repetitions: TypeAlias = Annotated[int, typer.Option(min=1, help="Alternating repetitions per figure.")]
Only: TypeAlias = Annotated[list[str] | None, typer.Option(help="Run this measurement only; repeatable.")]
Threads: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Threads of each implementation; omit for one per usable core.")
]
Folder: TypeAlias = Annotated[Path, typer.Option(help="Folder of stored measurements, which are not repeated.")]
Quick: TypeAlias = Annotated[bool, typer.Option("--quick", help="Smoke test with tiny sizes and no bars.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

PartT = TypeVar("PartT", bound=str)


def select_parts(parts: Sequence[PartT], names: Sequence[str] | None) -> tuple[PartT, ...]:
    """The named parts in their order; no names = all. Raises ConfigError for unknown names."""
    unknown = [name for name in names or () if name not in parts]
    if unknown:
        raise ConfigError([f"--part takes {', '.join(parts)}; got {name!r}" for name in unknown])
    return tuple(part for part in parts if not names or part in names)


def new_bench(reps: int, threads: int | None, *, is_quick: bool) -> "Bench":
    """Full sizes with bars, or tiny sizes without. ``threads``: None = one per usable core."""
    from benchmarks.measurement import QUICK, Bench, Sizes

    sizes = QUICK if is_quick else Sizes()
    return Bench(Path(), threads or usable_cores(), reps, sizes, has_bars=not is_quick, log=print_message)


def run_measurements(
    command: str,
    measure: "Callable[[Bench, Sequence[str]], tuple[list[Result], dict[str, JsonValue]]]",
    bench: "Bench",
    names: Sequence[str] | None,
    *,
    as_json: bool,
) -> None:
    """Runs the named measurements (None = the default ones) and prints them."""
    results, details = measure(bench, names or ())
    details = {"threads": bench.threads, "repetitions": bench.repetitions, **details}
    emit_and_exit(command, results, details, as_json=as_json)


def emit_and_exit(
    command: str, results: Sequence[Result], details: Mapping[str, JsonValue], *, as_json: bool
) -> None:
    """Prints results and details; exit code 1 when a bar is missed."""
    emit(f"benchmarks {command}", results, details, as_json=as_json)
    if any(result.holds is False for result in results):
        raise typer.Exit(1)
