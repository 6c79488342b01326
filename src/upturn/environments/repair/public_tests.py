"""The public tests as files, and a small runner for a sandbox: the agent's feedback, never a reward."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from upturn.environments.repair.case import Call
from upturn.environments.sandbox import CommandEnd

FOLDER = "tests"
RUNNER = '''
import ast, importlib.util, json, os, signal, sys, traceback
from pathlib import Path
asked = json.load(sys.stdin)
report = os.dup(1)
os.dup2(2, 1)
sys.path.insert(0, os.getcwd())
class TooLong(Exception):
    pass
def ring(*_):
    raise TooLong("it took more than %g s" % asked["seconds"])
signal.signal(signal.SIGALRM, ring)
def sides(exc):
    """What an ``assert left == right`` compared."""
    frame = exc.__traceback__
    while frame.tb_next:
        frame = frame.tb_next
    source = Path(frame.tb_frame.f_code.co_filename).read_text().splitlines()[frame.tb_lineno - 1].strip()
    node = ast.parse(source).body[0]
    if not (isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1):
        return source
    left, right = (ast.unparse(part) for part in (node.test.left, node.test.comparators[0]))
    value = eval(left, frame.tb_frame.f_globals, frame.tb_frame.f_locals)
    return "%s gave %.300r, the test expects %.300s" % (left, value, right)
def ran(function):
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
    try:
        function()
        return None
    except AssertionError as exc:
        try:
            return sides(exc)
        except BaseException:
            return "AssertionError: %.300s" % exc
    except BaseException as exc:
        if isinstance(exc, KeyboardInterrupt):
            raise
        place = traceback.extract_tb(exc.__traceback__)[-1]
        return "%s: %.200s (%s, line %s)" % (type(exc).__name__, exc, os.path.relpath(place.filename), place.lineno)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
results = []
for path in sorted(Path(asked["folder"]).rglob("test_*.py")):
    tests = {}
    def load():
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = vars(module).items()
        tests.update({name: value for name, value in found if name.startswith("test") and callable(value)})
    wrong = ran(load)
    if wrong is not None:
        results.append([str(path), wrong])
    for name, function in tests.items():
        label = "%s::%s" % (path, name)
        if asked["name"] in label:
            results.append([label, ran(function)])
with os.fdopen(report, "w") as file:
    json.dump(results, file)
'''
"""Runs functions ``test…`` of files ``test_….py`` without arguments. In a sandbox; standard library only."""


class RunReport(NamedTuple):
    """What the runner reported."""

    failures: Mapping[str, str]
    """Reason by test."""
    tests: int
    """How many were run."""
    problem: str = ""
    """Why there is no report; empty = there is one."""

    @property
    def is_passed(self) -> bool:
        """Whether there were tests and all of them passed."""
        return self.tests > 0 and not self.failures and not self.problem

    def text(self, most: int) -> str:
        """For the agent; of many failures the first ``most``."""
        if self.problem:
            return f"the tests did not run to their end: {self.problem}"
        if not self.tests:
            return "no tests were found"
        lines = [f"{len(self.failures)} of {self.tests} tests failed"]
        lines += [f"FAILED {name}: {reason}" for name, reason in list(self.failures.items())[:most]]
        if len(self.failures) > most:
            lines.append(f"and {len(self.failures) - most} more")
        return "\n".join(lines)


def test_files(package: str, calls: Iterable[Call]) -> dict[str, str]:
    """The calls as files of pytest, one for each module."""
    files = {}
    ordered = sorted(calls, key=lambda call: (call.module, call.function))
    for module, in_module in groupby(ordered, key=lambda call: call.module):
        tests = list(in_module)
        names = ", ".join(sorted({call.function for call in tests}))
        lines = [f"from {module} import {names}", ""]
        for function, of_function in groupby(tests, key=lambda call: call.function):
            for number, call in enumerate(of_function, 1):
                lines += [
                    "",
                    f"def test_{function}_{number}():",
                    f"    assert {call.text} == {call.expected.value}",
                    "",
                ]
        files[f"{FOLDER}/test_{module.removeprefix(package + '.')}.py"] = "\n".join(lines)
    return files


def request(name: str, seconds: float) -> str:
    """The runner's input; ``name``: only tests whose names contain it."""
    return json.dumps({"folder": FOLDER, "name": name, "seconds": seconds})


def read_report(end: CommandEnd) -> RunReport:
    """The report; what the code under test may have written in its place is one without results."""
    try:
        results: Sequence[Sequence[str | None]] = json.loads(end.output)
        failures = {str(name)[:300]: str(reason)[:1_000] for name, reason in results if reason is not None}
        return RunReport(failures, len(results))
    except (ValueError, TypeError):
        if end.exit_code is None:
            return RunReport({}, 0, "the time is over")
        return RunReport({}, 0, f"exit code {end.exit_code}; {end.errors.strip()[-500:] or 'no errors'}")
