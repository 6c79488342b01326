"""Fails when a file, function, class or parameter list is larger than the project's caps.

Caps: 500 lines per source file, 600 per test file, 60 per function; 12 public methods per class; 6 parameters per
function (without ``self`` and ``cls``; not for tests, where fixtures are parameters); 20 files per folder of source
files. EXCEPTIONS lists the exceptions with their reasons; an exception that is no longer needed fails too.
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
FOLDER_FILES = 20

EXCEPTIONS: Mapping[str, str] = {
    "src/upturn/cli/agents.py:add": "a command's parameters are its options",
    "src/upturn/cli/agents.py:update": "a command's parameters are its options",
    "src/upturn/cli/agents.py:validate": "a command's parameters are its options",
    "src/upturn/cli/env/files.py:export_workspace": "a command's parameters are its options",
    "src/upturn/cli/env/files.py:import_workspace": "a command's parameters are its options",
    "benchmarks/commands/pool.py:bench_pool": "a command's parameters are its options",
    "src/upturn/cli/pool/batches.py:batch": "a command's parameters are its options",
    "src/upturn/cli/pool/statistics.py:stats": "a command's parameters are its options",
    "src/upturn/cli/pool/card.py:card": "a command's parameters are its options",
    "src/upturn/cli/pool/validation.py:validate": "a command's parameters are its options",
    "src/upturn/cli/pool/privacy.py:policy": "a command's parameters are its options",
    "src/upturn/cli/pool/privacy.py:forget": "a command's parameters are its options",
    "src/upturn/cli/pool/exports.py:export_records": "a command's parameters are its options",
    "src/upturn/cli/pool/retrieval.py:similar": "a command's parameters are its options",
    "src/upturn/cli/pool/tags.py:tag": "a command's parameters are its options",
    "src/upturn/cli/ingest.py:ingest": "a command's parameters are its options",
    "src/upturn/cli/route.py:replay_file": "a command's parameters are its options",
    "src/upturn/cli/route.py:evaluate": "a command's parameters are its options",
    "src/upturn/cli/keys.py:add": "a command's parameters are its options",
    "benchmarks/commands/routing.py:bench_routing": "a command's parameters are its options",
    "src/upturn/cli/release.py:start": "a command's parameters are its options",
    "src/upturn/cli/release.py:plan": "a command's parameters are its options",
    "src/upturn/cli/suites.py:run_suites": "a command's parameters are its options",
    "src/upturn/training/algorithms/policy_gradient.py:PolicyGradient.__init__": "settings need five sources",
    "src/upturn/training/algorithms/grpo/run.py:run_grpo": "as PolicyGradient, three inputs are optional",
    "src/upturn/training/algorithms/policy_update.py:minibatches": "each is a number of its own",
    "src/upturn/training/optimisation/logprob_head.py:_ChosenLogprobs.forward": "autograd passes them by position",
    "src/upturn/models/upstreams/local.py:LocalUpstream.__init__": "what a version and its run decide",
    "src/upturn/agents/build.py:build": "what the kinds of agents need",
    "src/upturn/agents/recorder.py:Recorder": "a session for the agent, and its record for the rollout",
    "src/upturn/environments/one_step.py:one_step": "the independent options of a kit",
    "src/upturn/environments/programs/kit.py:program_kit": "the independent options of a kit",
    "tests/report/conftest.py:build": "one literal: the content of a whole report",
}
"""Reason by ``path`` or ``path:name`` (``path:Class.name`` for methods)."""


class Excess(NamedTuple):
    """A file, function, class or folder above its cap."""

    name: str
    """As in EXCEPTIONS."""
    measure: str
    size: int
    cap: int


def file_excesses(path: str, text: str) -> Iterator[Excess]:
    """Excesses in the file ``path`` (relative, with ``/``) with this content."""
    is_test = path.startswith("tests/")
    cap = TEST_LINES if is_test else SOURCE_LINES
    lines = len(text.splitlines())
    if lines > cap:
        yield Excess(path, "lines", lines, cap)
    for name, node in _definitions(ast.parse(text, path), ""):
        full_name = f"{path}:{name}"
        if isinstance(node, ast.ClassDef):
            methods = sum(_is_public_method(child) for child in node.body)
            if methods > PUBLIC_METHODS:
                yield Excess(full_name, "public methods", methods, PUBLIC_METHODS)
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LINES:
            yield Excess(full_name, "lines", length, FUNCTION_LINES)
        parameters = _parameters(node)
        if not is_test and parameters > PARAMETERS:
            yield Excess(full_name, "parameters", parameters, PARAMETERS)


def folder_excesses(paths: Iterable[str]) -> Iterator[Excess]:
    """Folders with too many of these source files (relative, with ``/``)."""
    folders = Counter(path.rpartition("/")[0] for path in paths if not path.startswith("tests/"))
    yield from (
        Excess(name, "files", files, FOLDER_FILES) for name, files in folders.items() if files > FOLDER_FILES
    )


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
    """One line per excess without an exception, and per exception without an excess."""
    names = {excess.name for excess in excesses}
    lines = [
        f"{excess.name}: {excess.size} {excess.measure}, at most {excess.cap}"
        for excess in excesses
        if excess.name not in exceptions
    ]
    return lines + [
        f"{name}: no longer over a cap; remove it from EXCEPTIONS" for name in exceptions if name not in names
    ]


def main() -> int:
    """Checks the whole tree; 1 = something is too large."""
    excesses: list[Excess] = []
    paths = {
        path.relative_to(ROOT).as_posix(): path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    for relative, path in paths.items():
        excesses.extend(file_excesses(relative, path.read_text(encoding="utf-8")))
    excesses.extend(folder_excesses(paths))
    lines = problems(excesses, EXCEPTIONS)
    for line in lines:
        print(line, file=sys.stderr)
    if lines:
        print(f"{len(lines)} problems: split the code, or add an exception with its reason", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
