"""Matrix-product rate of the first CUDA device, and a clock that waits for it."""

import re
import time

_NAMEPLATES = (
    (r"\bH[12]00 NVL\b", 835e12),
    (r"\bH100 PCIe\b", 756e12),
    (r"\bH[12]00\b", 989e12),
    (r"\bA100\b", 312e12),
)
"""Dense bfloat16 operations per second in NVIDIA's data sheets; the first pattern that matches a device's name."""
NO_DEVICE = "not measured: no CUDA device"
"""The value of a figure that only a GPU can have."""
PRODUCT_SIZES = (4_096, 8_192)
_WARM_UPS, _REPEATS = 2, 8
"""Products before and during the timing; enough for the clock to rise, some 20 ms at the larger size."""


def find_device() -> str | None:
    """``cuda``; None = torch has no usable device."""
    import torch

    return "cuda" if torch.cuda.is_available() else None


def device_name(device: str) -> str:
    """The driver's name of a CUDA device; ``cpu`` for the CPU."""
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else device


def nameplate_rate(name: str) -> float | None:
    """Dense bfloat16 operations per second that the maker states; None = unknown device."""
    return next((rate for pattern, rate in _NAMEPLATES if re.search(pattern, name)), None)


def now(device: str) -> float:
    """Seconds of a monotonic clock, read after the device has finished all its work."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


def product_rate(device: str, sizes: tuple[int, ...] = PRODUCT_SIZES) -> float:
    """Operations per second of the fastest of these square bfloat16 products.

    Factors are random numbers: with zeros the device draws less power and keeps a higher clock than in real work.
    """
    import torch

    best = 0.0
    for size in sizes:
        left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(left)
        for _ in range(_WARM_UPS):
            torch.mm(left, right, out=out)
        started = now(device)
        for _ in range(_REPEATS):
            torch.mm(left, right, out=out)
        best = max(best, _REPEATS * 2.0 * size**3 / (now(device) - started))
    return best
