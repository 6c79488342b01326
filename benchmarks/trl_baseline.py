"""TRL as the baseline: its installation, and the search for its fastest micro-batch."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from benchmarks.worker import Response, Worker
from upturn.errors import MeasurementError
from upturn.records import JsonValue

TRL_VERSION = "1.16.0"
INSTALL = ".venv/bin/pip install -r requirements-bench.lock"
DEFAULT_MICRO_BATCH = 8
"""TRL's default of ``per_device_train_batch_size``."""
HOPELESS = 1.25
"""A micro-batch whose first step takes longer than this many times the fastest step so far gets no second step."""


def require_trl() -> None:
    """Raises MeasurementError (exit code 2) with the install command unless the pinned TRL is installed."""
    try:
        installed = f"TRL {version('trl')}"
    except PackageNotFoundError:
        installed = "no TRL"
    if installed != f"TRL {TRL_VERSION}":
        error = MeasurementError(
            f"this compares with TRL {TRL_VERSION}, and {installed} is installed; run: {INSTALL} "
            "(or name measurements that need no TRL)"
        )
        error.exit_code = 2
        raise error


class Candidate(NamedTuple):
    """A micro-batch, and one step with it."""

    micro_batch: int
    step: Response
    worker: Worker


def search_micro_batch(
    start: Callable[[int], Worker], sizes: Sequence[int], stack: ExitStack, *, on_try: Callable[[int], None]
) -> list[Candidate]:
    """All sizes by seconds per step. The fastest one's worker runs until the stack closes; the others are closed.

    The first step of a worker is a warm-up, unless it is hopeless: then there is no second step.
    """
    candidates: list[Candidate] = []
    for size in sizes:
        on_try(size)
        worker = stack.enter_context(start(size))
        step = worker.prepared
        if not candidates or step.seconds < HOPELESS * candidates[0].step.seconds:
            step = worker.step()
        candidates = sorted(
            [*candidates, Candidate(size, step, worker)], key=lambda candidate: candidate.step.seconds
        )
        for slower in candidates[1:]:
            slower.worker.close()
    return candidates


def describe_search(candidates: Sequence[Candidate]) -> dict[str, JsonValue]:
    """Details of a search for the printed object; ``candidates``: the fastest first."""
    by_size = sorted(candidates, key=lambda candidate: candidate.micro_batch)
    return {
        "trl_micro_batch": candidates[0].micro_batch,
        "tried_seconds": {str(size): round(step.seconds, 3) for size, step, _ in by_size},
        "tried_peak_gb": {str(size): gigabytes(step.peak_bytes) for size, step, _ in by_size},
    }


def gigabytes(size: float) -> float:
    """Bytes as GiB, to a thousandth."""
    return round(size / 2**30, 3)
