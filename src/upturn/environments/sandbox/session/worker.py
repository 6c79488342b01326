"""Runs inside a sandbox: forks for each request, and answers with how that process ended. Standard library only.

A request and an answer are JSON behind their length, on the socket that is the first argument. A request has
``input``, ``seconds`` and ``output_limit``, and either ``command`` (a list), or ``code``, Python source that runs
in the fork without starting an interpreter. When it has ended, or its time is over, every other process of the
sandbox is killed: the sandbox has its own process ids, so that no process of the host is meant.

Nothing that it answers is a verdict: a program can end this process, but it only learns what it was sent.
"""

import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

LENGTH_BYTES = 8
_CHUNK = 65_536
_SIGKILL = 9
_ENDING_SECONDS, _PAUSE_SECONDS = 5.0, 0.002
"""For killed processes to end."""


def main() -> None:
    """``worker.py DESCRIPTOR``."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    while (request := _received(channel)) is not None:
        answer = json.dumps(_ran(channel, request)).encode()
        channel.sendall(len(answer).to_bytes(LENGTH_BYTES, "big") + answer)


def _received(channel: socket.socket) -> dict[str, Any] | None:
    """None = the host has closed the channel."""
    head = _exactly(channel, LENGTH_BYTES)
    body = None if head is None else _exactly(channel, int.from_bytes(head, "big"))
    return None if body is None else json.loads(body)


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    parts, missing = [], count
    while missing:
        part = channel.recv(min(missing, _CHUNK))
        if not part:
            return None
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _ran(channel: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
    stdin, feeding = os.pipe()
    output, writing = os.pipe()
    errors, complaining = os.pipe()
    child = os.fork()
    if child == 0:
        for descriptor in (feeding, output, errors):
            os.close(descriptor)
        _become((stdin, writing, complaining), channel, request)
    for descriptor in (stdin, writing, complaining):
        os.close(descriptor)
    ended = os.pidfd_open(child)
    flow = _Flow(feeding, request["input"].encode("utf-8", "surrogatepass"), request["output_limit"])
    is_late = flow.run(ended, (output, errors), time.monotonic() + request["seconds"])
    _kill_others()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    flow.rest((output, errors))
    for descriptor in (ended, output, errors):
        os.close(descriptor)
    texts = [bytes(flow.kept[number]).decode("utf-8", "replace") for number in (output, errors)]
    return {"exit": None if is_late else status, "texts": texts, "is_cut": flow.is_cut}


class _Flow:
    """Feeds the input and keeps the last bytes of each output."""

    def __init__(self, feeding: int, waiting: bytes, limit: int) -> None:
        self._feeding: int | None = feeding
        self._waiting, self._limit = waiting, limit
        self.kept = dict[int, bytearray]()
        self.is_cut = False
        os.set_blocking(feeding, False)

    def run(self, ended: int, outputs: tuple[int, ...], deadline: float) -> bool:
        """Until the process has ended; True = its time was over before."""
        for number in outputs:
            self.kept[number] = bytearray()
            os.set_blocking(number, False)
        self._feed()
        open_outputs = list(outputs)
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return True
            writers = [] if self._feeding is None else [self._feeding]
            readable, writable, _ = select.select([ended, *open_outputs], writers, [], remaining)
            if writable:
                self._feed()
            open_outputs = [number for number in open_outputs if number not in readable or self._keep(number)]
            if ended in readable:
                return False

    def rest(self, outputs: tuple[int, ...]) -> None:
        """What was written and not read; no process is left that could write more."""
        for number in outputs:
            while self._keep(number):
                pass
        if self._feeding is not None:
            os.close(self._feeding)

    def _keep(self, number: int) -> bool:
        """False = there is no more."""
        try:
            part = os.read(number, _CHUNK)
        except BlockingIOError:
            return False
        kept = self.kept[number]
        kept += part
        if len(kept) > self._limit:
            del kept[: len(kept) - self._limit]
            self.is_cut = True
        return bool(part)

    def _feed(self) -> None:
        if self._feeding is None:
            return
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self._feeding, self._waiting) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the program does not read its input
            self._waiting = b""
        os.close(self._feeding)
        self._feeding = None


def _become(standard: tuple[int, ...], channel: socket.socket, request: dict[str, Any]) -> None:
    """Does not return."""
    code = 1
    try:
        os.setsid()
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        channel.close()
        if "command" in request:
            os.execvp(request["command"][0], request["command"])
        code = _evaluated(lambda: exec(compile(request["code"], "<script>", "exec"), {"__name__": "__main__"}))
    except OSError as exc:
        os.write(2, f"the command cannot start: {exc.strerror}\n".encode())
        code = 127
    finally:
        os._exit(code & 0xFF)


def _evaluated(action: Callable[[], object]) -> int:
    try:
        action()
        return 0
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException as exc:  # noqa: BLE001  the end of this process
        sys.excepthook(type(exc), exc, exc.__traceback__)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _kill_others() -> None:
    """All processes of the sandbox but the first one and this one; returns when they have ended."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(-1, _SIGKILL)
        except ProcessLookupError:
            return
        if not any(_is_running(name) for name in os.listdir("/proc")):  # noqa: PTH208
            return
        time.sleep(_PAUSE_SECONDS)


def _is_running(name: str) -> bool:
    if not name.isdecimal() or int(name) in (1, os.getpid()):
        return False
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  pathlib takes time to import
            return file.read().rpartition(b")")[2].split()[0] not in b"ZX"
    except OSError:  # it has ended meanwhile
        return False


if __name__ == "__main__":
    main()
