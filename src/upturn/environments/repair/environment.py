"""One repair task: a folder with a package and its tests, and the tools of ``tools``.

Files are read and edited here; tests and commands run in a sandbox over the folder, without a network. An action
that is refused changes nothing and costs 1 as ``error``. The potential (``potential``) is found in another sandbox,
so that code under test leaves nothing of the hidden calls in the folder.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from upturn.environments.action import malformed_text, recordable_text
from upturn.environments.cases import Cases
from upturn.environments.environment import Info, Step
from upturn.environments.programs import (
    TemporaryFolder,
    Workspace,
    WorkspaceLimits,
    checked_path,
    empty_folder,
    encoded_files,
    read_workspace,
    write_workspace,
)
from upturn.environments.repair.case import RepairCase
from upturn.environments.repair.hidden import HIDDEN_FOLDERS, HiddenTests
from upturn.environments.repair.public_tests import RUNNER, read_report, request
from upturn.environments.repair.tools import TARGET, TOOLS
from upturn.environments.sandbox import Bubblewrap, CommandEnd
from upturn.environments.sandbox.session import SandboxSession
from upturn.errors import WorldError
from upturn.records import Action, JsonValue, Observation, Task

LIMITS = WorkspaceLimits(files=60, file_bytes=100_000, total_bytes=500_000)
_SHOWN_LINES = 200
_SHOWN_LETTERS = 8_000
_SHOWN_FAILURES = 5
_MOST_HITS = 30
_TEST_SECONDS = 2.0
"""Of one test."""
_TESTS_SECONDS = 20.0
_BASH_SECONDS = 20.0
_OUTPUT = 200_000
"""Bytes of a command's output that are kept."""
_USAGE = f"known calls of {TARGET}: {', '.join(tool.operation for tool in TOOLS)}"
_CALLS = {tool.operation: tool for tool in TOOLS}


class _Snapshot(NamedTuple):
    workspace: Workspace
    is_submitted: bool


class _RefusedError(Exception):
    """An action that cannot be carried out; the arguments are the code and the message."""


