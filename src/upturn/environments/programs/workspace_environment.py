"""One task in a workspace: a folder that a program works in, or that an agent's actions change.

A program ends the task with ``finish``. An agent without a program has five operations: ``files.list``,
``files.read``, ``files.write``, ``files.delete`` and ``user.answer``, which ends the task.

Order of checks of an action: the task is still open; the operation and its parameters are known; the path stays in
the workspace. An action that fails a check changes nothing and costs 1 as ``error``.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from upturn.environments.action import malformed_text, recordable_text
from upturn.environments.cases import Cases
from upturn.environments.environment import Info, Step
from upturn.environments.programs.case import ProgramCase
from upturn.environments.programs.end import ProgramEnd
from upturn.environments.programs.temporary_folder import TemporaryFolder, empty_folder
from upturn.environments.programs.workspace import (
    Workspace,
    WorkspaceLimits,
    checked_path,
    delete_file,
    encoded_files,
    read_file,
    read_workspace,
    write_workspace,
)
from upturn.errors import WorldError
from upturn.records import Action, JsonValue, Observation, Task, Tool

MAX_ERRORS = 4_000
"""Characters of a program's errors that are kept, the last ones."""
MAX_SHOWN = 20_000
"""Bytes of a file that an action can read."""

_TEXT: JsonValue = {"type": "string"}
TOOLS = (
    Tool("files", "list", "Lists the files of the workspace."),
    Tool("files", "read", "Shows a file.", {"path": _TEXT}, ("path",)),
    Tool("files", "write", "Writes a file with this text.", {"path": _TEXT, "text": _TEXT}, ("path", "text")),
    Tool("files", "delete", "Deletes a file.", {"path": _TEXT}, ("path",)),
    Tool(
        "user", "answer", "Ends the task with the final answer.", {"text": _TEXT}, ("text",), text_parameter="text"
    ),
)
"""For agents without a program."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    workspace: Workspace
    end: ProgramEnd | None


class _RefusedError(Exception):
    """An action that cannot be carried out; the arguments are the code and the message."""


class WorkspaceEnvironment:
    """A ``ProgramEnvironment``: its folder is new at each ``reset``, and holds the files of the task."""

    def __init__(self, cases: Cases[ProgramCase], limits: WorkspaceLimits) -> None:
        self._cases, self._limits = cases, limits
        self._case: ProgramCase | None = None
        self._temporary: TemporaryFolder | None = None
        self._end: ProgramEnd | None = None
        self._last: Workspace | None = None
        """The files at the end; None = the task is open."""

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Writes the task's files into a new folder; raises WorldError for tasks of other environments."""
        case = self._cases.of(task)
        self.close()
        self._case, self._end, self._last = case, None, None
        self._temporary = TemporaryFolder()
        write_workspace(self._temporary.path, Workspace(encoded_files(case.files)))
        return Observation(case.instruction), self._info()

    def folder(self) -> Path:
        """The working folder."""
        if self._temporary is None:
            raise WorldError(f"{self._cases.name!r} has no folder: call reset(task) first, and close() last")
        return self._temporary.path

    def finish(self, end: ProgramEnd) -> Step:
        """Ends the task; what the folder holds now is the result. Later calls change nothing and are refused."""
        if self._last is not None:
            return self._refuse("is_over", "the task is over; reset starts another")
        self._last = self._read()
        answer, errors = recordable_text(end.answer), recordable_text(end.errors[-MAX_ERRORS:])
        self._end = ProgramEnd(answer, end.exit_code, errors)
        return Step(Observation("done"), 0.0, True, False, self._info())

    def step(self, action: Action) -> Step:
        """Carries out an operation of an agent without a program."""
        self.folder()
        if self._last is not None:
            return self._refuse("is_over", "the task is over; reset starts another")
        if not action.operation:
            usual = "write one call: target.operation name=value; name=value"
            return self._refuse("malformed", malformed_text(action, usual))
        match (action.target, action.operation, dict(action.parameters)):
            case ("user", "answer", {"text": str(text), **others}) if not others:
                return self.finish(ProgramEnd(text))
            case ("files", operation, parameters):
                try:
                    shown = self._use_files(operation, parameters)
                except _RefusedError as refused:
                    return self._refuse(*refused.args)
                except OSError as exc:  # a link or a permission that a program left
                    return self._refuse("not_possible", f"the file system refuses it: {exc.strerror}")
                return Step(Observation(shown), 0.0, False, False, self._info())
        return self._refuse("bad_call", f"there is no call {action.name!r:.200} with these parameters; {_USAGE}")

    def _use_files(self, operation: str, parameters: Mapping[str, JsonValue]) -> str:
        """What the agent sees; raises _RefusedError."""
        match (operation, parameters):
            case ("list", {**others}) if not others:
                return "\n".join(self._read().files) or "there are no files"
            case ("read", {"path": str(path), **others}) if not others:
                return self._content(_path(path))
            case ("write", {"path": str(path), "text": str(text), **others}) if not others:
                return self._write(_path(path), text)
            case ("delete", {"path": str(path), **others}) if not others:
                self._content_or_none(_path(path))
                delete_file(self.folder(), path)
                return f"{path} is deleted"
        raise _RefusedError("bad_call", f"there is no such call of files with these parameters; {_USAGE}")

    def _content(self, path: str) -> str:
        content = self._content_or_none(path)
        try:
            text = None if content is None else content.decode()
        except UnicodeDecodeError:
            text = None
        if text is None:
            raise _RefusedError("not_shown", f"{path} is no text of at most {MAX_SHOWN} bytes")
        return text or "the file is empty"

    def _content_or_none(self, path: str) -> bytes | None:
        """The file's content, None where it is too long; raises _RefusedError where there is no such file.

        It is looked for without following links: an action must not leave the folder by a program's link.
        """
        if path not in self._paths():
            raise _RefusedError("not_found", f"there is no file {path!r:.200}; files.list lists them")
        return read_file(self.folder(), path, MAX_SHOWN)

    def _paths(self) -> set[str]:
        now = self._read()
        return now.files.keys() | now.left_out.keys()

    def _write(self, path: str, text: str) -> str:
        now = self._read()
        try:
            files = encoded_files({**now.files, path: recordable_text(text)})
        except WorldError as exc:
            raise _RefusedError("bad_path", str(exc)) from exc
        after = Workspace({path: files[path]})
        if path in now.left_out:
            raise _RefusedError("bad_path", f"{path!r:.200} cannot be written: it is {now.left_out[path]}")
        total = sum(map(len, files.values()))
        limits = self._limits
        if len(files) > limits.files or len(files[path]) > limits.file_bytes or total > limits.total_bytes:
            allowed = f"{limits.files} files, {limits.file_bytes} bytes each and {limits.total_bytes} in all"
            raise _RefusedError("too_much", f"a workspace has at most {allowed}")
        write_workspace(self.folder(), after)
        return f"{path} is written"

    def state(self) -> Mapping[str, JsonValue]:
        """``answer`` (None = the task is open), ``exit_code``, ``errors``, ``files`` and ``left_out``."""
        end = self._end
        now = self._read() if self._last is None else self._last
        about: dict[str, JsonValue] = {
            "answer": None if end is None else end.answer,
            "exit_code": None if end is None else end.exit_code,
            "errors": "" if end is None else end.errors,
        }
        return about | now.as_json()

    def snapshot(self) -> object:
        """The files and the end. Raises NotImplementedError where the workspace is over its limits."""
        now = self._read() if self._last is None else self._last
        if now.left_out:
            raise NotImplementedError(f"the workspace has files that are not kept: {', '.join(now.left_out)[:500]}")
        return _Snapshot(now, self._end)

    def restore(self, snapshot: object) -> None:
        """Restores a snapshot of the same task."""
        assert isinstance(snapshot, _Snapshot)
        folder = self.folder()
        empty_folder(folder)
        write_workspace(folder, snapshot.workspace)
        self._end = snapshot.end
        self._last = None if snapshot.end is None else snapshot.workspace

    def close(self) -> None:
        """Removes the folder; the state after the end remains. Does nothing the second time."""
        if self._temporary is not None:
            self._temporary.close()
            self._temporary = None

    def _read(self) -> Workspace:
        assert self._case is not None
        return read_workspace(self.folder(), self._limits, self._case.files)

    def _info(self, **costs: float) -> Info:
        encoded = json.dumps([self._case and self._case.instruction, self.state()], sort_keys=True)
        return Info({}, costs, state_hash=hashlib.blake2b(encoded.encode(), digest_size=8).hexdigest())

    def _refuse(self, code: str, message: str) -> Step:
        return Step(Observation(message, code), 0.0, self._last is not None, False, self._info(error=1.0))


_CALLS = (f"{tool.name}({', '.join(tool.properties)})" for tool in TOOLS)
_USAGE = f"there are: {', '.join(_CALLS)}"


def _path(path: str) -> str:
    try:
        return checked_path(path)
    except WorldError as exc:
        raise _RefusedError("bad_path", str(exc)) from exc
