"""The search for TRL's best micro-batch: what is tried how often, and which process lives on."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self, cast

from benchmarks.trl_baseline import Candidate, described_search, search
from benchmarks.worker import Made, Worker


class FakeWorker:
    """Takes so long for its first step and so long for the next ones."""

    def __init__(self, first: float, later: float) -> None:
        self.prepared = Made({"seconds": first, "peak_bytes": 2.0**30})
        self._later = later
        self.steps = 0
        self.is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self) -> Made:
        self.steps += 1
        return Made({"seconds": self._later, "peak_bytes": 2.0**31})

    def close(self) -> None:
        self.is_over = True


def tried(times: dict[int, tuple[float, float]]) -> tuple[dict[int, FakeWorker], list[Candidate], list[bool]]:
    """Workers by size, what the search found, and whose process was over when it was."""
    workers = {size: FakeWorker(*seconds) for size, seconds in times.items()}
    with ExitStack() as stack:
        found = search(lambda size: cast(Worker, workers[size]), list(times), stack, on_try=lambda _: None)
        over = [workers[size].is_over for size in times]
    assert all(worker.is_over for worker in workers.values())
    return workers, found, over


def test_the_fastest_lives_on_and_the_others_end() -> None:
    _, found, over = tried({1: (4.0, 3.0), 2: (2.0, 1.0), 4: (1.1, 2.0)})
    assert [(each.micro_batch, each.made.seconds) for each in found] == [(2, 1.0), (4, 2.0), (1, 3.0)]
    assert over == [True, False, True]


def test_a_first_step_does_not_count_unless_it_is_far_behind() -> None:
    workers, found, _ = tried({1: (9.0, 4.0), 2: (4.9, 4.5), 4: (5.0, 0.1)})
    assert [workers[size].steps for size in (1, 2, 4)] == [1, 1, 0]
    assert [(each.micro_batch, each.made.seconds) for each in found] == [(1, 4.0), (2, 4.5), (4, 5.0)]


def test_a_search_is_described_by_size() -> None:
    _, found, _ = tried({1: (4.0, 3.0), 2: (2.0, 1.0)})
    assert described_search(found) == {
        "trl_micro_batch": 2,
        "tried_seconds": {"1": 3.0, "2": 1.0},
        "tried_peak_gb": {"1": 2.0, "2": 2.0},
    }