class RepairEnvironment:
    """An ``Environment``; ``close`` ends its sandboxes and removes its folder."""

    blocks = True
    """Its tools wait for processes."""

    def __init__(self, cases: Cases[RepairCase]) -> None:
        self._cases = cases
        self._case: RepairCase | None = None
        self._folder: TemporaryFolder | None = None
        self._session: SandboxSession | None = None
        self._hidden: HiddenTests | None = None
        self._is_submitted = False
        self._potentials: dict[str, float] = {}

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Writes the task's files into a new folder; raises WorldError for tasks of other environments."""
        case = self._cases.of(task)
        self.close()
        self._case, self._is_submitted, self._potentials = case, False, {}
        self._folder = TemporaryFolder()
        write_workspace(self._folder.path, Workspace(encoded_files(case.files)))
        return Observation(case.instruction), self._info(self._read())

    def step(self, action: Action) -> Step:
        """Carries out a call. Raises SandboxError where nothing may run."""
        if self._is_submitted:
            return self._refuse("is_over", "the task is over; reset starts another")
        if not action.operation:
            return self._refuse("malformed", malformed_text(action, f"write one call; {_USAGE}"))
        try:
            arguments = _arguments(action)
            match action.operation:
                case "submit":
                    self._is_submitted = True
                    return Step(Observation("submitted"), 0.0, True, False, self._info(self._read()))
                case operation:
                    shown = self._use(operation, arguments)
        except _RefusedError as refused:
            return self._refuse(*refused.args)
        except OSError as exc:  # a link or a permission that a command left
            return self._refuse("not_possible", f"the file system refuses it: {exc.strerror}")
        return Step(Observation(recordable_text(shown)), 0.0, False, False, self._info(self._read()))

    def state(self) -> Mapping[str, JsonValue]:
        """The files, and whether they were submitted."""
        return {**self._read().as_json(), "is_submitted": self._is_submitted}

    def snapshot(self) -> _Snapshot:
        """The files; processes do not outlive a call."""
        return _Snapshot(self._read(), self._is_submitted)

    def restore(self, snapshot: object) -> None:
        """Writes the files of a snapshot of the same task."""
        if not isinstance(snapshot, _Snapshot) or self._folder is None:
            raise WorldError(f"repair cannot restore {snapshot!r:.200}: it is no snapshot of this environment")
        empty_folder(self._folder.path)
        write_workspace(self._folder.path, snapshot.workspace)
        self._is_submitted = snapshot.is_submitted

    def close(self) -> None:
        """Ends the sandboxes and removes the folder; ``reset`` starts again."""
        if self._session is not None:
            self._session.close()
        if self._hidden is not None:
            self._hidden.close()
        if self._folder is not None:
            self._folder.close()
        self._session = self._hidden = self._folder = None

    def _use(self, operation: str, arguments: Mapping[str, JsonValue]) -> str:
        """What the agent sees; raises _RefusedError."""
        match operation, arguments:
            case "list_files", {}:
                return "\n".join(self._read().files)
            case "read_file", {"path": str(path)}:
                return self._shown(path, arguments)
            case "search", {"text": str(text)} if text:
                return self._search(text)
            case "edit", {"path": str(path), "old": str(old), "new": str(new)}:
                return self._edit(path, old, new)
            case "run_tests", _:
                name = arguments.get("name", "")
                wanted = request(name if isinstance(name, str) else "", _TEST_SECONDS)
                end = self._sandbox().run_python(RUNNER, input=wanted, seconds=_TESTS_SECONDS, output_limit=_OUTPUT)
                return _cut(read_report(end).text(_SHOWN_FAILURES))
            case "bash", {"command": str(command)} if command.strip() and "\0" not in command:
                end = self._sandbox().exec(["/bin/sh", "-c", command], seconds=_BASH_SECONDS, output_limit=_OUTPUT)
                return _described(end)
        raise _RefusedError("bad_call", f"{TARGET}.{operation} has empty or unusable parameters")

    def _shown(self, path: str, arguments: Mapping[str, JsonValue]) -> str:
        lines = self._text(path).splitlines()
        start, stop = arguments.get("start", 1), arguments.get("stop", len(lines))
        first = start if isinstance(start, int) and start >= 1 else 1
        last = min(stop if isinstance(stop, int) else len(lines), len(lines), first + _SHOWN_LINES - 1)
        shown = [f"{number} {lines[number - 1]}" for number in range(first, last + 1)]
        return _cut("\n".join(shown)) or "there are no such lines"

    def _search(self, text: str) -> str:
        hits = [
            f"{path}:{number} {line}"
            for path, content in self._read().files.items()
            for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1)
            if text in line
        ]
        more = [f"and {len(hits) - _MOST_HITS} more"] if len(hits) > _MOST_HITS else []
        return _cut("\n".join([*hits[:_MOST_HITS], *more])) or "there are none"

    def _edit(self, path: str, old: str, new: str) -> str:
        files = self._read().files
        if not old:
            if path in files:
                raise _RefusedError("exists", f"{path} exists; name the text to replace as old")
            return self._write(path, new, files)
        text = self._text(path)
        count = text.count(old)
        if count != 1:
            raise _RefusedError("not_once", f"the old text occurs {count} times in {path}; it must occur once")
        return self._write(path, text.replace(old, new), files)

    def _write(self, path: str, text: str, files: Mapping[str, bytes]) -> str:
        try:
            encoded = encoded_files({**files, path: text})
            checked_path(path)
        except WorldError as exc:
            raise _RefusedError("bad_path", str(exc)) from exc
        if len(encoded) > LIMITS.files or len(encoded[path]) > LIMITS.file_bytes:
            raise _RefusedError("too_large", f"at most {LIMITS.files} files of {LIMITS.file_bytes} bytes")
        if sum(map(len, encoded.values())) > LIMITS.total_bytes:
            raise _RefusedError("too_large", f"at most {LIMITS.total_bytes} bytes in all")
        write_workspace(self._opened().path, Workspace({path: encoded[path]}))
        return f"{path} is written"

    def _text(self, path: str) -> str:
        content = self._read().files.get(path)
        if content is None:
            raise _RefusedError("not_found", f"there is no file {path!r:.200}; {TARGET}.list_files lists them")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise _RefusedError("not_shown", f"{path} is no text") from None

    def _opened(self) -> TemporaryFolder:
        if self._folder is None:
            raise WorldError("repair has no folder: call reset(task) first, and close() last")
        return self._folder

    def _read(self) -> Workspace:
        return read_workspace(self._opened().path, LIMITS)

    def _sandbox(self) -> SandboxSession:
        if self._session is None:
            self._session = SandboxSession(Bubblewrap(self._opened().path, hidden=HIDDEN_FOLDERS))
        return self._session

    def _info(self, workspace: Workspace, costs: Mapping[str, float] | None = None) -> Info:
        stored = json.dumps([workspace.as_json(), self._is_submitted], sort_keys=True)
        digest = hashlib.blake2b(stored.encode(), digest_size=8).hexdigest()
        return Info({}, costs or {}, state_hash=digest, potential=self._potential(workspace))

    def _potential(self, workspace: Workspace) -> float:
        case = self._case
        if case is None or all(
            workspace.files.get(path) == text.encode()
            for path, text in case.files.items()
            if _is_source(case, path)
        ):
            return 0.0
        sources = {path: content for path, content in workspace.files.items() if _is_source(case, path)}
        key = hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()
        if key not in self._potentials:
            if self._hidden is None:
                self._hidden = HiddenTests()
            self._potentials[key] = potential(case, self._hidden.passed(sources, case.hidden))
        return self._potentials[key]

    def _refuse(self, code: str, message: str) -> Step:
        info = self._info(self._read(), {"error": 1.0})
        return Step(Observation(recordable_text(message), code), 0.0, False, False, info)


