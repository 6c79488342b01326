"""``upturn env export`` and ``import``: offices as folders of real files, and such folders as offices."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Protocol, runtime_checkable

import typer

from upturn.cli.output import emit, say
from upturn.environments import TaskSelection, oracle_of, play, read_action, resolve_kit
from upturn.environments.office.apps import apply
from upturn.environments.office.files import Host, find_zone, read_folder, write_folder
from upturn.environments.office.state import OperationError, Workspace
from upturn.errors import ConfigError, UnknownNameError
from upturn.records import Result

_Zone = Annotated[
    str | None, typer.Option("--zone", help="Time zone of all moments, such as Europe/Berlin. Default: UTC.")
]


@runtime_checkable
class Furnished(Protocol):
    """An environment whose state is a workspace."""

    @property
    def workspace(self) -> Workspace:
        """As it is now."""
        ...


def export_workspace(  # noqa: PLR0913 - a command's parameters are its options
    name: Annotated[str, typer.Argument(help="An environment that is an office of files, such as the office.")],
    *,
    to: Annotated[Path, typer.Option("--to", help="Folder to write, new or empty.")],
    family: Annotated[str | None, typer.Option(help="Which kind of task. Default: any.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed is another task.")] = 0,
    solved: Annotated[
        bool, typer.Option("--solved", help="As perfect work leaves it, not as the task begins.")
    ] = False,
    zone: _Zone = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Write the office of a task as a folder of .eml, .ics, .xlsx, .docx, .pptx files. Needs the extra files."""
    kit = resolve_kit(name)
    task = next(iter(TaskSelection(family).stream(kit, seed)))
    environment = kit.environment(task)
    environment.reset(task)
    if not isinstance(environment, Furnished):
        raise UnknownNameError(f"{kit.name} is no office of files; the office is one")
    if solved:
        oracle = oracle_of(kit, task)
        if oracle is None:
            raise UnknownNameError(f"{kit.name} knows no perfect work for {task.id!r}; leave --solved out")
        play(environment, task, oracle)
    workspace = environment.workspace
    places, notes = write_folder(workspace, to, zone=find_zone(zone or "UTC"))
    for line in () if as_json else notes:
        say(line)
    details = {
        "task": task.id,
        "instruction": task.instruction,
        "owner": workspace.owner,
        "folder": str(to),
        "notes": list(notes),
    }
    emit(
        "env export",
        [*_counts(workspace), Result("written", float(len(places)), "files")],
        details,
        as_json=as_json,
    )


def import_workspace(  # noqa: PLR0913 - a command's parameters are its options
    folder: Annotated[
        Path, typer.Argument(help="With Mail, Calendar and Files; workspace.json where Upturn wrote it.")
    ],
    *,
    owner: Annotated[
        str | None, typer.Option(help="Address of whoever the files belong to, where there is no workspace.json.")
    ] = None,
    zone: _Zone = None,
    now: Annotated[
        str | None, typer.Option(help="With --owner: the moment, such as '2026-03-02 09:00'. Default: the clock's.")
    ] = None,
    leave_out: Annotated[bool, typer.Option("--leave-out", help="Leave out what cannot be read.")] = False,
    do: Annotated[
        list[str] | None,
        typer.Option("--do", help="A call to make, such as 'excel.open id=f3'; repeat for several."),
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", help="New folder to write the office to afterwards.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Read a folder of real files as an office, all or nothing; make calls in it; write it again. Needs files."""
    imported = read_folder(folder, host=_host(owner, zone, now), leave_out=leave_out)
    workspace, answers = _done(imported.workspace, do or ())
    changed = () if to is None else write_folder(workspace, to, zone=imported.zone).notes
    notes = (*imported.notes, *changed)
    for line in () if as_json else (*notes, *(f"left out: {each}" for each in imported.left_out), *answers):
        say(line)
    details = {
        "owner": workspace.owner,
        "zone": imported.zone.key,
        "notes": list(notes),
        "left_out": list(imported.left_out),
        "answers": answers,
    }
    emit("env import", _counts(workspace), details, as_json=as_json)


def _host(owner: str | None, zone: str | None, now: str | None) -> Host | None:
    if owner is None:
        given = [name for name, value in (("--zone", zone), ("--now", now)) if value is not None]
        if given:
            raise ConfigError([f"{', '.join(given)} without --owner: the folder's workspace.json says it already"])
        return None
    return Host(owner, zone or "UTC", now or datetime.now(find_zone(zone or "UTC")).strftime("%Y-%m-%d %H:%M"))


def _done(workspace: Workspace, calls: Sequence[str]) -> tuple[Workspace, list[str]]:
    """The workspace after these calls, and what each was answered; raises ConfigError for the first refused one."""
    answers = []
    for call in calls:
        action = read_action(call)
        if action is None:
            raise ConfigError([f"--do {call!r} is no call; calls are such as 'excel.open id=f3'"])
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
