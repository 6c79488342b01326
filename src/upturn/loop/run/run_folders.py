"""Where runs lie: one folder each under the runs directory."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from upturn.errors import JournalError
from upturn.loop.run.journal import FILE_NAME


def new_run(directory: Path, name: str, *, clock: Callable[[], datetime] | None = None) -> Path:
    """A folder for a new run, ``name-DATE-TIME``, with a counter behind it when that is taken; not created yet."""
    moment = clock() if clock is not None else datetime.now(UTC)
    stem = f"{name}-{moment:%Y%m%d-%H%M%S}"
    folder = directory / stem
    number = 2
    while folder.exists():
        folder = directory / f"{stem}-{number}"
        number += 1
    return folder


def latest_run(directory: Path, name: str) -> Path:
    """The newest run of that name; raises JournalError when there is none."""
    begun = [path.parent for path in directory.glob(f"{name}-*/{FILE_NAME}")]
    # By what follows the name: "dpo-other-…" is no run of "dpo", and the tenth of a second comes after the second.
    found = [(match[1], int(match[2] or 1), each) for each in begun if (match := _moment(name, each.name))]
    if not found:
        raise JournalError(f"no run {name}-* with a {FILE_NAME} under {str(directory)!r}; start one first")
    return max(found)[2]


def _moment(name: str, folder: str) -> re.Match[str] | None:
    """Date and time, and the counter, of a run of that name; None = it is another's."""
    return re.fullmatch(rf"{re.escape(name)}-(\d{{8}}-\d{{6}})(?:-(\d+))?", folder)


def chosen_run(directory: Path, name: str, resume: str | None) -> Path:
    """A new run's folder (None), the newest run's (``latest``), or the folder named; raises JournalError."""
    if resume is None:
        return new_run(directory, name)
    if resume == "latest":
        return latest_run(directory, name)
    if not (Path(resume) / FILE_NAME).is_file():
        raise JournalError(f"{resume!r} holds no run to resume; name a folder under {str(directory)!r} or 'latest'")
    return Path(resume)
