"""Readers of the file formats of recorded conversations.

A new format is a reader in a module here and an entry in ``READERS``; the importer turns conversations into
records. Start with ``conversation``, which all readers share.
"""

from collections.abc import Callable, Mapping

from upturn.pool.ingestion.formats.chat import read_chat
from upturn.pool.ingestion.formats.conversation import (
    LABEL,
    NAME_RULE,
    TOOL,
    Conversation,
    Defaults,
    Line,
    LineError,
    Lines,
    OpenFile,
    Seen,
    is_name,
)
from upturn.pool.ingestion.formats.json_text import text_lines
from upturn.pool.ingestion.formats.tau_bench import read_tau_bench

READERS: Mapping[str, Callable[[OpenFile, Defaults], Lines]] = {"tau-bench": read_tau_bench, "chat": read_chat}
"""A reader yields every line or row of a file, parsed or with the reason why it is unusable."""

__all__ = [
    "LABEL",
    "NAME_RULE",
    "TOOL",
    "Conversation",
    "Defaults",
    "Line",
    "LineError",
    "Lines",
    "OpenFile",
    "Seen",
    "is_name",
    "text_lines",
]
