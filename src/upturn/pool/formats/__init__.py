"""The formats of recorded conversations that can be taken in; one more is a reader and a line in ``READERS``."""

from collections.abc import Callable, Mapping
from pathlib import Path

from upturn.pool.formats.chat import read_chat, text_lines
from upturn.pool.formats.conversation import A_NAME, Conversation, Defaults, Line, LineError, Lines, is_name
from upturn.pool.formats.tau_bench import read_tau_bench

READERS: Mapping[str, Callable[[Path, Defaults], Lines]] = {"tau-bench": read_tau_bench, "chat": read_chat}

"""A reader yields every line or row of a file: parsed, or with the reason why not."""

__all__ = [
    "A_NAME",
    "Conversation",
    "Defaults",
    "Line",
    "LineError",
    "Lines",
    "is_name",
    "read_chat",
    "read_tau_bench",
    "text_lines",
]
