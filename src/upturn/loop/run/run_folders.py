"""Folders of runs, one for each run, under the runs directory."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from upturn.errors import JournalError
from upturn.loop.run.journal import FILE_NAME


def new_run(directory: Path, name: str, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Path:
    """A folder for a new run, ``name-DATE-TIME``, with a number appended if it exists; not created yet."""
    stem = f"{name}-{clock():%Y%m%d-%H%M%S}"
    folder, number = directory / stem, 2
    while folder.exists():
        folder, number = directory / f"{stem}-{number}", number + 1
    return folder


def latest_run(directory: Path, name: str) -> Path:
    """The newest run of that name; raises JournalError when there is none."""
    # Exactly this name ("dpo-other-…" is not a run of "dpo"), with numbers compared as numbers.
    pattern = re.compile(rf"{re.escape(name)}-(\d{{8}}-\d{{6}})(?:-(\d+))?")
    folders = [path.parent for path in directory.glob(f"{name}-*/{FILE_NAME}")]
    runs = [(m[1], int(m[2] or 1), folder) for folder in folders if (m := pattern.fullmatch(folder.name))]
    if not runs:
        raise JournalError(f"no run {name}-* with a {FILE_NAME} under {str(directory)!r}; start one first")
    return max(runs)[2]


def choose_run(directory: Path, name: str, resume: str | None) -> Path:
    """A new run's folder (None), the newest run's (``latest``), or the named folder; raises JournalError."""
    if resume is None:
        return new_run(directory, name)
    if resume == "latest":
        return latest_run(directory, name)
    if not (Path(resume) / FILE_NAME).is_file():
        raise JournalError(f"{resume!r} holds no run to resume; name a folder under {str(directory)!r} or 'latest'")
    return Path(resume)
