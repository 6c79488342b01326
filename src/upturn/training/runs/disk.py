"""Durable files: written under another name, synced, and renamed, so that a reader sees all of a file or none."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

PARTIAL = ".partial"
"""Ends the name of what is being written or deleted; such files of a killed process may be deleted."""


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns errors of the operating system while ``path`` is written into OSErrors with its name, and deletes it.

    safetensors has such errors, for example of a full disk, as text with their number.
    """
    try:
        yield
    except (OSError, SafetensorError) as exc:
        remove(path)
        number = re.search(r"\(os error (\d+)\)", str(exc))
        if isinstance(exc, OSError) or number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from exc


def sync(path: Path) -> None:
    """Makes a file's content, or a folder's entries, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Deletes a file or a folder, if it is there; what cannot be deleted stays."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Deletes what a killed process left half-written in ``folder``; not in its subfolders."""
    for path in folder.glob(f"*{PARTIAL}"):
        remove(path)
