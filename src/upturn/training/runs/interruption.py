"""Ctrl-C and SIGTERM while a run trains: they end it where nothing is lost.

Outside ``deferred`` a signal raises KeyboardInterrupt at once. Inside, the first one is remembered, and a second
one raises at once. Signals reach the main thread of a process only; in another thread, and where other code handles
a signal, nothing changes."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_Handler = Callable[[int, FrameType | None], None]


@dataclass(slots=True)
class Deferral:
    """Whether Ctrl-C or SIGTERM arrived in a block of ``deferred``."""

    is_asked: bool = False

    def remember(self, _number: int, _frame: FrameType | None) -> None:
        """The handler of a signal: the first one is remembered, another one raises KeyboardInterrupt."""
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True


@contextmanager
def terminable() -> Iterator[None]:
    """In the block SIGTERM acts as Ctrl-C; otherwise it ends the process at once."""
    with _handled(signal.SIGTERM, signal.SIG_DFL, _interrupt):
        yield


@contextmanager
def deferred() -> Iterator[Deferral]:
    """In the block, which lies in one of ``terminable``, Ctrl-C and SIGTERM are remembered.

    The caller raises KeyboardInterrupt after the block if one arrived."""
    deferral = Deferral()
    with (
        _handled(signal.SIGINT, signal.default_int_handler, deferral.remember),
        _handled(signal.SIGTERM, _interrupt, deferral.remember),
    ):
        yield deferral


@contextmanager
def _handled(number: signal.Signals, expected: object, handler: _Handler) -> Iterator[None]:
    """Handles the signal in the block, if its handler was the expected one and this is the main thread."""
    before = signal.getsignal(number)
    if threading.current_thread() is not threading.main_thread() or before != expected:
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Acts as Ctrl-C, also in ``asyncio.run``, which cancels its tasks then."""
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:  # ignored, as in a background job of a shell
        raise KeyboardInterrupt
