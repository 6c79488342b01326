"""A large pool: the time of a batch and of statistics, and how much slower storing has become."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import NamedTuple

from benchmarks.comparison import Bar, result, spread
from benchmarks.measurement import Measurement
from benchmarks.pool.backends import Database
from benchmarks.pool.plan import Plan
from benchmarks.pool.workload import DataPoint, small_points
from upturn.pool import BatchCriteria, Pool, Priorities, get_batch, statistics
from upturn.records import Result

_IN_FLIGHT = 16
_POINTS_A_WRITE = 100
_PARTS = 5
"""Parts of a window, whose median counts."""


def measure_scale(plan: Plan, name: str, database: Database) -> Measurement:
    """The times on a pool of ``rows`` trajectories of one turn."""
    with Pool.open(database.new_pool()) as pool:
        points = small_points(plan.rows)
        _store(pool, points, plan.early_rows - plan.window)
        early = _times_of_rows(pool, points, plan, database)
        plan.log(f"{name}: {plan.early_rows:,} trajectories stored")
        _store(pool, points, plan.rows - plan.window - plan.early_rows)
        late = _times_of_rows(pool, points, plan, database)
        plan.log(f"{name}: {plan.rows:,} trajectories stored")
        criteria = BatchCriteria(
            plan.batch,
            families=tuple(f"family-{number}" for number in range(10)),
            verdicts=("success",),
            min_score=0.5,
            balance=("family", "agent_version"),
        )
        chosen = BatchCriteria(plan.batch, max_per_task=2, priorities=Priorities(1.0, 1.0, 1.0))
        batch = _times(plan, database, lambda seed: get_batch(pool, criteria, tenant="default", seed=seed))
        prioritised = _times(plan, database, lambda seed: get_batch(pool, chosen, tenant="default", seed=seed))
        counted = _times(plan, database, lambda _: statistics(pool, tenant="default"))
    growth, growth_of_processor = late.wall / early.wall, late.processor / early.processor
    return Measurement(
        (
            *_both(f"{name} get_batch", batch, plan.bar(1.0, is_upper=True)),
            *_both(f"{name} get_batch with priorities", prioritised),
            *_both(f"{name} statistics", counted, plan.bar(2.0, is_upper=True)),
            result(f"{name} growth of a row's time", growth, "x", plan.bar(1.2, is_upper=True)),
            result(f"{name} growth of a row's processor time", growth_of_processor, "x"),
            result(f"{name} time of a row", 1_000.0 * late.wall, "ms"),
            result(f"{name} processor time of a row", 1_000.0 * late.processor, "ms"),
        ),
        {"rows": plan.rows, "points": plan.batch},
    )


class _Seconds(NamedTuple):
    wall: float
    processor: float
    """Of this process and of a server of our own."""


def _seconds(database: Database, work: Callable[[], object]) -> _Seconds:
    started, used = time.perf_counter(), database.processor_seconds()
    work()
    return _Seconds(time.perf_counter() - started, database.processor_seconds() - used)


def _times(plan: Plan, database: Database, work: Callable[[int], object]) -> list[_Seconds]:
    return [_seconds(database, partial(work, seed)) for seed in range(plan.repetitions)]


def _both(name: str, times: Sequence[_Seconds], bar: Bar | None = None) -> tuple[Result, Result]:
    processor = spread([each.processor for each in times])
    return (
        result(name, spread([each.wall for each in times]), "s", bar),
        result(f"{name}, processor time", processor, "s"),
    )


def _times_of_rows(pool: Pool, points: Iterator[DataPoint], plan: Plan, database: Database) -> _Seconds:
    """For a row of the next window: the medians over its parts."""
    count = plan.window // _PARTS
    parts = [_seconds(database, lambda: _store(pool, points, count)) for _ in range(_PARTS)]
    walls, processors = zip(*parts, strict=True)
    return _Seconds(spread(walls).value / count, spread(processors).value / count)


def _store(pool: Pool, points: Iterator[DataPoint], count: int) -> None:
    """Stores the next points, a hundred a write, and returns when they are durable."""
    waiting: deque[Future[int]] = deque()
    left = count
    while left:
        page = list(islice(points, min(left, _POINTS_A_WRITE)))
        left -= len(page)
        tasks = {point.task.id: point.task for point in page}
        results = [record for point in page for record in (point.trajectory, point.evaluation)]
        waiting.append(pool.submit(*tasks.values(), *results))
        if len(waiting) > _IN_FLIGHT:
            waiting.popleft().result()
    for future in waiting:
        future.result()
