"""The file that a command writes, complete or not at all."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO

import typer

from upturn.pool import (
    POOL_ENDINGS,
    Location,
    location_of,
)


@contextmanager
def open_output(path: Path | None, pool: str) -> Iterator[TextIO]:
    """The file to write to, which appears when the block ends without error; None = standard output.

    Raises BadParameter for a file that cannot be written, or that belongs to the pool.
    """
    if path is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # of records, for any terminal
        yield sys.stdout
        return
    with open_bytes(path, pool) as file:
        text = TextIOWrapper(file, encoding="utf-8")
        try:
            yield text
        finally:
            text.detach()  # flushes, and leaves closing to the other block


@contextmanager
def open_bytes(path: Path, pool: str) -> Iterator[BinaryIO]:
    """The file to write bytes to, as ``open_output``."""
    path = Path(os.path.realpath(path))  # unlike Path.resolve, it accepts circular links
    if path in _pool_files(location_of(pool)):
        raise typer.BadParameter(f"--out {str(path)!r} belongs to the pool and would destroy it; name another file")
    # An existing file stays until the new one is complete; devices and pipes are written directly.
    is_replaced = not path.exists() or path.is_file()
    target = path.with_name(f"{path.name}.{os.getpid()}.part") if is_replaced else path
    try:
        file = target.open("wb")
    except OSError as exc:
        raise typer.BadParameter(f"--out {str(path)!r} cannot be written: {exc.strerror}") from exc
    try:
        with file:
            yield file
        if is_replaced:
            target.replace(path)
    except OSError as exc:
        exc.filename = exc.filename or str(path)  # missing for a full disk
        raise
    finally:
        if is_replaced:
            target.unlink(missing_ok=True)


def _pool_files(location: Location) -> set[Path]:
    if not isinstance(location, Path):
        return set()
    return {
        file.with_name(file.name + ending)
        for file in (location.absolute(), Path(os.path.realpath(location)))
        for ending in ("", *POOL_ENDINGS)
    }
