"""The search for TRL's best micro-batch: number of steps of each size, and which worker keeps running."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self, cast

from benchmarks.trl_baseline import Candidate, describe_search, search_micro_batch
from benchmarks.worker import Response, Worker


class FakeWorker:
    """A worker with one duration of the first step and another of later steps."""

    def __init__(self, first: float, later: float) -> None:
        self.prepared = Response({"seconds": first, "peak_bytes": 2.0**30})
        self._later = later
        self.steps = 0
        self.is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self) -> Response:
        self.steps += 1
        return Response({"seconds": self._later, "peak_bytes": 2.0**31})

    def close(self) -> None:
        self.is_closed = True


def search(times: dict[int, tuple[float, float]]) -> tuple[dict[int, FakeWorker], list[Candidate], list[bool]]:
    """Workers by size, the candidates, and whether each worker was closed by the search."""
    workers = {size: FakeWorker(*seconds) for size, seconds in times.items()}
    with ExitStack() as stack:
        candidates = search_micro_batch(
            lambda size: cast(Worker, workers[size]), list(times), stack, on_try=lambda _: None
        )
        closed = [workers[size].is_closed for size in times]
    assert all(worker.is_closed for worker in workers.values())
    return workers, candidates, closed


def test_fastest_worker_keeps_running_and_the_others_are_closed() -> None:
    _, candidates, closed = search({1: (4.0, 3.0), 2: (2.0, 1.0), 4: (1.1, 2.0)})
    assert [(candidate.micro_batch, candidate.step.seconds) for candidate in candidates] == [
        (2, 1.0),
        (4, 2.0),
        (1, 3.0),
    ]
    assert closed == [True, False, True]


def test_first_step_counts_only_when_it_is_hopeless() -> None:
    workers, candidates, _ = search({1: (9.0, 4.0), 2: (4.9, 4.5), 4: (5.0, 0.1)})
    assert [workers[size].steps for size in (1, 2, 4)] == [1, 1, 0]
    assert [(candidate.micro_batch, candidate.step.seconds) for candidate in candidates] == [
        (1, 4.0),
        (2, 4.5),
        (4, 5.0),
    ]


def test_search_is_described_by_size() -> None:
    _, candidates, _ = search({1: (4.0, 3.0), 2: (2.0, 1.0)})
    assert describe_search(candidates) == {
        "trl_micro_batch": 2,
        "tried_seconds": {"1": 3.0, "2": 1.0},
        "tried_peak_gb": {"1": 2.0, "2": 2.0},
    }
