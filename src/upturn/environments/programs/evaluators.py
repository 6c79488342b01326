"""Ready-made ways to evaluate what a program left, by name. Each reads what it needs from ``expected``."""

from collections.abc import Mapping
from pathlib import Path

from upturn.environments.cases import Expected
from upturn.environments.programs.check import MakeSandbox
from upturn.environments.programs.grading import Evaluate, Graded
from upturn.environments.programs.pytest_run import count_tests, run_pytest
from upturn.environments.programs.workspace import checked_path, read_file
from upturn.errors import FileFormatError, UnknownNameError, WorldError
from upturn.records import Trajectory
from upturn.rewards import is_same_answer, read_junit

_REPORT = "report.xml"
_MAX_REPORT = 2**22
"""Bytes of a report."""


def by_exit_code(trajectory: Trajectory, exit_code: int | None) -> Graded:
    """1 for exit code 0, else 0; not known where the program ended by itself and has none."""
    if trajectory.outcome == "finished" and exit_code is None:
        return Graded({"quality": None}, reason="there is no exit code: only a command that ends by itself has one")
    return Graded({"quality": exit_code == 0})


def by_answer(answer: str, expected: Expected) -> bool:
    """Whether the answer is ``expected["answer"]``, a text or a list of right ones, by ``is_same_answer``."""
    right = expected["answer"]
    return any(
        is_same_answer(answer, str(text)) for text in (right if isinstance(right, list | tuple) else [right])
    )


def by_junit(workspace: Path, expected: Expected) -> float:
    """The share of passed tests in the report that the program wrote, ``expected["report"]`` (``report.xml``).

    ``expected["least"]``: how many there are at least (1). 0 without a report that can be read.
    """
    content = read_file(workspace, checked_path(expected.get("report", _REPORT)), _MAX_REPORT)
    try:
        return 0.0 if content is None else read_junit(content.decode()).share(least=int(expected.get("least", 1)))
    except (UnicodeDecodeError, FileFormatError):
        return 0.0


def by_pytest(workspace: Path, expected: Expected, sandbox: MakeSandbox | None) -> float:
    """The share of the hidden tests ``expected["tests"]``, texts by path, that pass within ``expected["seconds"]``
    (120)."""
    tests = expected["tests"]
    if not isinstance(tests, Mapping) or not tests:
        raise WorldError(f"expected['tests'] must have the tests by path, got {tests!r:.200}")
    report = run_pytest(workspace, tests, seconds=float(expected.get("seconds", 120)), sandbox=sandbox)
    return report.share(least=count_tests(tests))


EVALUATORS: Mapping[str, Evaluate] = {
    "exit_code": by_exit_code,
    "answer": by_answer,
    "junit": by_junit,
    "pytest": by_pytest,
}


def evaluator(name: str) -> Evaluate:
    """The way to evaluate that is registered under the name; raises UnknownNameError."""
    if name not in EVALUATORS:
        raise UnknownNameError(
            f"unknown evaluator {name!r}; known: {', '.join(EVALUATORS)}; or give a function of your own"
        )
    return EVALUATORS[name]
