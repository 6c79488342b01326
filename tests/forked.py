"""Programs that tests run in several processes. What they import, which takes a second or two, is imported once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LOOP = """
import os, sys
for order in sys.stdin:
    child = os.fork()
    if child == 0:
        print("started", os.getpid(), flush=True)
        run(*order.split())
        sys.stdout.flush()
        os._exit(0)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forked:
    """A process that runs a program in a child of its own, again and again."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._output = process.stdin, process.stdout
        self._child = 0

    def start(self, *arguments: str) -> None:
        """Runs the program in a new child; the one before must have ended. Arguments have no spaces."""
        print(*arguments, file=self._orders, flush=True)
        word, child = self.line().split()
        assert word == "started"
        self._child = int(child)

    def line(self) -> str:
        """Returns the next line of the child's output."""
        line = self._output.readline()
        assert line, "the process has ended; its errors are above"
        return line

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the child, which may have ended."""
        with suppress(ProcessLookupError):
            os.kill(self._child, number)

    def end(self) -> tuple[list[str], int]:
        """Waits for the child's end; returns the rest of its lines, and its exit code or minus the signal."""
        lines = []
        while not (line := self.line()).startswith("ended "):
            lines.append(line)
        return lines, int(line.split()[1])


@contextmanager
def forked(program: str) -> Iterator[Forked]:
    """Runs a program that defines a function ``run``; what it does beside that is done once."""
    command = [sys.executable, "-c", program + _LOOP]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Forked(process)
        finally:
            process.kill()
