"""Hidden tests: calls in a sandbox whose results are compared here, so that code under test cannot decide them.

The sandbox has the package's files and gets the calls, but nothing of what they should give. What it reports are
values as text; only those that read as plain Python literals and equal the expected ones count.
"""

import ast
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import upturn
from upturn.environments.programs import TemporaryFolder, Workspace, empty_folder, write_workspace
from upturn.environments.repair.case import Call
from upturn.environments.repair.source import Result
from upturn.environments.sandbox import Bubblewrap
from upturn.environments.sandbox.session import SandboxSession

_CALL_SECONDS = 1.0
_ALL_SECONDS = 10.0
_OUTPUT = 1_000_000
_MOST_LETTERS = 20_000
"""Of a value's text."""
_CALLER = """
import ast, importlib, json, os, signal, sys
asked = json.load(sys.stdin)
report = os.dup(1)
os.dup2(2, 1)
sys.path.insert(0, os.getcwd())
def ring(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, ring)
results = []
for module, function, arguments in asked["calls"]:
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
    try:
        called = getattr(importlib.import_module(module), function)
        results.append([repr(called(*ast.literal_eval(arguments)))[:asked["letters"]], ""])
    except BaseException as exc:
        results.append([None, type(exc).__name__])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
with os.fdopen(report, "w") as file:
    json.dump(results, file)
"""
HIDDEN_FOLDERS = (Path(upturn.__file__).parent,)
"""Folders that a sandbox of repair shows as empty: the packages without bugs lie there."""


class HiddenTests:
    """Runs calls on files in one sandbox, for one rollout; ``close`` it."""

    def __init__(self) -> None:
        self._folder = TemporaryFolder()
        self._session = SandboxSession(Bubblewrap(self._folder.path, hidden=HIDDEN_FOLDERS))
        self._written: Mapping[str, bytes] = {}

    def passed(self, files: Mapping[str, bytes], calls: Sequence[Call]) -> tuple[bool, ...]:
        """Whether each call gives what it should. Raises SandboxError where nothing may run."""
        if files != self._written:
            empty_folder(self._folder.path)  # code under test may have left files
            write_workspace(self._folder.path, Workspace(dict(files)))
            self._written = dict(files)
        wanted = [[call.module, call.function, call.arguments] for call in calls]
        request = json.dumps({"calls": wanted, "seconds": _CALL_SECONDS, "letters": _MOST_LETTERS})
        end = self._session.run_python(_CALLER, input=request, seconds=_ALL_SECONDS, output_limit=_OUTPUT)
        results = _read(end.output, len(calls))
        return tuple(is_same(result, call.expected) for result, call in zip(results, calls, strict=True))

    def close(self) -> None:
        """Ends the sandbox and removes its files."""
        self._session.close()
        self._folder.close()


@lru_cache(maxsize=4_096)
def passed_once(files: tuple[tuple[str, bytes], ...], calls: tuple[Call, ...]) -> tuple[bool, ...]:
    """As ``HiddenTests.passed``, in a sandbox of its own; the same arguments are run once."""
    tests = HiddenTests()
    try:
        return tests.passed(dict(files), calls)
    finally:
        tests.close()


def is_same(result: Result, expected: Result) -> bool:
    """Whether a result is the expected one: the same value of the same types, or the same exception.

    Floats may differ by 1e-9 of their size: another order of additions is right too.
    """
    if expected.value is None or result.value is None:
        return expected.value is result.value and expected.error == result.error
    try:
        return _is_equal(ast.literal_eval(result.value), ast.literal_eval(expected.value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def _is_equal(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(_is_equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_is_equal(left[key], right[key]) for key in left)
    return bool(left == right)


def _read(output: str, count: int) -> list[Result]:
    """What the sandbox reported; a report of another form is one of failures."""
    failed = [Result(None, "NoReport")] * count
    try:
        results = json.loads(output)
        read = [Result(None if value is None else str(value), str(error)) for value, error in results]
    except (ValueError, TypeError):
        return failed
    return read if len(read) == count else failed
