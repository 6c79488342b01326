"""bfloat16 instructions of this machine's processor, and its rate of large matrix products."""

import time
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16")
MATRIX_SIZES = (2_048, 3_072, 4_096)


def has_bfloat16(cpuinfo: Path = _CPUINFO) -> bool:
    """True when the processor multiplies bfloat16 in one instruction; False where the system does not report it."""
    if not cpuinfo.is_file():
        return False
    flags = {
        flag
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.partition(":")[0].strip() == "flags"
        for flag in line.partition(":")[2].split()
    }
    return not flags.isdisjoint(_BFLOAT16_FLAGS)


def matrix_rate(sizes: tuple[int, ...] = MATRIX_SIZES) -> float:
    """Floating-point operations per second of the fastest of these square float32 products, each computed once."""
    import torch

    best = 0.0
    for size in sizes:
        left, right = torch.ones(size, size), torch.ones(size, size)
        out = torch.empty(size, size)
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        best = max(best, 2.0 * size**3 / (time.perf_counter() - started))
    return best
