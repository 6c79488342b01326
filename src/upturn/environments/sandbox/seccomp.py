"""The system calls that a sandbox refuses: libseccomp compiles the list to a filter that bubblewrap loads.

The list is Flatpak's (``common/flatpak-run.c``, ``setup_seccomp``) with what Docker's default profile refuses
beyond it: calls that programs do without, and in which most kernel vulnerabilities of the last years were.
Everything else is allowed, so this narrows the kernel's surface and is not the isolation itself.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from upturn.errors import SandboxError

_LIBRARY = "libseccomp.so.2"
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_MASKED_EQUAL = 7
"""Of ``seccomp.h``: ``SCMP_ACT_ALLOW``, ``SCMP_ACT_ERRNO``, ``SCMP_CMP_MASKED_EQ``."""
_CLONE_NEWUSER = 0x10000000
_TERMINAL_INPUT = (0x5412, 0x541C)
"""``TIOCSTI`` and ``TIOCLINUX``, which write to the input of a terminal."""
_REFUSED = {
    errno.EPERM: (
        *("syslog", "uselib", "acct", "quotactl", "quotactl_fd", "add_key", "keyctl", "request_key"),
        *("move_pages", "mbind", "get_mempolicy", "set_mempolicy", "migrate_pages", "perf_event_open", "ptrace"),
        *("unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "process_vm_readv"),
        *("process_vm_writev", "bpf", "userfaultfd", "kexec_load", "kexec_file_load", "init_module"),
        *("finit_module", "delete_module", "open_by_handle_at", "name_to_handle_at", "lookup_dcookie", "kcmp"),
        *("swapon", "swapoff", "reboot", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "vhangup"),
        *("iopl", "ioperm", "nfsservctl", "fanotify_init"),
    ),
    errno.ENOSYS: (  # libraries try the older calls then
        *("clone3", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
        *("io_uring_setup", "io_uring_enter", "io_uring_register"),
    ),
}


class _Comparison(ctypes.Structure):
    """``struct scmp_arg_cmp``: argument number, operator, mask, value."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


class _Rule(NamedTuple):
    """A call that is refused, always or where one of its arguments compares."""

    name: str
    number: int
    """The errno that it gets."""
    comparison: _Comparison | None = None


@cache
def seccomp_filter() -> bytes:
    """The compiled filter for this machine. Raises SandboxError where libseccomp is not installed."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as exc:
        message = f"a sandbox needs {_LIBRARY}, which is not installed: apt-get install libseccomp2"
        raise SandboxError(message) from exc
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = (ctypes.c_uint32,)
    library.seccomp_release.argtypes = (ctypes.c_void_p,)
    library.seccomp_export_bpf.argtypes = (ctypes.c_void_p, ctypes.c_int)
    library.seccomp_rule_add_array.argtypes = (
        *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint),
        ctypes.POINTER(_Comparison),
    )
    context = library.seccomp_init(_ALLOW)
    try:
        for rule in _rules():
            _refuse(library, context, rule)
        return _exported(library, context)
    finally:
        library.seccomp_release(context)


def _rules() -> Iterator[_Rule]:
    for number, names in _REFUSED.items():
        for name in names:
            yield _Rule(name, number)
    # the flags are clone's first argument on all machines but s390
    yield _Rule("clone", errno.EPERM, _Comparison(0, _MASKED_EQUAL, _CLONE_NEWUSER, _CLONE_NEWUSER))
    for request in _TERMINAL_INPUT:
        yield _Rule("ioctl", errno.EPERM, _Comparison(1, _MASKED_EQUAL, 0xFFFFFFFF, request))


def _refuse(library: ctypes.CDLL, context: int, rule: _Rule) -> None:
    """A call that this machine or this libseccomp does not know needs no rule."""
    call = library.seccomp_syscall_resolve_name(rule.name.encode())
    if call < 0:
        return
    compared = () if rule.comparison is None else (rule.comparison,)
    array = (_Comparison * 1)(*compared)
    failure = library.seccomp_rule_add_array(context, _ERRNO | rule.number, call, len(compared), array)
    if failure != 0:
        raise SandboxError(f"{_LIBRARY} refuses the rule for {rule.name}: {os.strerror(-failure)}")


def _exported(library: ctypes.CDLL, context: int) -> bytes:
    descriptor = os.memfd_create("upturn-seccomp")
    with os.fdopen(descriptor, "rb") as file:
        failure = library.seccomp_export_bpf(context, descriptor)
        if failure != 0:
            raise SandboxError(f"{_LIBRARY} cannot export the filter: {os.strerror(-failure)}")
        file.seek(0)
        return file.read()
