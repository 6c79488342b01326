"""Memory that this process holds on a device now, and its peak since the last reset.

Linux: the kernel's resident set (``VmRSS``, ``VmHWM``), whose peak can be reset. Other systems: the peak of the
whole process, which cannot. CUDA: memory of tensors as torch counts it, without the allocator's reserve.
"""

import resource
import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""proc(5): resets the peak resident set size and nothing else."""


def resident_bytes(device: str = "cpu") -> int:
    """Bytes held now; other systems than Linux: the peak so far."""
    if device == "cuda":
        import torch

        return torch.cuda.memory_allocated()
    return _status_bytes("VmRSS") or _lifetime_peak()


def peak_bytes(device: str = "cpu") -> int:
    """Peak since ``reset_peak``, or of the whole process where a reset is not possible."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    return _status_bytes("VmHWM") or _lifetime_peak()


def reset_peak(device: str = "cpu") -> None:
    """Resets the peak where the system allows it."""
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()
        return
    with suppress(OSError):
        _RESET.write_text(_RESET_PEAK)


def _status_bytes(name: str) -> int | None:
    """None = the system does not report it."""
    if not _STATUS.is_file():
        return None
    for line in _STATUS.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None


def _lifetime_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux kilobytes
