"""TRL as the other side: is it there, and which of its micro-batches is the fastest."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from benchmarks.worker import Made, Worker
from upturn.errors import MeasurementError
from upturn.records import JsonValue

TRL_VERSION = "1.16.0"
INSTALL = ".venv/bin/pip install -r requirements-bench.lock"
DEFAULT_MICRO_BATCH = 8
"""``per_device_train_batch_size`` of TRL as it comes."""
HOPELESS = 1.25
"""Times the best step so far that a setting's first step may take for a second one to be worth it."""


def require_trl() -> None:
    """Raises MeasurementError (exit code 2) with how to install TRL when it is not there, or another version is."""
    try:
        found = f"TRL {version('trl')}"
    except PackageNotFoundError:
        found = "no TRL"
    if found != f"TRL {TRL_VERSION}":
        error = MeasurementError(
            f"this compares with TRL {TRL_VERSION}, and {found} is installed; run: {INSTALL} "
            "(or name measurements that need no TRL)"
        )
        error.exit_code = 2
        raise error


class Candidate(NamedTuple):
    """A micro-batch, and one step with it."""

    micro_batch: int
    made: Made
    worker: Worker


def search(
    make: Callable[[int], Worker], sizes: Sequence[int], stack: ExitStack, *, on_try: Callable[[int], None]
) -> list[Candidate]:
    """Every size, by seconds a step. The first one's process lives on, until the stack ends it; the others end.

    The first step of a process is not counted, unless it is far behind: then there is no second.
    """
    found: list[Candidate] = []
    for size in sizes:
        on_try(size)
        worker = stack.enter_context(make(size))
        made = worker.prepared
        if not found or made.seconds < HOPELESS * found[0].made.seconds:
            made = worker.step()
        found = sorted([*found, Candidate(size, made, worker)], key=lambda each: each.made.seconds)
        for loser in found[1:]:
            loser.worker.close()
    return found


def described_search(candidates: Sequence[Candidate]) -> dict[str, JsonValue]:
    """For the printed object; ``candidates`` as ``search`` gives them."""
    ascending = sorted(candidates, key=lambda each: each.micro_batch)
    return {
        "trl_micro_batch": candidates[0].micro_batch,
        "tried_seconds": {str(each.micro_batch): round(each.made.seconds, 3) for each in ascending},
        "tried_peak_gb": {str(each.micro_batch): gigabytes(each.made.peak_bytes) for each in ascending},
    }


def gigabytes(size: float) -> float:
    """Bytes as GiB, to a thousandth."""
    return round(size / 2**30, 3)
