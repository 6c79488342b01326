"""Logs of trajectories for viewers and tracing tools, by name.

A new one is a module here and an entry in ``LOGS``. Unlike formats of training, a log has the trajectories of all
splits and verdicts. Start with ``inspect``.
"""

from collections.abc import Callable, Mapping
from typing import BinaryIO, NamedTuple

from upturn.pool.exports.logs.inspect import write_inspect
from upturn.pool.exports.logs.otlp import write_otlp
from upturn.pool.exports.source import ChatSource


class LogFormat(NamedTuple):
    """A log that other programs open."""

    summary: str
    ending: str
    """Of its file's name; other programs recognise it by this."""
    write: Callable[[ChatSource, BinaryIO, float, Callable[[], object]], int]
    """Writes the source's trajectories and returns their number; it takes the time (UTC, seconds since 1970), and
    a function that is called for each trajectory."""


LOGS: Mapping[str, LogFormat] = {
    "inspect": LogFormat("Inspect's evaluation log", ".eval", write_inspect),
    "otlp": LogFormat("OpenTelemetry's JSON with the GenAI conventions", ".jsonl", write_otlp),
}
"""By the name that ``upturn pool export --as`` takes."""

__all__ = ["LOGS", "LogFormat"]
