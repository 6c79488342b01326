"""Fails when a file, function, class or parameter list is larger than the project's caps.

Caps keep the tail short: lines of a source file 500, of a test file 600, of a function 60; public methods of a
class 12; parameters of a function 6 (``self`` and ``cls`` not counted). Tests have no parameter cap: fixtures are
parameters. A room, that is a folder of source files, holds at most 20 of them. Exceptions stand in EXCEPTIONS, each
with its reason; one that is no longer needed fails too.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "benchmarks", "tests", "tools")

SOURCE_LINES = 500
TEST_LINES = 600
FUNCTION_LINES = 60
PUBLIC_METHODS = 12
PARAMETERS = 6
ROOM_FILES = 20

EXCEPTIONS: Mapping[str, str] = {
    "src/upturn/cli/benchmark.py:run_suites": "a command's parameters are its options",
    "src/upturn/cli/env/files.py:export_workspace": "a command's parameters are its options",
    "src/upturn/cli/env/files.py:import_workspace": "a command's parameters are its options",
    "src/upturn/cli/ingest.py:ingest": "a command's parameters are its options",
    "src/upturn/cli/release.py:start": "a command's parameters are its options",
    "src/upturn/training/algorithms/policy_gradient.py:PolicyGradient.__init__": "settings ask for four sources",
    "src/upturn/environments/one_step.py:one_step": "the parts of a kit, each a separate option",
    "tests/report/conftest.py:build": "one literal: the content of a whole report",
}
"""``path`` or ``path:name`` (``path:Class.name`` for methods) to the reason why the cap does not fit there."""


class Excess(NamedTuple):
    """One thing that is larger than its cap."""

    place: str
    """As in EXCEPTIONS."""
    measure: str
    size: int
    cap: int


def file_excesses(path: str, text: str) -> Iterator[Excess]:
    """What in the file ``path`` (relative, with ``/``) with this content is larger than its cap."""
    is_test = path.startswith("tests/")
    cap = TEST_LINES if is_test else SOURCE_LINES
    lines = len(text.splitlines())
    if lines > cap:
        yield Excess(path, "lines", lines, cap)
    for name, node in _definitions(ast.parse(text, path), ""):
        place = f"{path}:{name}"
        if isinstance(node, ast.ClassDef):
            methods = sum(_is_public_method(child) for child in node.body)
            if methods > PUBLIC_METHODS:
                yield Excess(place, "public methods", methods, PUBLIC_METHODS)
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LINES:
            yield Excess(place, "lines", length, FUNCTION_LINES)
        parameters = _parameters(node)
        if not is_test and parameters > PARAMETERS:
            yield Excess(place, "parameters", parameters, PARAMETERS)


def room_excesses(paths: Iterable[str]) -> Iterator[Excess]:
    """Rooms with more files than the cap, of these source files (relative, with ``/``)."""
    rooms = Counter(path.rpartition("/")[0] for path in paths if not path.startswith("tests/"))
    yield from (Excess(room, "files", files, ROOM_FILES) for room, files in rooms.items() if files > ROOM_FILES)


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{child.name}"
            yield name, child
            yield from _definitions(child, f"{name}.")
        else:
            yield from _definitions(child, prefix)


def _is_public_method(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in named)


def problems(excesses: list[Excess], exceptions: Mapping[str, str]) -> list[str]:
    """One line for each excess that no exception covers and for each exception that covers nothing."""
    found = {excess.place for excess in excesses}
    lines = [
        f"{excess.place}: {excess.size} {excess.measure}, at most {excess.cap}"
        for excess in excesses
        if excess.place not in exceptions
    ]
    stale = [f"{place}: no longer over a cap; take it off EXCEPTIONS" for place in exceptions if place not in found]
    return lines + stale


def main() -> int:
    """Checks the whole tree; 1 when something is too large."""
    excesses: list[Excess] = []
    paths = {
        path.relative_to(ROOT).as_posix(): path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    for relative, path in paths.items():
        excesses.extend(file_excesses(relative, path.read_text(encoding="utf-8")))
    excesses.extend(room_excesses(paths))
    found = problems(excesses, EXCEPTIONS)
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print(f"{len(found)} problems: split it, or add an exception with its reason", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
