"""Proofs that an entry is in the audit log, as JSON that is verified without the pool."""

import json
from typing import Any, NamedTuple

from sqlalchemy import Engine

from upturn.errors import RecordError, UnknownNameError
from upturn.pool.audit.entry import Entry
from upturn.pool.audit.log import StoredNodes, find_entries, read_head, tree_of
from upturn.pool.audit.merkle import HASH_BYTES, TreeHead, inclusion_proof, is_included


class Proof(NamedTuple):
    """An entry, the tree that it is in, and the hashes from one to the other (RFC 9162, section 2.1.3)."""

    entry: Entry
    tree: TreeHead
    path: tuple[bytes, ...]

    def holds(self) -> bool:
        """Returns whether the path leads from the entry to the root."""
        return is_included(self.entry.hash(), self.entry.position, self.tree, self.path)

    def to_fields(self) -> dict[str, Any]:
        """Returns the proof as JSON: hashes are hexadecimal."""
        return {
            "entry": self.entry._asdict(),
            "size": self.tree.size,
            "root": self.tree.root.hex(),
            "path": [part.hex() for part in self.path],
        }


def prove(engine: Engine, record_id: str, *, size: int | None = None) -> list[Proof]:
    """Returns the proofs of all entries of a record, in the order of storage.

    ``size``: that of an earlier tree, such as of a checkpoint; None = the whole log. Raises UnknownNameError for a
    record without an entry in that tree.
    """
    with engine.connect() as connection:
        head, nodes = read_head(connection), StoredNodes(connection)
        tree = head.head() if size is None else tree_of(connection, size) or head.head()
        entries = [entry for entry in find_entries(connection, record_id) if entry.position < tree.size]
        proofs = [Proof(entry, tree, tuple(inclusion_proof(entry.position, tree.size, nodes))) for entry in entries]
    if not proofs:
        raise UnknownNameError(
            f"the audit log has no entry of {record_id!r} among its first {tree.size}; check the id"
        )
    return proofs


def read_proof(text: str) -> list[Proof]:
    """Returns the proofs in JSON that ``upturn audit prove --json`` printed, or in one object of ``to_fields``.

    Raises RecordError for anything else.
    """
    try:
        content: Any = json.loads(text)
        items = content.get("proofs", [content])
        proofs = [_proof_of(item) for item in items]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise RecordError(f"no proof of an entry: {exc!r}; `upturn audit prove ID --json` prints one") from exc
    if not proofs:
        raise RecordError("there is no proof in it; `upturn audit prove ID --json` prints one")
    return proofs


def _proof_of(item: Any) -> Proof:
    fields = item["entry"]
    entry = Entry(*(kind(fields[name]) for name, kind in Entry.__annotations__.items()))
    root = bytes.fromhex(item["root"])
    if len(root) != HASH_BYTES:
        raise ValueError(f"root must have {HASH_BYTES} bytes, got {len(root)}")
    return Proof(entry, TreeHead(int(item["size"]), root), tuple(bytes.fromhex(part) for part in item["path"]))
