"""The files of a workspace: written into a folder, read back within limits, and stored as JSON.

Order of reading: the files that the task began with, then the others by depth and name. Links are never followed,
also not on the way to a file, and nothing but regular files is opened. What is left out is named with the reason.
"""

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from upturn.environments.sandbox import open_parent
from upturn.errors import WorldError
from upturn.records import JsonValue, record

MAX_DEPTH = 20
"""Folders inside each other: deeper ones are left out."""
_MAX_ENTRIES = 20_000
"""Files and folders looked at."""
_MAX_NAMED = 50
"""Names of what was left out; further ones are counted."""
_MAX_HASHED = 2**24
"""Bytes of a file that is hashed where it is left out."""
_MORE = "…"
"""The entry of ``left_out`` that counts what is not named."""


@record
class WorkspaceLimits:
    """What is stored of a workspace with its trajectory."""

    files: int = 100
    file_bytes: int = 100_000
    total_bytes: int = 500_000
    ignored: tuple[str, ...] = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".git")
    """Names of files and folders that are neither stored nor named."""


@record
class Workspace:
    """The files of a folder at one time."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """By path with ``/``."""
    executable: tuple[str, ...] = ()
    """Those of them that may be executed, sorted."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why the file at the path is not in ``files``."""

    def as_json(self) -> dict[str, JsonValue]:
        """``files``: by path ``{"text": …}``, or ``{"base64": …}`` where it is no text; and ``left_out``."""
        files: dict[str, JsonValue] = {}
        for path, content in self.files.items():
            stored: dict[str, JsonValue] = dict([_as_text(content)])
            files[path] = {**stored, "is_executable": True} if path in self.executable else stored
        return {"files": files, "left_out": dict(self.left_out)}

    @classmethod
    def from_json(cls, stored: Mapping[str, JsonValue]) -> "Workspace":
        """Reads what ``as_json`` gives; raises WorldError for anything else."""
        entries, left_out = stored.get("files"), stored.get("left_out")
        if not isinstance(entries, dict) or not isinstance(left_out, dict):
            raise WorldError("the state holds no workspace: it needs the objects 'files' and 'left_out'")
        files, executable = {}, []
        for path, entry in entries.items():
            match entry:
                case {"text": str(text)}:
                    files[checked_path(path)] = text.encode()
                case {"base64": str(text)}:
                    try:
                        files[checked_path(path)] = base64.b64decode(text, validate=True)
                    except binascii.Error as exc:
                        raise WorldError(f"the stored file {path!r} is no base64: {exc}") from exc
                case _:
                    raise WorldError(f"the stored file {path!r} needs 'text' or 'base64', got {entry!r:.200}")
            if isinstance(entry, dict) and entry.get("is_executable") is True:
                executable.append(path)
        return cls(files, tuple(sorted(executable)), {path: str(reason) for path, reason in left_out.items()})


