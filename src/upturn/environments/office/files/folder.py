"""Writes a workspace to a folder of real files and reads it back.

``Mail/<folder>/*.eml``, ``Calendar/*.ics``, ``Files/…`` with the paths of the drive, ``Recycle bin/…``, and
``workspace.json`` with the rest. Writing and reading are all or nothing.
"""

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple
from zoneinfo import ZoneInfo

from upturn.environments.office.files.package import MAX_BYTES
from upturn.environments.office.files.packing import pack
from upturn.environments.office.files.unpacking import Host, Imported, unpack
from upturn.environments.office.state import COMPANY, Workspace
from upturn.errors import FileFormatError

_MAX_FILES = 20_000
_MAX_TOTAL = 2**30
"""Bytes of all files together; they are held in memory."""


class Exported(NamedTuple):
    """The result of an export."""

    places: tuple[str, ...]
    """Paths of all files in the folder."""
    notes: tuple[str, ...]
    """Differences between files and workspace, since a format cannot hold everything."""


def write_folder(workspace: Workspace, folder: Path, *, zone: ZoneInfo, domain: str = COMPANY) -> Exported:
    """Writes the workspace into a new folder.

    ``zone``: the time zone of its moments. ``domain``: of the addresses of the company's people, for an imported
    workspace ``Imported.domain``.

    Raises FileFormatError, without writing anything, for content that cannot be written and a folder that is not
    empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileFormatError(f"{str(folder)!r} is there already; name a folder that is new or empty")
    parts, notes = pack(workspace, zone, domain=domain)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for place, content in parts.items():
            target = draft / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        draft.chmod(0o755)  # temporary folders are readable by their owner only
        draft.replace(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return Exported(tuple(parts), notes)


def read_folder(folder: Path, *, host: Host | None = None, leave_out: bool = False) -> Imported:
    """The workspace in a folder; hidden files are ignored.

    ``host``: the owner of a folder that no export wrote. ``leave_out``: skip files that cannot be read; otherwise
    they raise FileFormatError.
    """
    if not folder.is_dir():
        raise FileFormatError(f"{str(folder)!r} is no folder")
    parts: dict[str, bytes] = {}
    total = 0
    for path in _paths(folder):
        size = path.stat().st_size
        total += min(size, MAX_BYTES)
        if len(parts) >= _MAX_FILES or total > _MAX_TOTAL:
            raise FileFormatError(f"{str(folder)!r} has more than {_MAX_FILES} files or {_MAX_TOTAL} bytes")
        with path.open("rb") as file:
            parts[path.relative_to(folder).as_posix()] = file.read(MAX_BYTES + 1)
    return unpack(parts, host=host, leave_out=leave_out)


def _paths(folder: Path) -> list[Path]:
    """All files in the folder and its subfolders, in order; raises FileFormatError for links."""
    paths = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in (*folders, *sorted(names)):
            path = Path(root, name)
            if path.is_symlink():
                raise FileFormatError(f"{str(path)!r} is a link; only files of the folder itself are read")
            if name in names and not name.startswith("."):
                if not path.is_file():
                    raise FileFormatError(f"{str(path)!r} is no file")
                paths.append(path)
    return paths
