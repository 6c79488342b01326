"""How much memory this process holds, and has held at most since it last asked to forget.

Linux: the kernel's resident set (``VmRSS``, ``VmHWM``), whose highest mark can be reset. Elsewhere: the highest
mark of the whole life of the process, which cannot.
"""

import resource
import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""proc(5): resets the highest resident set size and nothing else."""


def resident_bytes() -> int:
    """Resident now; off Linux the highest so far."""
    return _marked("VmRSS") or _lifetime_peak()


def peak_bytes() -> int:
    """The highest since ``reset_peak``, or ever where that does nothing."""
    return _marked("VmHWM") or _lifetime_peak()


def reset_peak() -> None:
    """Forgets the highest mark where the system lets us."""
    with suppress(OSError):
        _RESET.write_text(_RESET_PEAK)


def _marked(name: str) -> int | None:
    """None = the system does not say."""
    if not _STATUS.is_file():
        return None
    for line in _STATUS.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None


def _lifetime_peak() -> int:
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024  # macOS counts bytes, Linux kilobytes
