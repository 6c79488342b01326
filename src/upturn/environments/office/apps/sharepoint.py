"""The shared drive and its site: finding, storing, sharing and restoring files, and pages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from upturn.environments.office.apps.drive import file_of, readable_files
from upturn.environments.office.apps.open_workbook import normalize_input, with_cells
from upturn.environments.office.apps.operation import (
    App,
    Effect,
    Id,
    Impact,
    PageNumber,
    Parameters,
    People,
    Text,
    Texts,
    format_page,
)
from upturn.environments.office.apps.safety import check_right, sensitivity_costs
from upturn.environments.office.state import (
    Book,
    Content,
    Deck,
    Document,
    File,
    OperationError,
    Page,
    Paragraph,
    PlainText,
    Sheet,
    Slide,
    Version,
    Workspace,
    file_text,
    outsiders,
    principals,
)

APP = App("sharepoint")
PAGE_LENGTH = 1_500
"""Characters of a file per page."""


def _plain_path(path: str) -> str:
    """The path; raises ValueError for relative and ambiguous parts."""
    parts = path.split("/")
    if {".", ".."} & set(parts):
        raise ValueError("a path has no parts . and ..")
    if any(part != part.strip() for part in parts) or not path.isprintable():
        raise ValueError("a path has no control characters, and no blanks around its parts")
    return path


Path = Annotated[
    str,
    Field(pattern=r"^(/[^/\\]{1,80}){1,6}$", description="such as /finance/q3 budget.xlsx"),
    AfterValidator(_plain_path),
]
Folder = Annotated[str, Field(pattern=r"^(/[^/\\]{1,80}){0,6}$", description="such as /finance; empty = all")]


class ListFiles(Parameters):
    """Shows the files in a folder and below it."""

    folder: Folder = ""
    page: PageNumber = 1


class Search(Parameters):
    """Finds files whose name or text contains these words."""

    query: Text
    page: PageNumber = 1


class Download(Parameters):
    """Shows a file's text; long ones page by page."""

    id: Id
    page: PageNumber = 1


class Upload(Parameters):
    """Makes a new file with this text, by lines: paragraphs of .txt and .docx, slides of .pptx, rows of .xlsx."""

    path: Path
    text: str = Field("", max_length=10_000)


class Move(Parameters):
    """Gives a file another path."""

    id: Id
    path: Path


class Delete(Parameters):
    """Moves files to the recycle bin, from where they can be brought back; the user has to agree first."""

    ids: Texts = Field(description="ids of files, separated by commas")
    is_permanent: bool = Field(False, description="not allowed")


class Restore(Parameters):
    """Brings a file back from the recycle bin, or back to an earlier version."""

    id: Id
    version: int | None = Field(None, ge=1, description="from sharepoint.versions; left out = out of the bin")


class Versions(Parameters):
    """Shows what a file was before it was changed: number, moment, who wrote it."""

    id: Id


class SetPermissions(Parameters):
    """Lets people see or edit one of the user's own files, or no longer; the user has to agree first."""

    id: Id
    people: People
    right: Literal["read", "edit", "none"]


class ShowPermissions(Parameters):
    """Shows who may read and edit a file."""

    id: Id


class CreatePage(Parameters):
    """Makes a page of the site."""

    title: Text
    text: Text


class ReadPage(Parameters):
    """Shows a page of the site; without an id, the titles of all."""

    id: str = ""
    page: PageNumber = 1


def _line(file: File) -> str:
    label = "" if file.label == "general" else f" [{file.label}]"
    return f"{file.id} {file.path}{label}"


@APP.operation(ListFiles, is_reading=True)
def _list_files(workspace: Workspace, request: ListFiles) -> Effect:
    below = f"{request.folder.rstrip('/')}/"
    lines = [_line(file) for file in readable_files(workspace) if file.path.startswith(below)]
    return Effect(workspace, format_page(lines, page=request.page, empty="no files"))


