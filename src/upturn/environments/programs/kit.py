"""A kit of tasks for programs: one function draws a task with its files, another evaluates what was left."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import TypeAlias

from upturn.environments.cases import Cases, Expected
from upturn.environments.environment import verify
from upturn.environments.oracle_protocol import CANARY_LENGTH
from upturn.environments.programs.case import RETURNS, ProgramCase, read_case
from upturn.environments.programs.check import MakeSandbox
from upturn.environments.programs.evaluators import evaluator
from upturn.environments.programs.grading import (
    Evaluate,
    FinishedAttempt,
    evaluation_of,
    graded,
    wanted_parts,
)
from upturn.environments.programs.temporary_folder import TemporaryFolder
from upturn.environments.programs.workspace import Workspace, WorkspaceLimits, write_workspace
from upturn.environments.programs.workspace_environment import TOOLS, WorkspaceEnvironment
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy
from upturn.errors import WorldError
from upturn.records import Action, Evaluation, JsonValue, Split, Task, Trajectory, record

MakeTask: TypeAlias = Callable[..., tuple[str, Expected] | tuple[str, Expected, Mapping[str, str | bytes]]]
"""``make(rng)`` or ``make(rng, split=…)`` → (instruction, expected) or (instruction, expected, files)."""
WriteHint: TypeAlias = Callable[[Expected], str]


@record
class Solved:
    """Perfect work, for ``upturn env validate``."""

    files: Mapping[str, str | None] = field(default_factory=dict)
    """Files to write, by path; None = the file is deleted. Work that leaves one out must fail."""
    answer: str | None = None
    """None = any answer is right."""


Solve: TypeAlias = Callable[[Expected], Solved]


def program_kit(  # noqa: PLR0913  # the parts of a kit, each a separate option
    name: str,
    make: MakeTask | Mapping[str, MakeTask],
    evaluate: Evaluate | str,
    *,
    version: int = 1,
    level: int | Mapping[str, int] = 1,
    limits: WorkspaceLimits = WorkspaceLimits(),  # noqa: B008  # a frozen record
    sandbox: MakeSandbox | None = None,
    hint: WriteHint | None = None,
    oracle: Solve | None = None,
) -> "ProgramKit":
    """A kit of tasks for programs; name it as ``module:name`` in ``upturn.toml``.

    ``make`` is one function, for a family called ``name``, or several by family; see ``MakeTask``. A ``make`` with
    an argument ``split`` gets ``"train"`` or ``"heldout"``. ``evaluate`` names as its parameters what it needs of
    ``FinishedAttempt``, such as ``evaluate(workspace, expected)``, and returns a ``Judged``; an exception is a
    missing evaluation. A text is the name of one in ``EVALUATORS``. ``version`` is the verifier's: raise it when
    ``evaluate`` changes. ``level``: of all families, or by family. ``limits``: what is kept of a workspace.
    ``sandbox``: in which ``evaluate`` runs what the program left, such as ``Bubblewrap``; None = without one.
    ``hint``: the answer in words, for training with hints; None = there is none. ``oracle``: None = no known
    solution, and less can be validated.

    Raises WorldError for an ``evaluate`` with other parameters, for levels of other families, and without a name or
    a family; UnknownNameError for an unknown name of an ``evaluate``.
    """
    makes = dict(make) if isinstance(make, Mapping) else {name: make}
    cases = Cases(name, makes, read_case, returns=RETURNS)
    function = evaluator(evaluate) if isinstance(evaluate, str) else evaluate
    verifier = ProgramVerifier(cases, function, version=version, sandbox=sandbox)
    levels = dict(level) if isinstance(level, Mapping) else dict.fromkeys(makes, level)
    if levels.keys() != makes.keys():
        raise WorldError(f"{name!r} has levels of {sorted(levels)} and families {sorted(makes)}; give one for each")
    return ProgramKit(cases, verifier, levels=levels, limits=limits, write_hint=hint, solve=oracle)


class ProgramVerifier:
    """Rebuilds the workspace from the stored final state and calls ``evaluate``. A ``BatchVerifier``."""

    def __init__(
        self, cases: Cases[ProgramCase], evaluate: Evaluate, *, version: int, sandbox: MakeSandbox | None
    ) -> None:
        self.name = f"{cases.name}/{version}"
        self._cases, self._evaluate, self._sandbox = cases, evaluate, sandbox
        self._wanted = wanted_parts(cases.name, evaluate)

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """The evaluation of what the program left. Propagates the exceptions of ``evaluate``.

        Raises WorldError for a trajectory without a workspace in its final state.
        """
        case, state = self._cases.of(task), trajectory.final_state
        workspace = Workspace.from_json(state)
        answer, exit_code, errors = state.get("answer"), state.get("exit_code"), state.get("errors")
        folder = TemporaryFolder()
        try:
            write_workspace(folder.path, workspace)
            attempt = FinishedAttempt(
                task=task,
                trajectory=trajectory,
                workspace=folder.path,
                expected=case.expected,
                answer=answer if isinstance(answer, str) else "",
                exit_code=exit_code if isinstance(exit_code, int) else None,
                errors=errors if isinstance(errors, str) else "",
                left_out=workspace.left_out,
                sandbox=self._sandbox,
            )
            judged = self._evaluate(**{part: getattr(attempt, part) for part in self._wanted})
        finally:
            folder.close()
        return evaluation_of(self.name, trajectory, graded(self._cases.name, judged))

    def verify_all(self, finished: Sequence[tuple[Task, Trajectory]]) -> list[Evaluation]:
        """The evaluations, in order, computed in as many threads as there are processors: ``evaluate`` mostly waits
        for other processes."""
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as threads:
            return list(threads.map(lambda pair: verify(self, *pair), finished))


class ProgramKit:
    """The ``EnvironmentKit`` that ``program_kit`` returns."""

    def __init__(
        self,
        cases: Cases[ProgramCase],
        verifier: ProgramVerifier,
        *,
        levels: Mapping[str, int],
        limits: WorkspaceLimits,
        write_hint: WriteHint | None,
        solve: Solve | None,
    ) -> None:
        self.name = cases.name
        self.families = levels
        self.verifier = verifier
        self.tools = TOOLS
        self._cases, self._limits = cases, limits
        self._write_hint, self._solve = write_hint, solve

    def environment(self, task: Task) -> WorkspaceEnvironment:  # noqa: ARG002  # every task has the same kind
        """A new environment; ``reset`` makes its folder."""
        return WorkspaceEnvironment(self._cases, self._limits)

    def hint(self, task: Task) -> str | None:
        """The task's hint; None where there is none."""
        return None if self._write_hint is None else self._write_hint(self._cases.of(task).expected)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Endless tasks, each family once a round. Streams of different seeds share no task."""
        return self._cases.tasks(seed=seed, split=split, levels=self.families, families=families)

    def oracle(self, task: Task) -> ScriptedPolicy | None:
        """A policy that writes the right files and answers; None where there is no oracle."""
        solved = self._solved(task)
        return (
            None
            if solved is None
            else fixed_policy((*_changes(solved.files), _answer(solved.answer or _ANY_ANSWER)))
        )

    def canaries(self, task: Task) -> tuple[str, ...]:
        """The texts in ``expected`` that are long enough, and neither in the instruction nor in the files."""
        case = self._cases.of(task)
        shown = (case.instruction, *(text for text in case.files.values() if isinstance(text, str)), *case.files)
        texts = (text.strip() for text in _texts(case.expected))
        return tuple(
            text
            for text in dict.fromkeys(texts)
            if len(text) >= CANARY_LENGTH and not any(text in part for part in shown)
        )

    def attacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        """Deleting all files, emptying them, and making the tests of the workspace pass whatever they test."""
        files = self._cases.of(task).files
        scripts: dict[str, Mapping[str, str | None]] = {
            "delete_all": dict.fromkeys(files),
            "empty_all": dict.fromkeys(files, ""),
            "tamper": {**_TAMPERED, **{path: _PASSING for path in files if "test" in path}},
        }
        return {
            name: fixed_policy((*_changes(changes), _answer(_ANY_ANSWER)))
            for name, changes in scripts.items()
            if changes
        }

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:  # noqa: ARG002  # as every OracleKit's
        """Everything but what the oracle's ``Solved`` names: ``evaluate`` decides on the rest."""
        solved = self._solved(task)
        if solved is None:
            return True
        match list(path):
            case ["answer", *_]:
                return solved.answer is None
            case ["files", file, *_]:
                return file not in solved.files
        return True

    def _solved(self, task: Task) -> Solved | None:
        return None if self._solve is None else self._solve(self._cases.of(task).expected)


_ANY_ANSWER = "done"
_PASSING = "def test_passes():\n    assert True\n"
_TAMPERED = {
    "conftest.py": "import os\n\n\ndef pytest_sessionfinish():\n    os._exit(0)\n",
    "sitecustomize.py": "import os\n\nos._exit(0)\n",
    "report.xml": '<testsuites><testsuite tests="9" failures="0"><testcase name="a"/></testsuite></testsuites>',
}


def _answer(text: str) -> Action:
    return Action("user", "answer", {"text": text})


def _changes(files: Mapping[str, str | None]) -> Iterator[Action]:
    for path, text in files.items():
        if text is None:
            yield Action("files", "delete", {"path": path})
        else:
            yield Action("files", "write", {"path": path, "text": text})


def _texts(value: object) -> Iterator[str]:
    """All texts in nested mappings and sequences."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
