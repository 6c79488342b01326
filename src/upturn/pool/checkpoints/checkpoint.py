"""Checkpoints (https://c2sp.org/tlog-checkpoint): size and root of the audit log, signed, a file each.

A file is named by its size and written whole. Copy the folder, without ``key``, to a place that the administrator
of the pool cannot change: a checkpoint proves everything before it, even if the pool and its log are written anew.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from upturn.errors import StoreError
from upturn.pool.audit import HASH_BYTES, Problem, TreeHead, read_head
from upturn.pool.checkpoints.note import PublicKey, open_signer, signed_body, write_new
from upturn.pool.database import Location, check_head, reading_engine

_FOLDER = "checkpoints"
_KIND = "checkpoint"


class Checkpoint(NamedTuple):
    """A file with a checkpoint."""

    path: Path
    tree: TreeHead | None
    """None = the key has not signed it, or it is damaged."""


def write_checkpoint(location: str | Location, folder: Path) -> TreeHead:
    """Writes a checkpoint of the log as it is; makes the folder and its key if there are none.

    Raises StoreError for a location that is no pool, and for a folder that cannot be written.
    """
    engine = reading_engine(location)
    try:
        check_head(engine)
        with engine.connect() as connection:
            tree = read_head(connection).head()
    finally:
        engine.dispose()
    signer = open_signer(folder)
    path = folder / _FOLDER / f"{tree.size:020}"
    body = f"{signer.public.name}\n{tree.size}\n{base64.b64encode(tree.root).decode()}\n"
    try:
        path.parent.mkdir(exist_ok=True)
        if not path.exists():  # a size has one root; another one must not replace its evidence
            write_new(path, signer.sign(body), mode=0o644)
    except OSError as exc:
        raise StoreError(
            f"no checkpoint can be written to {str(path)!r}: {exc.strerror}; name another folder"
        ) from exc
    return tree


def read_checkpoints(folder: Path, key: PublicKey) -> list[Checkpoint]:
    """Returns the checkpoints in a folder in the order of their sizes; raises StoreError if it cannot be read."""
    try:
        paths = sorted(path for path in (folder / _FOLDER).glob("*") if not path.name.endswith(".part"))
        return [Checkpoint(path, parse_checkpoint(path.read_text("utf-8", "replace"), key)) for path in paths]
    except OSError as exc:
        raise StoreError(f"the checkpoints in {str(folder)!r} cannot be read: {exc.strerror}") from exc


def parse_checkpoint(note: str, key: PublicKey) -> TreeHead | None:
    """Returns what a checkpoint says; None = the key has not signed it, or it is damaged."""
    lines = (signed_body(note, key) or "").split("\n")
    try:
        size, root = int(lines[1]), base64.b64decode(lines[2], validate=True)
    except (IndexError, ValueError):
        return None
    return TreeHead(size, root) if lines[0] == key.name and len(root) == HASH_BYTES and size >= 0 else None


def checkpoint_problems(
    checkpoints: Sequence[Checkpoint], roots: Mapping[int, bytes], size: int
) -> Iterator[Problem]:
    """Compares signed checkpoints with the log of ``size`` entries, whose ``roots`` by size are computed anew."""
    agreed = 0
    """Size of the last checkpoint that agrees with the log."""
    for path, tree in checkpoints:
        if tree is None:
            yield Problem(_KIND, path.name, "is not signed by the key, or was changed")
        elif tree.size > size:
            yield Problem(_KIND, str(tree.size), f"has more entries than the log, {size}: its end was cut off")
        elif roots[tree.size] != tree.root:
            what = f"differs from the log: one of the entries {agreed} to {tree.size - 1} was changed with its hash"
            yield Problem(_KIND, str(tree.size), what)
        else:
            agreed = tree.size
