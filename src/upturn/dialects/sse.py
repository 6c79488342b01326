"""Server-sent events (WHATWG HTML, section 9.2): incremental parsing and writing."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from upturn.errors import ModelError
from upturn.records import JsonValue

MAX_EVENT_BYTES = 8 << 20
"""Longest event that is accepted; an upstream that never ends one would otherwise fill the memory."""


class ServerEvent(NamedTuple):
    """One event."""

    name: str
    """Empty = unnamed."""
    data: str


class EventParser:
    """Splits a stream of bytes into events; bytes may be cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, content: bytes) -> Iterator[ServerEvent]:
        """The events that these bytes complete. Raises ModelError for an event above MAX_EVENT_BYTES.

        Comments, ids and retry times are dropped.
        """
        # A lone CR at the end may be the first half of CR LF.
        lines = (self._rest + content).replace(b"\r\n", b"\n")
        if lines.endswith(b"\r"):
            lines, kept = lines[:-1], b"\r"
        else:
            kept = b""
        *complete, last = lines.replace(b"\r", b"\n").split(b"\n")
        self._rest = last + kept
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise ModelError(f"a stream holds an event of more than {MAX_EVENT_BYTES:,} bytes; it is dropped")
        for line in complete:
            if not line:
                if self._data:
                    yield ServerEvent(self._name, "\n".join(self._data))
                self._name, self._data, self._size = "", [], 0
                continue
            self._read(line)

    def _read(self, line: bytes) -> None:
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(line)
        elif field == "event":
            self._name = value


def write_event(data: Mapping[str, JsonValue] | str, name: str = "") -> bytes:
    """An event with this JSON object or text as its data."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode("utf-8", "replace")