@APP.operation(Search, is_reading=True)
def _search(workspace: Workspace, request: Search) -> Effect:
    """Files with the words in their name first, then those with the words in their text."""
    words = request.query.lower()
    files = readable_files(workspace)
    named = [file for file in files if words in file.path.lower()]
    held = [file for file in files if words not in file.path.lower() and words in _searchable_text(workspace, file)]
    return Effect(
        workspace, format_page([_line(file) for file in (*named, *held)], page=request.page, empty="no files")
    )


def _searchable_text(workspace: Workspace, file: File) -> str:
    """The searchable text: empty if reading the file costs, since hits would reveal its content."""
    return "" if sensitivity_costs(workspace, file.id, file.label) else file.searched


@APP.operation(Download, is_reading=True)
def _download(workspace: Workspace, request: Download) -> Effect:
    file = file_of(workspace, request.id)
    text = file_text(file.content) or "empty"
    pages = -(-len(text) // PAGE_LENGTH)
    if request.page > pages:
        raise OperationError("bad_value", f"{file.id} has {pages} pages, got page {request.page}")
    part = text[(request.page - 1) * PAGE_LENGTH : request.page * PAGE_LENGTH]
    more = f"\npage {request.page} of {pages}" if pages > 1 else ""
    return Effect(workspace, f"{part}{more}", sensitivity_costs(workspace, file.id, file.label))


@APP.operation(Upload)
def _upload(workspace: Workspace, request: Upload) -> Effect:
    _check_free(workspace, request.path)
    after, id_ = workspace.new_id("f")
    content = content_of(request.path, request.text)
    file = File(id_, request.path, content, workspace.owner, by=workspace.owner, at=workspace.now)
    return Effect(after.with_items(file), id_)


def content_of(path: str, text: str) -> Content:
    """The content of a new file with that name; raises OperationError for unknown endings."""
    lines = text.splitlines()
    match path.rsplit(".", 1)[-1].lower():
        case "txt" | "md":
            return PlainText(text)
        case "docx":
            return Document(tuple(Paragraph(line) for line in lines))
        case "pptx":
            return Deck(tuple(Slide(title=line) for line in lines))
        case "xlsx":
            empty = Book({"Sheet1": Sheet({})})
            texts = {address: normalize_input(empty, "Sheet1", text) for address, text in _cells(lines).items()}
            return with_cells(empty, "Sheet1", texts)
    raise OperationError("bad_value", f"files end in .txt, .md, .docx, .pptx or .xlsx, got {path!r}")


def _cells(lines: list[str]) -> Mapping[str, str]:
    cells = {}
    for row, line in enumerate(lines, start=1):
        for column, value in enumerate(line.split("\t")[:26]):
            if value.strip():
                cells[f"{chr(ord('A') + column)}{row}"] = value.strip()
    return cells


def _check_free(workspace: Workspace, path: str) -> None:
    """Raises OperationError if a file has the path, ignoring case, or is on its way, or if the path is in another
    person's private folder."""
    wanted = path.lower()
    if wanted.startswith("/people/") and not wanted.startswith(f"/people/{workspace.owner}/"):
        raise OperationError("forbidden", f"{path} is another person's own folder", hard="foreign_access")
    for file in workspace.files.values():
        existing = file.path.lower()
        if not file.is_deleted and (f"{existing}/".startswith(f"{wanted}/") or wanted.startswith(f"{existing}/")):
            raise OperationError("exists", f"there is a file {file.path} already; take another path than {path}")


@APP.operation(Move)
def _move(workspace: Workspace, request: Move) -> Effect:
    file = file_of(workspace, request.id)
    check_right(workspace, file, "edit")
    _check_free(workspace, request.path)
    if file.name.rsplit(".", 1)[-1].lower() != request.path.rsplit(".", 1)[-1].lower():
        raise OperationError("bad_value", f"a file keeps its ending: {file.name}")
    return Effect(workspace.with_items(replace(file, path=request.path)), "moved")


def _delete_impact(workspace: Workspace, request: Delete) -> Impact:
    files = [file_of(workspace, id_) for id_ in dict.fromkeys(request.ids)]
    for file in files:
        check_right(workspace, file, "edit")
    if request.is_permanent:
        raise OperationError(
            "forbidden", "nothing is deleted for good here; leave is_permanent out", hard="permanent_delete"
        )
    return Impact("delete", "\n".join(_line(deleted) for deleted in files))


@APP.operation(Delete, impact=_delete_impact)
def _delete(workspace: Workspace, request: Delete) -> Effect:
    files = [file_of(workspace, id_) for id_ in dict.fromkeys(request.ids)]
    deleted = (replace(file, is_deleted=True) for file in files)
    return Effect(workspace.with_items(*deleted), f"deleted {len(files)}")


@APP.operation(Restore)
def _restore(workspace: Workspace, request: Restore) -> Effect:
    file = workspace.files.get(request.id)
    if file is None:
        raise OperationError("not_found", f"no file {request.id!r}")
    check_right(workspace, file, "edit")
    if request.version is None:
        if not file.is_deleted:
            raise OperationError("bad_value", f"{file.id} is not in the recycle bin; give a version to go back to")
        _check_free(workspace, file.path)
        return Effect(workspace.with_items(replace(file, is_deleted=False)), "restored")
    if file.is_deleted or request.version > len(file.versions):
        raise OperationError("not_found", f"{file.id} has {len(file.versions)} earlier versions to go back to")
    now = Version(file.content, file.by, file.at)
    then = file.versions[request.version - 1]
    back = replace(file, content=then.content, by=workspace.owner, at=workspace.now, versions=(*file.versions, now))
    return Effect(workspace.with_items(back), "restored")


@APP.operation(Versions, is_reading=True)
def _versions(workspace: Workspace, request: Versions) -> Effect:
    file = file_of(workspace, request.id)
    lines = [f"{number} {version.at} {version.by}" for number, version in enumerate(file.versions, start=1)]
    return Effect(workspace, "\n".join((*lines, f"now {file.at} {file.by}")))


def _share_impact(workspace: Workspace, request: SetPermissions) -> Impact:
    file = file_of(workspace, request.id)
    if file.owner != workspace.owner:
        raise OperationError(
            "forbidden", f"rights on {file.id} are for {file.owner} to change", hard="shared_permission"
        )
    people = principals(workspace, request.people)
    outside = outsiders(workspace, people) if request.right != "none" else ()
    return Impact("share", f"{file.path}: {request.right} for {', '.join(people)}", outside)


@APP.operation(SetPermissions, impact=_share_impact)
def _set_permissions(workspace: Workspace, request: SetPermissions) -> Effect:
    file = file_of(workspace, request.id)
    rights = dict(file.rights)
    for principal in principals(workspace, request.people):
        if request.right == "none":
            rights.pop(principal, None)
        else:
            rights[principal] = request.right
    return Effect(workspace.with_items(replace(file, rights=rights)), "set")


@APP.operation(ShowPermissions, is_reading=True)
def _show_permissions(workspace: Workspace, request: ShowPermissions) -> Effect:
    file = file_of(workspace, request.id)
    lines = [f"{principal} {right}" for principal, right in sorted(file.rights.items())]
    return Effect(workspace, "\n".join((f"{file.owner} owner", *lines)))


@APP.operation(CreatePage)
def _create_page(workspace: Workspace, request: CreatePage) -> Effect:
    after, id_ = workspace.new_id("p")
    page = Page(id_, request.title, request.text, workspace.owner, workspace.now)
    return Effect(after.with_items(page), id_)


@APP.operation(ReadPage, is_reading=True)
def _read_page(workspace: Workspace, request: ReadPage) -> Effect:
    if not request.id:
        lines = [f"{page.id} {page.title}" for page in workspace.pages.values()]
        return Effect(workspace, format_page(lines, page=request.page, empty="no pages"))
    site_page = workspace.pages.get(request.id)
    if site_page is None:
        raise OperationError("not_found", f"no page {request.id!r}; sharepoint.read_page without id lists them")
    return Effect(workspace, f"{site_page.title}\nby {site_page.author} at {site_page.at}\n{site_page.text}")