def _as_text(content: bytes) -> tuple[str, str]:
    """``text`` or ``base64`` with the content: not all stores can hold a zero character."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "base64", base64.b64encode(content).decode()
    return ("base64", base64.b64encode(content).decode()) if "\0" in text else ("text", text)


def checked_path(path: object) -> str:
    """The path, relative to the workspace; raises WorldError for one that leaves it or is not in normal form."""
    if isinstance(path, str) and path and "\0" not in path and path.isprintable():
        parts = PurePosixPath(path).parts
        if "/".join(parts) == path and ".." not in parts and not path.startswith("/") and len(parts) <= MAX_DEPTH:
            return path
    raise WorldError(
        f"a path in a workspace must be relative, without '..', such as 'src/main.py', got {path!r:.200}"
    )


def encoded_files(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """The files with checked paths and as bytes; raises WorldError for others."""
    encoded = {}
    for path, content in files.items():
        if not isinstance(content, str | bytes):
            raise WorldError(f"the file {path!r} of a workspace must be str or bytes, got {type(content).__name__}")
        encoded[checked_path(path)] = content if isinstance(content, bytes) else content.encode()
    folders = {parent.as_posix() for path in encoded for parent in PurePosixPath(path).parents}
    if clash := sorted(folders & encoded.keys()):
        raise WorldError(f"{clash[0]!r} is a file and a folder of the same workspace")
    return encoded


def write_workspace(folder: Path, workspace: Workspace) -> None:
    """Writes the files into the folder, without following a link; raises OSError where that is impossible."""
    for path, content in workspace.files.items():
        with open_parent(folder, path, is_made=True) as (parent, name):
            with suppress(FileNotFoundError):  # a new file, so that another name of the old one does not change
                os.unlink(name, dir_fd=parent)
            mode = 0o755 if path in workspace.executable else 0o644
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, mode, dir_fd=parent), "wb") as file:
                file.write(content)


def delete_file(folder: Path, path: str) -> None:
    """Deletes what lies at the checked path, without following a link; raises OSError where that is impossible."""
    with open_parent(folder, path, is_made=False) as (parent, name):
        os.unlink(name, dir_fd=parent)


class _Entry(NamedTuple):
    """Something found in the folder."""

    parts: tuple[str, ...]
    reason: str
    """Why it cannot be stored; empty = it is a regular file."""
    size: int = 0
    mode: int = 0

    @property
    def path(self) -> str:
        return "/".join(self.parts)


def read_workspace(folder: Path, limits: WorkspaceLimits, first: Iterable[str] = ()) -> Workspace:
    """The files of the folder within the limits; those at the paths ``first`` come first.

    A folder that is gone has no files.
    """
    files: dict[str, bytes] = {}
    executable: list[str] = []
    left_out = _LeftOut()
    preferred = set(first)
    total = 0
    entries = sorted(
        _walk(folder, limits.ignored),
        key=lambda entry: (entry.path not in preferred, len(entry.parts), entry.parts),
    )
    for entry in entries:
        reason = entry.reason or _over(limits, entry.size, len(files), total)
        if reason:
            left_out.add(entry.path, reason if entry.reason else f"{reason}{_digest(folder, entry)}")
            continue
        content = read_file(folder, entry.path, limits.file_bytes)
        if content is None:
            left_out.add(entry.path, "it cannot be read")
            continue
        files[entry.path] = content
        total += len(content)
        if entry.mode & stat.S_IXUSR:
            executable.append(entry.path)
    return Workspace(dict(sorted(files.items())), tuple(sorted(executable)), left_out.named())


def _over(limits: WorkspaceLimits, size: int, files: int, total: int) -> str:
    """The limit that a further file of this size exceeds; empty = none."""
    if size > limits.file_bytes:
        return f"{size} bytes, over {limits.file_bytes}"
    if files >= limits.files:
        return f"{size} bytes, after {limits.files} files"
    return f"{size} bytes, over {limits.total_bytes} in all" if total + size > limits.total_bytes else ""


class _LeftOut:
    """What was left out: the first names, and the number of the others."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}
        self._more = 0

    def add(self, path: str, reason: str) -> None:
        if len(self._named) < _MAX_NAMED:
            self._named[path.encode("utf-8", "backslashreplace").decode()[:1_000]] = reason
        else:
            self._more += 1

    def named(self) -> dict[str, str]:
        return self._named | ({_MORE: f"{self._more} more"} if self._more else {})


def _walk(folder: Path, ignored: Iterable[str]) -> Iterator[_Entry]:
    """Everything in the folder but folders."""
    skipped, seen = frozenset(ignored), 0
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        parts = waiting.pop()
        listed = _stats(folder, parts)
        if listed is None:
            yield from [_Entry(parts, "a folder that cannot be read")] if parts else []
            continue
        for name, about in listed:
            seen += 1
            inner = (*parts, name)
            if seen > _MAX_ENTRIES:
                yield _Entry((_MORE,), f"only {_MAX_ENTRIES} files and folders are looked at")
                return
            if name in skipped:
                continue
            if not stat.S_ISDIR(about.st_mode):
                yield _Entry(inner, _refusal(about.st_mode, inner), about.st_size, about.st_mode)
            elif len(inner) < MAX_DEPTH:
                waiting.append(inner)
            else:
                yield _Entry(inner, f"a folder below {MAX_DEPTH - 1} others")


def _stats(folder: Path, parts: tuple[str, ...]) -> list[tuple[str, os.stat_result]] | None:
    """Names and kinds of what is in the folder at the path; None where it cannot be read."""
    try:
        with open_parent(folder, "/".join((*parts, "any")), is_made=False) as (inside, _):
            names = sorted(os.listdir(inside))  # noqa: PTH208  # pathlib lists no descriptors
            return [
                (name, os.stat(name, dir_fd=inside, follow_symlinks=False)) for name in names[: _MAX_ENTRIES + 1]
            ]
    except OSError:
        return None


def _refusal(mode: int, parts: tuple[str, ...]) -> str:
    """Why this is not stored whatever its size; empty = it is a regular file with a path that can be written."""
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if not stat.S_ISREG(mode):
        return "no regular file"
    try:
        checked_path("/".join(parts))
    except WorldError:
        return "its name has characters that are not stored"
    return ""


def _digest(folder: Path, entry: _Entry) -> str:
    """``; sha256 …`` for a file that is not too large to hash."""
    content = read_file(folder, entry.path, _MAX_HASHED) if entry.size <= _MAX_HASHED else None
    return "" if content is None else f"; sha256 {hashlib.sha256(content).hexdigest()}"


def read_file(folder: Path, path: str, most: int) -> bytes | None:
    """The content of a regular file of at most ``most`` bytes; None where there is none.

    ``path`` is a checked path. No link on it is followed, and a pipe is not waited for.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with (
            open_parent(folder, path, is_made=False) as (parent, name),
            os.fdopen(os.open(name, flags, dir_fd=parent), "rb") as file,
        ):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            content = file.read(most + 1)
    except OSError:
        return None
    return content if len(content) <= most else None
