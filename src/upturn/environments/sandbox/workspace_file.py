"""Files of a workspace, read and written by the host while nobody trusts what lies there.

Every part of a path is opened below the one before, and symbolic links are refused: one that a program made could
lead to any file of the host. So are pipes and devices, which could block or answer for ever.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

_CLOSED = os.O_NOFOLLOW | os.O_CLOEXEC
_LARGEST = 2**30
"""Bytes of a file that are read: a sparse file may claim any size."""


def read_workspace_file(workspace: Path, path: str) -> bytes:
    """Raises OSError."""
    with open_parent(workspace, path, is_made=False) as (folder, name):
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _CLOSED, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        _check_regular(descriptor, path)
        if os.fstat(descriptor).st_size > _LARGEST:
            raise OSError(f"{path!r} has more than {_LARGEST:,} bytes")
        return file.read(_LARGEST)


def write_workspace_file(workspace: Path, path: str, contents: bytes) -> None:
    """A new file belongs to the owner of the workspace. Raises OSError."""
    owner = workspace.stat()
    with open_parent(workspace, path, is_made=True) as (folder, name):
        flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | _CLOSED
        descriptor = os.open(name, flags, 0o644, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        _check_regular(descriptor, path)
        os.ftruncate(descriptor, 0)
        if os.getuid() == 0:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        file.write(contents)


@contextmanager
def open_parent(workspace: Path, path: str, *, is_made: bool) -> Iterator[tuple[int, str]]:
    """The open folder that holds the path, and the path's last name."""
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or PurePosixPath(path).is_absolute():
        raise PermissionError(f"{path!r} must be a path within the workspace: relative and without '..'")
    flags = os.O_RDONLY | os.O_DIRECTORY | _CLOSED
    folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    owner = os.fstat(folder)
    try:
        for part in parts[:-1]:
            try:
                below = os.open(part, flags, dir_fd=folder)
            except FileNotFoundError:
                if not is_made:
                    raise
                os.mkdir(part, 0o755, dir_fd=folder)
                below = os.open(part, flags, dir_fd=folder)
                if os.getuid() == 0:
                    os.fchown(below, owner.st_uid, owner.st_gid)
            os.close(folder)
            folder = below
        yield folder, parts[-1]
    finally:
        os.close(folder)


def _check_regular(descriptor: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise PermissionError(f"{path!r} is no regular file")
