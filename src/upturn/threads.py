"""Thread count and wait policy for torch, without importing it.

Idle OpenMP threads spin by default. If another process needs the core they spin on, every parallel section waits
for the scheduler. Passive waiting releases the core instead and changes no result.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path

WAIT_POLICY = "OMP_WAIT_POLICY"
WAIT_SETTINGS = (WAIT_POLICY, "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Environment variables that OpenMP runtimes read when torch is loaded: the standard one, GNU's and Intel's."""
CGROUP = Path("/sys/fs/cgroup")
"""Mount point of the cgroup file system, which holds the container's limits on Linux."""


def wait_passively(environ: MutableMapping[str, str]) -> None:
    """Makes idle OpenMP threads sleep, unless one of WAIT_SETTINGS is set. Call it before importing torch."""
    if not any(name in environ for name in WAIT_SETTINGS):
        environ[WAIT_POLICY] = "PASSIVE"


def usable_cores() -> int:
    """Returns the number of processor cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota(root: Path = CGROUP) -> float | None:
    """Returns the container's CPU quota in cores, from cgroup v2 (``cpu.max``) or v1; None = no known quota."""
    try:
        quota, period = (root / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu" / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (root / "cpu" / "cpu.cfs_period_us").read_text(encoding="ascii")
        except (OSError, ValueError):
            return None
    try:
        cores = float(quota) / float(period)
    except (ValueError, ZeroDivisionError):  # "max" = no quota
        return None
    return cores if cores > 0 else None  # v1 writes -1 for no quota


def default_threads(cores: int, quota: float | None, *, processes: int = 1) -> int:
    """Returns the threads per process when ``processes`` share the usable cores, at most the quota; at least 1."""
    allowed = cores if quota is None else min(cores, int(quota))
    return max(1, allowed // processes)
