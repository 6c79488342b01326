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
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
"""Of ``linux/prctl.h``."""
_POLL_SECONDS = 1.0
"""Between looks at the parent, for a parent whose forks hold the control socket open after its death."""
_ENDING_SECONDS = 5.0
"""After that, processes that cannot be ended (of another user) are left."""
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_SLAVE = 0x20000, 0x1000, 0x4000, 0x80000
"""Of ``linux/sched.h`` and ``linux/mount.h``."""
STAGE = "/sys"
"""Where a sandbox of root has its folders; nothing else reads this path there."""
_RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them, and a program would inherit that."""


def supervise(action: Callable[[], object], control: int, parent: int, passed: Iterable[int] = ()) -> None:
    """Runs ``action`` in a child process; returns when it and all its descendants have ended.

    ``control``: a socket whose other end the caller holds; closing that end ends everything. Written to it at the
    end: ``exit N`` (negative = ended by that signal) or ``error ERRNO``. ``parent``: its death ends everything.
    ``passed``: descriptors that only the action keeps.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child, failure = _start(action, (control, woken, waking))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # the command's pipes close when the command and its children close them
        os.dup2(null, descriptor)
    for descriptor in passed:
        os.close(descriptor)
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


def _start(action: Callable[[], object], own: tuple[int, ...]) -> tuple[int, int]:
    """The child, and a pipe that holds the number of an OSError of ``action``.

    ``own``: descriptors of this process only; an action need not execute another program, which would close them.
    """
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
        for descriptor in (*own, failure):
            os.close(descriptor)
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
    _call("prctl", option, ctypes.c_ulong(value), 0, 0, 0)


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name} failed")


def _stage(paths: list[str]) -> None:
    """Makes each path available as ``STAGE/NUMBER``, in mounts of this process's own.

    A user that may not enter ``/root`` reaches a folder below it there, where the folder itself allows it.
    """
    _call("unshare", _CLONE_NEWNS)
    _call("mount", None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None)
    _call("mount", b"tmpfs", STAGE.encode(), b"tmpfs", ctypes.c_ulong(0), b"mode=755")
    for number, path in enumerate(paths):
        target = Path(STAGE, str(number))
        if Path(path).is_dir():
            target.mkdir()
        else:
            target.touch()
        _call("mount", os.fsencode(path), bytes(target), None, ctypes.c_ulong(_MS_BIND | _MS_REC), None)


def _become(user: int, supervisor: int) -> None:
    """Gives up root for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # the change of user has cleared it
    if os.getppid() != supervisor:
        os._exit(1)


def _initial_environment() -> dict[bytes, bytes]:
    """As given: Python may have added ``LC_CTYPE`` to its own at the start (PEP 538)."""
    pairs = (item.partition(b"=") for item in Path("/proc/self/environ").read_bytes().split(b"\0") if item)
    return {name: value for name, _, value in pairs}


def main() -> None:
    """``supervisor.py CONTROL PARENT PASSED USER COUNT PATHS... COMMAND...``.

    ``CONTROL``: a descriptor; ``PARENT``: a process id; ``PASSED``: descriptors for the command, separated by
    commas; ``USER``: an id, empty = as it is; ``PATHS``: as many as ``COUNT``, to stage for that user.
    """
    control, parent, passed, user, count = sys.argv[1:6]
    paths, command = sys.argv[6 : 6 + int(count)], sys.argv[6 + int(count) :]
    os.set_inheritable(int(control), False)
    environment, supervisor = _initial_environment(), os.getpid()

    def execute() -> None:
        if paths:
            _stage(paths)
        if user:
            _become(int(user), supervisor)
        os.execvpe(command[0], command, environment)

    kept = {int(descriptor) for descriptor in passed.split(",") if descriptor}
    supervise(execute, int(control), int(parent), kept)


if __name__ == "__main__":
    main()
