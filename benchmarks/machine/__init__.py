"""Speed of the machine's accelerator and processor, and the memory of a process. Start with ``accelerator``."""

from benchmarks.machine.accelerator import NO_DEVICE, device_name, find_device, nameplate_rate, now, product_rate
from benchmarks.machine.memory import peak_bytes, reset_peak, resident_bytes
from benchmarks.machine.processor import has_bfloat16, matrix_rate

__all__ = [
    "NO_DEVICE",
    "device_name",
    "find_device",
    "has_bfloat16",
    "matrix_rate",
    "nameplate_rate",
    "now",
    "peak_bytes",
    "product_rate",
    "reset_peak",
    "resident_bytes",
]
