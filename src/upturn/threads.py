"""How many threads torch computes with, and how its idle threads wait. No torch here.

Idle OpenMP threads spin by default. Where another process needs the core they spin on, every parallel section
waits for the scheduler. Passive waiting lets go of the core instead and changes no result.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path

WAIT_POLICY = "OMP_WAIT_POLICY"
WAIT_SETTINGS = (WAIT_POLICY, "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Environment variables that OpenMP runtimes read when torch is loaded: the standard's, GNU's and Intel's."""
CGROUP = Path("/sys/fs/cgroup")
"""Where Linux shows the limits of the container that a process runs in."""


def wait_passively(environ: MutableMapping[str, str]) -> None:
    """Asks OpenMP to put idle threads to sleep; no effect where any of WAIT_SETTINGS is set.

    Call before importing torch.
    """
    if not any(name in environ for name in WAIT_SETTINGS):
        environ[WAIT_POLICY] = "PASSIVE"


def usable_cores() -> int:
    """Processor cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota(root: Path = CGROUP) -> float | None:
    """The container's CPU quota in cores, from cgroup v2 (``cpu.max``) or v1; None = no quota is known.

    ``root`` is where the cgroup file system is mounted.
    """
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
    """Threads for each of ``processes``, which share the usable cores, at most the quota; at least one."""
    allowed = cores if quota is None else min(cores, int(quota))
    return max(1, allowed // processes)
