"""Temporary folders that vanish: with their owner, with the process, and after ``kill -9`` with the next process.

A process keeps its temporary folders in one folder, which holds a locked file as long as the process lives. The
first temporary folder of a process removes the folders of processes that have ended. Not covered: systems without
``flock``, and a folder whose process was killed, until some process makes one again.
"""

import atexit
import fcntl
import os
import stat
import tempfile
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "upturn-workspaces-"
_LOCK = "lock"
_LOCK_OPEN = "lock.new"
_MAKING = threading.Lock()


class TemporaryFolder:
    """A new, empty folder, removed by ``close``, at the latest when the object or the process ends."""

    path: Path

    def __init__(self) -> None:
        """Raises OSError where no folder can be made."""
        self.path = Path(tempfile.mkdtemp(dir=_process_folder()))
        self._remove = weakref.finalize(self, _remove_own, self.path, os.getpid())

    def close(self) -> None:
        """Removes the folder with everything in it; does nothing the second time."""
        self._remove()


def empty_folder(folder: Path) -> None:
    """Removes everything in the folder, however deep, whatever its permissions; never follows a link.

    Iterative: a program may nest folders deeper than Python recurses. Folders are moved up before they are emptied,
    so that paths stay short.
    """
    folder.chmod(stat.S_IRWXU)
    waiting = [folder]
    number = 0
    while waiting:
        current = waiting.pop()
        for child in list(current.iterdir()):
            if child.is_symlink() or not child.is_dir():
                child.unlink()
                continue
            child.chmod(stat.S_IRWXU)
            target = folder / f".{number}.removed"
            while target.is_symlink() or target.exists():
                number += 1
                target = folder / f".{number}.removed"
            waiting.append(child.rename(target))
            number += 1
        if current != folder:
            current.rmdir()


def _remove_own(folder: Path, pid: int) -> None:
    """Removes the folder, unless a forked process runs this. What cannot be removed now is removed by the next
    process."""
    if pid == os.getpid():
        with suppress(OSError):
            empty_folder(folder)
            folder.rmdir()


@dataclass(slots=True)
class _Root:
    """The folder of this process."""

    path: Path | None = None
    """None = no temporary folder has been made."""
    pid: int = 0


_root = _Root()


def _process_folder() -> Path:
    """The locked folder of this process, made at the first call."""
    with _MAKING:
        if _root.path is None or _root.pid != os.getpid() or not _root.path.is_dir():
            parent = Path(tempfile.gettempdir())
            remove_abandoned(parent)
            _root.path, _root.pid = _make_locked(parent), os.getpid()
        return _root.path


def _make_locked(parent: Path) -> Path:
    """A new folder with a locked file, which gets its final name once it is locked."""
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    # The descriptor stays open, and the file locked, until the process ends.
    descriptor = os.open(path / _LOCK_OPEN, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (path / _LOCK_OPEN).rename(path / _LOCK)
    atexit.register(_remove_own, path, os.getpid())
    return path


def remove_abandoned(parent: Path) -> int:
    """Removes the folders of this user's processes that have ended, and returns how many."""
    count = 0
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            about = path.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
                continue
            descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while the process lives
                for child in path.iterdir():
                    if child.name != _LOCK:
                        empty_folder(child)
                        child.rmdir()
                (path / _LOCK).unlink()  # last, so that an interrupted removal is continued
                path.rmdir()
                count += 1
            finally:
                os.close(descriptor)
    return count
