"""``upturn env export`` and ``import``: offices as folders of files, and folders as offices."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Protocol, runtime_checkable

import typer

from upturn.cli.options import AsJson
from upturn.cli.output import emit, print_message
from upturn.environments import TaskSelection, oracle_of, play, read_action, resolve_kit
from upturn.environments.office.apps import apply
from upturn.environments.office.files import Host, find_zone, read_folder, write_folder
from upturn.environments.office.state import OperationError, Workspace
from upturn.errors import ConfigError, UnknownNameError
from upturn.records import Result

_Zone = Annotated[str | None, typer.Option("--zone", help="Time zone, such as Europe/Berlin. Default: UTC.")]


@runtime_checkable
class Furnished(Protocol):
    """An environment whose state is a workspace."""

    @property
    def workspace(self) -> Workspace:
        """The current state."""
        ...


def export_workspace(  # noqa: PLR0913 - a command's parameters are its options
    name: Annotated[str, typer.Argument(help="An environment with a workspace of files, such as the office.")],
    *,
    to: Annotated[Path, typer.Option("--to", help="New or empty folder to write to.")],
    family: Annotated[str | None, typer.Option(help="Task family. Default: any.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the task.")] = 0,
    solved: Annotated[
        bool, typer.Option("--solved", help="Export the state after the oracle's solution, not the initial state.")
    ] = False,
    zone: _Zone = None,
    as_json: AsJson = False,
) -> None:
    """Export a task's office as a folder of .eml, .ics, .xlsx, .docx and .pptx files.

    Requires the extra ``files``.
    """
    kit = resolve_kit(name)
    task = next(iter(TaskSelection(family).stream(kit, seed)))
    environment = kit.environment(task)
    environment.reset(task)
    if not isinstance(environment, Furnished):
        raise UnknownNameError(f"{kit.name} has no workspace of files; the office has one")
    if solved:
        oracle = oracle_of(kit, task)
        if oracle is None:
            raise UnknownNameError(f"{kit.name} has no oracle for {task.id!r}; omit --solved")
        play(environment, task, oracle)
    workspace = environment.workspace
    paths, notes = write_folder(workspace, to, zone=find_zone(zone or "UTC"))
    for line in () if as_json else notes:
        print_message(line)
    details = {
        "task": task.id,
        "instruction": task.instruction,
        "owner": workspace.owner,
        "folder": str(to),
        "notes": list(notes),
    }
    emit(
        "env export", [*_counts(workspace), Result("written", float(len(paths)), "files")], details, as_json=as_json
    )


def import_workspace(  # noqa: PLR0913 - a command's parameters are its options
    folder: Annotated[
        Path, typer.Argument(help="Folder with Mail, Calendar and Files, and workspace.json if Upturn wrote it.")
    ],
    *,
    owner: Annotated[
        str | None, typer.Option(help="Address of the files' owner, if there is no workspace.json.")
    ] = None,
    zone: _Zone = None,
    now: Annotated[
        str | None, typer.Option(help="With --owner: the time, such as '2026-03-02 09:00'. Default: now.")
    ] = None,
    leave_out: Annotated[bool, typer.Option("--leave-out", help="Skip files that cannot be read.")] = False,
    do: Annotated[
        list[str] | None, typer.Option("--do", help="A call to execute, such as 'excel.open id=f3'; repeatable.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", help="New folder to write the office to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Import a folder of files as an office, all or nothing; execute calls in it; write it again.

    Requires the extra ``files``.
    """
    imported = read_folder(folder, host=_host(owner, zone, now), leave_out=leave_out)
    workspace, answers = _execute(imported.workspace, do or ())
    written = () if to is None else write_folder(workspace, to, zone=imported.zone, domain=imported.domain).notes
    notes = (*imported.notes, *written)
    for line in () if as_json else (*notes, *(f"skipped: {path}" for path in imported.left_out), *answers):
        print_message(line)
    details = {
        "owner": workspace.owner,
        "zone": imported.zone.key,
        "domain": imported.domain,
        "notes": list(notes),
        "left_out": list(imported.left_out),
        "answers": answers,
    }
    emit("env import", _counts(workspace), details, as_json=as_json)


def _host(owner: str | None, zone: str | None, now: str | None) -> Host | None:
    if owner is None:
        useless = [name for name, value in (("--zone", zone), ("--now", now)) if value is not None]
        if useless:
            raise ConfigError([f"{', '.join(useless)} without --owner: the folder's workspace.json defines it"])
        return None
    return Host(owner, zone or "UTC", now or datetime.now(find_zone(zone or "UTC")).strftime("%Y-%m-%d %H:%M"))


def _execute(workspace: Workspace, calls: Sequence[str]) -> tuple[Workspace, list[str]]:
    """The workspace after the calls, and their answers; raises ConfigError for the first one that is refused."""
    answers = []
    for call in calls:
        action = read_action(call)
        if action is None:
            raise ConfigError([f"--do {call!r} is not a call such as 'excel.open id=f3'"])
        try:
            effect = apply(workspace, action)
        except OperationError as exc:
            raise ConfigError([f"--do {call!r} was refused as {exc.code}: {exc}; nothing was written"]) from exc
        workspace = effect.workspace
        answers.append(effect.text)
    return workspace, answers


def _counts(workspace: Workspace) -> list[Result]:
    tables = ("mails", "events", "files", "people", "groups", "rules", "pages", "chats", "channels")
    return [Result(name, float(len(getattr(workspace, name)))) for name in tables]
