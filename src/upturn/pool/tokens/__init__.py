"""Storage of token rows: packed ids and log-probs, with the prompts as blobs that trajectories share.

``codec`` converts rows to bytes and back and does no I/O; ``blobs`` reads the shared part. The digests
of records are not made here: they stay those of the rows as JSON (``row``). Start with ``codec``.
"""

from upturn.pool.tokens.blobs import load_blobs
from upturn.pool.tokens.codec import (
    PackedRows,
    TokenBlob,
    blob_digest,
    has_only_floats,
    pack_rows,
    pack_text,
    pack_unread,
    references,
    rows_json,
    serializer,
    unpack_rows,
)

__all__ = [
    "PackedRows",
    "TokenBlob",
    "blob_digest",
    "has_only_floats",
    "load_blobs",
    "pack_rows",
    "pack_text",
    "pack_unread",
    "references",
    "rows_json",
    "serializer",
    "unpack_rows",
]