def potential(case: RepairCase, passed: tuple[bool, ...]) -> float:
    """The share of right calls among those that showed a bug, minus that of wrong ones among the others; from 0."""
    shown, others = passed[: case.failing], passed[case.failing :]
    broken = sum(not is_passed for is_passed in others) / max(1, len(others))
    return max(0.0, sum(shown) / max(1, len(shown)) - broken)


def _is_source(case: RepairCase, path: str) -> bool:
    return path.startswith(f"{case.package}/")


def _arguments(action: Action) -> Mapping[str, JsonValue]:
    """The parameters of a known call; raises _RefusedError for others."""
    tool = _CALLS.get(action.operation) if action.target == TARGET else None
    if tool is None:
        raise _RefusedError("bad_call", f"there is no call {action.name!r:.200}; {_USAGE}")
    known, required = set(tool.properties), set(tool.required)
    parameters = {name: _number(name, value) for name, value in action.parameters.items()}
    if parameters.keys() - known or required - parameters.keys():
        names = ", ".join(tool.properties) or "no parameters"
        raise _RefusedError("bad_call", f"{action.name} takes {names}; got {', '.join(parameters) or 'none'}")
    return parameters


def _number(name: str, value: JsonValue) -> JsonValue:
    """Line numbers may be written as text."""
    if name in ("start", "stop") and isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        return int(value)
    return value


def _described(end: CommandEnd) -> str:
    parts = [end.output.rstrip(), end.errors.rstrip()]
    if end.exit_code is None:
        parts.append(f"the command was ended after {_BASH_SECONDS:g} s")
    elif end.exit_code:
        parts.append(f"exit code {end.exit_code}")
    return _cut("\n".join(filter(None, parts))) or "no output"


def _cut(text: str) -> str:
    """Long texts without their middle."""
    if len(text) <= _SHOWN_LETTERS:
        return text
    half = _SHOWN_LETTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"
