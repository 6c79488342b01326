"""Runs a command and ends every process that it leaves behind. A script of its own: standard library only.

Order of work: become the reaper of orphaned descendants (``PR_SET_CHILD_SUBREAPER``), start the command in a
session of its own, wait until it ends or the control socket closes, end all descendants, write how the command
ended to the control socket. An orphan's parent becomes this process, so a daemon (double fork and ``setsid``)
stays a descendant. Where this process is killed, the kernel kills the command (``PR_SET_PDEATHSIG``), but no
daemons of it.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
"""Of ``linux/prctl.h``."""
_POLL_SECONDS = 1.0
"""Between looks at the parent, for a parent whose forks hold the control socket open after its death."""
_ENDING_SECONDS = 5.0
"""After that, processes that cannot be ended (of another user) are left."""
_RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them, and a program would inherit that."""


def supervise(action: Callable[[], object], control: int, parent: int) -> None:
    """Runs ``action`` in a child process; returns when it and all its descendants have ended.

    ``control``: a socket whose other end the caller holds; closing that end ends everything. Written to it at the
    end: ``exit N`` (negative = ended by that signal) or ``error ERRNO``. ``parent``: its death ends everything.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child, failure = _start(action, control)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # the command's pipes close when the command and its children close them
        os.dup2(null, descriptor)
    status = None
    while status is None and os.getppid() == parent:
        ready, _, _ = select.select([woken, control], [], [], _POLL_SECONDS)
        if control in ready:
            break
        if woken in ready:
            os.read(woken, 4096)
        status = _reaped().get(child)
    status = _end_descendants(woken).get(child, status)
    error = os.read(failure, 100)
    said = b"error " + error if error else b"exit %d" % (-signal.SIGKILL if status is None else status)
    with suppress(OSError):  # nobody listens any more
        os.write(control, said)


def _start(action: Callable[[], object], control: int) -> tuple[int, int]:
    """The child, and a pipe that holds the number of an OSError of ``action``."""
    supervisor = os.getpid()
    failure, failing = os.pipe()
    child = os.fork()
    if child:
        os.close(failing)
        return child, failure
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # killed before the line above
            os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for restored in _RESTORED_SIGNALS:
            signal.signal(restored, signal.SIG_DFL)
        os.close(control)
        action()
    except OSError as exc:
        os.write(failing, b"%d" % (exc.errno or 0))
    finally:
        os._exit(1)


def _reaped() -> dict[int, int]:
    """Exit codes of the children that have ended since the last call."""
    ended = dict[int, int]()
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _end_descendants(woken: int) -> dict[int, int]:
    """Ends all; the exit codes of those that were children."""
    ended, deadline = _reaped(), time.monotonic() + _ENDING_SECONDS
    while _has_children() and time.monotonic() < deadline:
        stopped = set[int]()
        while new := _descendants() - stopped:  # a stopped process starts no others
            _signal(new, signal.SIGSTOP)
            stopped |= new
        _signal(stopped, signal.SIGKILL)
        select.select([woken], [], [], 0.05)
        ended |= _reaped()
    return ended


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _descendants() -> set[int]:
    """Processes below this one that have not ended, from ``/proc/*/stat``."""
    children = dict[int, list[int]]()
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):  # it has ended meanwhile
            state, parent = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state not in b"ZX":
                children.setdefault(int(parent), []).append(int(entry.name))
            else:
                children.setdefault(int(parent), [])
    below, waiting = set[int](), [os.getpid()]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            below.add(pid)
            waiting.append(pid)
    return below


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def _initial_environment() -> dict[bytes, bytes]:
    """As given: Python may have added ``LC_CTYPE`` to its own at the start (PEP 538)."""
    pairs = (item.partition(b"=") for item in Path("/proc/self/environ").read_bytes().split(b"\0") if item)
    return {name: value for name, _, value in pairs}


def main() -> None:
    """``supervisor.py CONTROL PARENT COMMAND...``; ``CONTROL``: a descriptor, ``PARENT``: a process id."""
    control, parent, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    os.set_inheritable(control, False)
    environment = _initial_environment()
    supervise(lambda: os.execvpe(command[0], command, environment), control, parent)


if __name__ == "__main__":
    main()
