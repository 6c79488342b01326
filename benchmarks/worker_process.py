"""The process of one implementation: ``python -m benchmarks.worker_process module:function``.

The first line of standard input holds the settings as JSON. The function prepares, sends what it prepared, and then
makes one step for each further line until the input ends. Responses are JSON lines on standard output; the output
of libraries goes to standard error. An exception is the last response.
"""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import TextIO, TypeAlias

from benchmarks.machine import peak_bytes, reset_peak, resident_bytes
from upturn.records import JsonValue

Settings: TypeAlias = Mapping[str, JsonValue]
Values: TypeAlias = Mapping[str, JsonValue]


class Channel:
    """The worker's end of the connection. Measures peak memory relative to ``mark_baseline``."""

    def __init__(self, incoming: TextIO, outgoing: TextIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._baseline: int | None = None
        self._device = "cpu"

    def read_settings(self) -> Settings:
        """Settings of the first line."""
        settings: Settings = json.loads(self._incoming.readline())
        return settings

    def mark_baseline(self, device: str = "cpu") -> None:
        """Excludes what the device holds now (libraries, model, rollouts) from the memory of later steps."""
        self._device = device
        reset_peak(device)
        self._baseline = resident_bytes(device)

    def wait_for_step(self) -> bool:
        """Waits for the next request; False = no more steps. Peak memory is counted from here."""
        if not self._incoming.readline():
            return False
        reset_peak(self._device)
        return True

    def send(self, values: Values) -> None:
        """Sends the result of a step or of the preparation, with peak memory (None before ``mark_baseline``)."""
        peak = None if self._baseline is None else peak_bytes(self._device) - self._baseline
        self._write({**values, "peak_bytes": peak})

    def send_error(self, exc: BaseException) -> None:
        """Sends an exception with its trace."""
        self._write({"error": f"{type(exc).__name__}: {exc}", "trace": traceback.format_exc()})

    def _write(self, values: Values) -> None:
        self._outgoing.write(json.dumps(values) + "\n")
        self._outgoing.flush()


Implementation: TypeAlias = Callable[[Channel, Settings], None]
"""Prepares, sends, and serves steps until ``wait_for_step`` returns False."""


def serve_steps(channel: Channel, prepared: Values, step: Callable[[], Values]) -> None:
    """Serves an implementation whose steps can be called one by one."""
    channel.send(prepared)
    while channel.wait_for_step():
        channel.send(step())


def main() -> None:
    """Runs the implementation that the command line names."""
    # The output of libraries must not mix with the responses.
    outgoing = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    channel = Channel(sys.stdin, outgoing)
    module, _, name = sys.argv[1].partition(":")
    try:
        implementation: Implementation = getattr(importlib.import_module(module), name)
        implementation(channel, channel.read_settings())
    except Exception as exc:
        channel.send_error(exc)
        raise SystemExit(1) from exc


if __name__ == "__main__":
    main()
