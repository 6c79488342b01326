"""What a sandbox may read of the host: the system, the interpreter and its packages.

Pure but for looking at which paths exist.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM_FILES = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types"),
    *("ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted", "ca-certificates"),
)
"""Of ``/etc``. Nothing there says which users, machines or secrets the host has."""
_KEPT = ("/usr", "/etc", "/var", "/home", "/dev", "/proc")
_PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Mounts:
    """Host paths that a sandbox shows at the same paths."""

    readable: tuple[Path, ...]
    """Read-only, outside the workspace; none lies in another."""
    protected: tuple[Path, ...]
    """Read-only, in the workspace, which is writable otherwise."""
    links: Mapping[str, str]
    """Symbolic links to make: path to target, such as ``/bin`` to ``usr/bin``."""


def mounts_for(
    workspace: Path, command: Sequence[str], environment: Mapping[str, str], extra: Iterable[Path]
) -> Mounts:
    """The system, this interpreter and its packages, the command's own environment, and ``extra``."""
    links, folders = dict[str, str](), [Path("/usr")]
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            links[str(path)] = str(path.readlink())
        elif path.is_dir():
            folders.append(path)
    folders += [Path("/etc", name) for name in _SYSTEM_FILES]
    folders += [Path(sys.prefix), Path(sys.base_prefix)]
    folders += [Path(path) for path in sys.path if Path(path).name in _PACKAGES]
    folders += _environment_of(command, environment)
    wanted = [path.resolve() for path in extra]
    outside = [path for path in (*folders, *wanted) if path.exists() and not path.is_relative_to(workspace)]
    protected = (path for path in wanted if path.exists() and path.is_relative_to(workspace))
    return Mounts(tuple(_outermost(outside)), tuple(_outermost(protected)), links)


def holds_more(workspace: Path) -> Path | None:
    """What a program must not be given with the workspace: this process's folder, home, interpreter or the system.

    None = the workspace holds nothing of these.
    """
    kept = (Path.cwd(), Path.home(), *map(Path, (sys.prefix, sys.base_prefix, tempfile.gettempdir(), *_KEPT)))
    return next((path for path in kept if path.resolve().is_relative_to(workspace)), None)


def _environment_of(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """The prefix of a virtual environment, and of the Python that it was made from, where the command is in one."""
    place = shutil.which(command[0], path=environment.get("PATH", os.defpath)) if command else None
    if place is None:
        return
    prefix = Path(place).absolute().parent.parent
    config = prefix / "pyvenv.cfg"
    if not config.is_file():
        return
    yield prefix
    for line in config.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            yield Path(value.strip()).parent


def _outermost(paths: Iterable[Path]) -> Iterator[Path]:
    kept = list[Path]()
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
            yield path
