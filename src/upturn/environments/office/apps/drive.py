"""Reading and writing files of the drive, for all apps with files."""

from dataclasses import replace
from typing import TypeVar

from upturn.environments.office.apps.operation import Effect
from upturn.environments.office.apps.safety import check_right, has_right, sensitivity_costs
from upturn.environments.office.state import Content, File, OperationError, Version, Workspace

ContentT = TypeVar("ContentT", bound=Content)


def file_of(workspace: Workspace, id_: str) -> File:
    """A file that the owner may read and that is not deleted; raises OperationError for others."""
    file = workspace.files.get(id_)
    if file is None or file.is_deleted:
        raise OperationError("not_found", f"no file {id_!r}; sharepoint.search finds ids")
    check_right(workspace, file, "read")
    return file


def open_content(workspace: Workspace, id_: str, kind: type[ContentT], *, noun: str) -> tuple[File, ContentT]:
    """The file and its content; raises OperationError if the content is no ``noun``."""
    file = file_of(workspace, id_)
    if not isinstance(file.content, kind):
        raise OperationError("bad_value", f"{file.name} is no {noun}")
    return file, file.content


def with_new_version(workspace: Workspace, file: File, content: Content) -> Workspace:
    """The workspace with this content in the file and the old one as a version; raises OperationError without the
    right to edit."""
    check_right(workspace, file, "edit")
    before = Version(file.content, file.by, file.at)
    return workspace.with_items(
        replace(file, content=content, by=workspace.owner, at=workspace.now, versions=(*file.versions, before))
    )


def save_content(workspace: Workspace, file: File, content: Content, text: str) -> Effect:
    """The effect of ``with_new_version``, with the costs of opening the file."""
    return Effect(
        with_new_version(workspace, file, content), text, sensitivity_costs(workspace, file.id, file.label)
    )


def readable_files(workspace: Workspace) -> list[File]:
    """All files that the owner may read and that are not deleted, by path."""
    files = [
        file for file in workspace.files.values() if not file.is_deleted and has_right(workspace, file, "read")
    ]
    return sorted(files, key=lambda file: file.path)
