"""Which format a file has, by its first bytes and the keys of its first object."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from upturn.errors import UnknownNameError
from upturn.pool.ingestion.formats.conversation import LineError, OpenFile
from upturn.pool.ingestion.formats.json_text import json_objects
from upturn.pool.ingestion.formats.outcomes import has_outcomes

AUTO = "auto"
"""In place of a format: it is detected."""

_HEAD = 2**16
_KEY = re.compile(rb'"([A-Za-z_.]+)"\s*:')

_PREFERENCE = {"chosen", "rejected", "preferred_output", "non_preferred_output"}

_SIGNS: Mapping[str, Callable[[frozenset[str]], bool]] = {
    "otlp": lambda keys: bool(keys & {"resourceSpans", "resource_spans"}),
    "tau-bench": lambda keys: "traj" in keys,
    "inspect": lambda keys: {"eval", "samples"} <= keys,
    "verifiers": lambda keys: {"prompt", "completion"} <= keys,
    "openai-evals": lambda keys: (
        {"input", "ideal"} <= keys or {"sample", "results"} <= keys or bool(keys & {"spec", "event_id"})
    ),
    "phoenix": lambda keys: bool(keys & {"context.trace_id"}) or {"context", "span_kind"} <= keys,
    "langfuse": lambda keys: (
        bool(keys & {"traceId", "trace_id"} and keys & {"type", "input"}) or {"observations", "scores"} <= keys
    ),
    "chat": lambda keys: "messages" in keys and not keys & _PREFERENCE,
    "preference": lambda keys: bool(keys & _PREFERENCE) and not keys & {"traj", "completion"},
}
"""Whether an object with these keys is of the format. Another format's sign must not hold as well."""


def detect_format(open_file: OpenFile) -> str:
    """Returns the name of the format; raises OSError, and UnknownNameError where none or several are possible."""
    with open_file() as file:
        head = file.peek(_HEAD)[:_HEAD]  # type: ignore[attr-defined]  # it is buffered
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if start.startswith(b"PK\x03\x04"):
            return "inspect"
        if not start.startswith((b"{", b"[")):
            if head[:1] == b"\n" or head[4:5] == b"\n":
                return "otlp"
            if has_outcomes(file):
                return "outcomes"
            raise _unknown("it is neither JSON nor a CSV table with columns for task, model and score")
        keys = _keys(start, next((text for _, text in json_objects(file)), b""))
    found = [name for name, holds in _SIGNS.items() if holds(keys)]
    if len(found) != 1:
        what = (
            f"it may be {' or '.join(found)}" if found else f"its keys are {', '.join(sorted(keys)[:20]) or 'none'}"
        )
        raise _unknown(what)
    return found[0]


def _keys(head: bytes, text: bytes | LineError) -> frozenset[str]:
    """Returns those of the first object; of one that cannot be parsed, all that its beginning has."""
    try:
        parsed: Any = None if isinstance(text, LineError) else from_json(text)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict):
        return frozenset(parsed)
    return frozenset(name.decode() for name in _KEY.findall(head))


def _unknown(why: str) -> UnknownNameError:
    known = ", ".join((*_SIGNS, "outcomes"))
    return UnknownNameError(
        f"the format of the file cannot be told: {why}; name it with --format: {known}, feedback"
    )
