"""Runs a command and ends every process that it leaves behind. A script of its own: standard library only.

Order of work: become the reaper of orphaned descendants (``PR_SET_CHILD_SUBREAPER``), start the command in a
session of its own, wait until it ends or the control socket closes, end all descendants, write how the command
ended to the control socket. An orphan's parent becomes this process, so a daemon (double fork and ``setsid``)
stays a descendant. Where this process is killed, the kernel kills the command (``PR_SET_PDEATHSIG``), but no
daemons of it.

It starts for every command, so it imports only what takes no time: ``pathlib``, ``contextlib``, ``signal`` and
``subprocess`` would take longer than everything that it does.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
"""Of ``linux/prctl.h``."""
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_SLAVE = 0x20000, 0x1000, 0x4000, 0x80000
"""Of ``linux/sched.h`` and ``linux/mount.h``."""
_SIGKILL, _SIGPIPE, _SIGCHLD, _SIGSTOP, _SIGXFSZ = 9, 13, 17, 19, 25
"""Of ``signal(7)``."""
_POLL_SECONDS = 1.0
"""Between looks at the parent, for a parent whose forks hold the control socket open after its death."""
_ENDING_SECONDS = 5.0
"""After that, processes that cannot be ended (of another user) are left."""
_PAUSE_SECONDS = 0.005
"""For killed processes to end."""
STAGE = "/sys"
"""Where a sandbox of root has its folders; nothing else reads this path there."""


def supervise(action: Callable[[], object], control: int, parent: int, passed: Iterable[int] = ()) -> None:
    """Runs ``action`` in a child process; returns when it and all its descendants have ended.

    ``control``: a socket whose other end the caller holds; closing that end ends everything. Written to it at the
    end: ``exit N`` (negative = ended by that signal) or ``error ERRNO``. ``parent``: its death ends everything.
    ``passed``: descriptors that only the action keeps.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _default(_SIGCHLD)  # a parent that ignores it would leave no exit codes
    child, failure = _start(action, control)
    ended = os.pidfd_open(child)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # the command's pipes close when the command and its children close them
        os.dup2(null, descriptor)
    for descriptor in passed:
        os.close(descriptor)
    status = None
    while status is None and os.getppid() == parent:
        ready, _, _ = select.select([ended, control], [], [], _POLL_SECONDS)
        if control in ready:
            break
        status = _reaped().get(child)
    status = _end_descendants().get(child, status)
    error = os.read(failure, 100)
    said = b"error " + error if error else b"exit %d" % (-_SIGKILL if status is None else status)
    try:
        os.write(control, said)
    except OSError:  # nobody listens any more
        return


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
        _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != supervisor:  # killed before the line above
            os._exit(1)
        for ignored in (_SIGPIPE, _SIGXFSZ):  # by Python, and a program would inherit that
            _default(ignored)
        os.close(control)  # an action need not execute another program, which would close both
        os.close(failure)
        action()
    except OSError as exc:
        os.write(failing, b"%d" % (exc.errno or 0))
    except Exception as exc:  # noqa: BLE001  a mistake of ours: among the errors of the command
        sys.excepthook(type(exc), exc, exc.__traceback__)
    finally:
        os._exit(1)


def _reaped() -> dict[int, int]:
    """Exit codes of the children that have ended since the last call."""
    ended = dict[int, int]()
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return ended
            ended[pid] = os.waitstatus_to_exitcode(status)
    except ChildProcessError:
        return ended


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _end_descendants() -> dict[int, int]:
    """Ends all; the exit codes of those that were children."""
    ended, deadline = _reaped(), time.monotonic() + _ENDING_SECONDS
    while _has_children() and time.monotonic() < deadline:
        stopped = set[int]()
        while new := _descendants() - stopped:  # a stopped process starts no others
            _signal(new, _SIGSTOP)
            stopped |= new
        _signal(stopped, _SIGKILL)
        time.sleep(_PAUSE_SECONDS)
        ended |= _reaped()
    return ended


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _descendants() -> set[int]:
    """Processes below this one that have not ended, from ``/proc/*/stat``."""
    children, alive = dict[int, list[int]](), set[int]()
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            state, parent = _content(f"{entry.path}/stat").rpartition(b")")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        children.setdefault(int(parent), []).append(int(entry.name))
        if state not in b"ZX":
            alive.add(int(entry.name))
    below, waiting = set[int](), [os.getpid()]
    while waiting:
        direct = children.get(waiting.pop(), [])
        below.update(direct)
        waiting += direct
    return below & alive


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, ctypes.c_ulong(value), 0, 0, 0)


def _default(number: int) -> None:
    """Gives the signal its default action, in the process: Python's own handlers are not asked."""
    ctypes.CDLL(None).signal(number, None)


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
        target = f"{STAGE}/{number}"
        if os.path.isdir(path):  # noqa: PTH112
            os.mkdir(target)  # noqa: PTH102
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        _call("mount", os.fsencode(path), target.encode(), None, ctypes.c_ulong(_MS_BIND | _MS_REC), None)


def _become(user: int, supervisor: int) -> None:
    """Gives up root for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)  # the change of user has cleared it
    if os.getppid() != supervisor:
        os._exit(1)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def _initial_environment() -> dict[bytes, bytes]:
    """As given: Python may have added ``LC_CTYPE`` to its own at the start (PEP 538)."""
    pairs = (item.partition(b"=") for item in _content("/proc/self/environ").split(b"\0") if item)
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
