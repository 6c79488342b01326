"""How much memory this process holds, and has held at most since it last asked to forget, on a device.

Linux: the kernel's resident set (``VmRSS``, ``VmHWM``), whose highest mark can be reset. Elsewhere: the highest
mark of the whole life of the process, which cannot. CUDA: what tensors occupy, by torch's own count; what its
allocator keeps in reserve is not in it.
"""

import resource
import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""proc(5): resets the highest resident set size and nothing else."""


def resident_bytes(device: str = "cpu") -> int:
    """Resident now; off Linux the highest so far."""
    if device == "cuda":
        import torch

        return torch.cuda.memory_allocated()
    return _marked("VmRSS") or _lifetime_peak()


def peak_bytes(device: str = "cpu") -> int:
    """The highest since ``reset_peak``, or ever where that does nothing."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    return _marked("VmHWM") or _lifetime_peak()


def reset_peak(device: str = "cpu") -> None:
    """Forgets the highest mark where the system lets us."""
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()
        return
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
