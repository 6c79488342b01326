"""Sides that compute nothing: what a worker does with them is the test. Their processes import this file."""

import os
import sys
from collections.abc import Mapping

from upturn.bench.side import Channel, Settings, serve_steps


def counting(channel: Channel, settings: Settings) -> None:
    """Answers what it was told, then counts."""
    made = 0

    def step() -> Mapping[str, float]:
        nonlocal made
        made += 1
        return {"seconds": float(made)}

    print("a library talks")  # noqa: T201
    channel.mark_baseline()
    told = {name: os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "MALLOC_MMAP_MAX_", "MALLOC_ARENA_MAX")}
    serve_steps(channel, {"settings": dict(settings), **told}, step)


def holding(channel: Channel, settings: Settings) -> None:
    """Holds as many bytes in its one step as the settings say, and lets them go."""
    size = settings["bytes"]
    assert isinstance(size, int)
    channel.mark_baseline()

    def step() -> Mapping[str, float]:
        block = bytearray(size)
        block[::4096] = b"x" * len(block[::4096])  # touched, or it is not resident
        return {"seconds": 1.0}

    serve_steps(channel, {}, step)


def failing(channel: Channel, settings: Settings) -> None:
    """Raises at once."""
    raise ValueError("these settings are no good")


def dying(channel: Channel, settings: Settings) -> None:
    """Is gone after its preparation, with a word on standard error."""
    channel.answer({})
    channel.is_asked()
    print("out of everything", file=sys.stderr)  # noqa: T201
    sys.stderr.flush()
    os.kill(os.getpid(), 9)
