"""Hidden tests in a workspace: restored, and run by pytest in a process of its own.

What a program may have left to decide the result has no effect: ``conftest.py`` is removed, settings of pytest are
not read, plugins are not loaded, and no module of the workspace comes before Python's while pytest starts. Not
covered: code under test runs in the process of its tests and can change what they see. Where that matters, run the
program's code with ``run_check`` and compare its output in ``evaluate``.
"""

import ast
import shlex
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from upturn.environments.programs.check import MakeSandbox, run_check
from upturn.environments.programs.workspace import Workspace, encoded_files, read_file, write_workspace
from upturn.errors import FileFormatError, WorldError
from upturn.rewards import TestReport, read_junit

_MAX_REPORT = 2**24
"""Bytes."""
_NO_REPORT = ("no report was written",)


def run_pytest(
    workspace: Path,
    tests: Mapping[str, str],
    *,
    seconds: float = 120.0,
    python: str = sys.executable,
    sandbox: MakeSandbox | None = None,
) -> TestReport:
    """Writes the tests into the workspace and runs them; their folder and the workspace can be imported from.

    Tests that were not run have failed: where the time limit or the code under test ends the run early, the report
    has no test that passed. ``python``: the interpreter; pytest must be installed for it. A ``conftest.py`` that
    the tests need is one of them. ``sandbox``: as in ``run_check``. Raises WorldError without tests or without
    pytest.
    """
    modules = modules_of(tests)
    if not modules:
        raise WorldError(f"tests are files named test_….py or …_test.py, got {list(tests)!r:.200}")
    if not _has_pytest(python):
        raise WorldError(f"pytest is not installed for {python}: pip install pytest")
    for path in workspace.rglob("conftest.py"):
        path.unlink()
    write_workspace(workspace, Workspace(encoded_files(tests)))
    scratch = Path(tempfile.mkdtemp(prefix=".pytest-", dir=workspace))  # in it, so that a sandbox has it too
    report, settings = scratch / "report.xml", scratch / "pytest.ini"
    settings.write_text(f"[pytest]\npythonpath = {shlex.quote(str(workspace))}\n")
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(settings), "--rootdir", "."]
    command += [f"--junitxml={report}", *modules]
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONSAFEPATH": "1"}
    run_check(workspace, command, seconds=seconds, variables=variables, sandbox=sandbox)
    content = read_file(workspace, report.relative_to(workspace).as_posix(), _MAX_REPORT)
    try:
        return TestReport((), _NO_REPORT, ()) if content is None else read_junit(content.decode())
    except (UnicodeDecodeError, FileFormatError):
        return TestReport((), _NO_REPORT, ())


@cache
def _has_pytest(python: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return run_check(Path(folder), [python, "-c", "import pytest"]).exit_code == 0


def modules_of(tests: Iterable[str]) -> list[str]:
    """The paths among these that pytest takes for modules with tests."""
    names = {path: path.rpartition("/")[2] for path in tests if path.endswith(".py")}
    return [path for path, name in names.items() if name.startswith("test_") or name.endswith("_test.py")]


def count_tests(tests: Mapping[str, str]) -> int:
    """How many tests these files have at least: functions ``test…`` of modules and of classes ``Test…``; 1 where
    none is found."""
    count = 0
    for path in modules_of(tests):
        try:
            body = ast.parse(tests[path]).body
        except SyntaxError:
            continue
        classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name.startswith("Test")]
        for node in (*body, *(inner for outer in classes for inner in outer.body)):
            count += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_test(node)
    return max(1, count)


def _is_test(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether pytest collects the function; fixtures may be named like tests."""
    decorators = " ".join(map(ast.dump, function.decorator_list))
    return function.name.startswith("test") and "fixture" not in decorators
