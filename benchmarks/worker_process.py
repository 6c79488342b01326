"""One side of a comparison, in a process of its own: ``python -m benchmarks.worker_process module:function``.

It gets its settings as the first line of standard input, prepares, answers with what it found, and then makes one
step for each further line, until there is none. Answers are JSON lines on standard output; whatever libraries print
goes to standard error. An exception is the last answer.
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
Answer: TypeAlias = Mapping[str, JsonValue]


class Channel:
    """The side's end of the conversation; counts memory from the moment that ``mark_baseline`` was called."""

    def __init__(self, incoming: TextIO, outgoing: TextIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._baseline: int | None = None
        self._device = "cpu"

    def settings(self) -> Settings:
        """The first line."""
        found: Settings = json.loads(self._incoming.readline())
        return found

    def mark_baseline(self, device: str = "cpu") -> None:
        """What this device holds now (libraries, model, rollouts) is no memory of the steps that follow."""
        self._device = device
        reset_peak(device)
        self._baseline = resident_bytes(device)

    def is_asked(self) -> bool:
        """Waits; True = one more step, False = the other end wants no more. Peak memory is counted from here."""
        if not self._incoming.readline():
            return False
        reset_peak(self._device)
        return True

    def answer(self, found: Answer) -> None:
        """Says what a step, or the preparation, came to; peak memory goes along once a baseline was marked."""
        peak = None if self._baseline is None else peak_bytes(self._device) - self._baseline
        self._send({**found, "peak_bytes": peak})

    def fail(self, exc: BaseException) -> None:
        """Says that there is nothing more to come, and why."""
        self._send({"error": f"{type(exc).__name__}: {exc}", "trace": traceback.format_exc()})

    def _send(self, found: Answer) -> None:
        self._outgoing.write(json.dumps(found) + "\n")
        self._outgoing.flush()


Side: TypeAlias = Callable[[Channel, Settings], None]
"""Prepares, answers, and serves steps until ``is_asked`` says no."""


def serve_steps(channel: Channel, prepared: Answer, step: Callable[[], Answer]) -> None:
    """The conversation of a side whose steps can be called one by one."""
    channel.answer(prepared)
    while channel.is_asked():
        channel.answer(step())


def find_side(path: str) -> Side:
    """The function at ``module:function``."""
    module, _, name = path.partition(":")
    found: Side = getattr(importlib.import_module(module), name)
    return found


def main() -> None:
    """Runs the side that the command line names."""
    # What libraries print must not stand between the answers.
    outgoing = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    channel = Channel(sys.stdin, outgoing)
    try:
        find_side(sys.argv[1])(channel, channel.settings())
    except Exception as exc:
        channel.fail(exc)
        raise SystemExit(1) from exc


if __name__ == "__main__":
    main()
