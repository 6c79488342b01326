"""A large pool: the time of a batch and of statistics, and how much slower storing has become."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import islice

from benchmarks.comparison import Spread, result, spread
from benchmarks.measurement import Measurement
from benchmarks.pool.backends import NewPool
from benchmarks.pool.plan import Plan
from benchmarks.pool.workload import DataPoint, small_points
from upturn.pool import BatchCriteria, Pool, Priorities, get_batch, statistics

_IN_FLIGHT = 16
_POINTS_A_WRITE = 100
_PARTS = 5
"""Parts of a window, whose median counts."""


def measure_scale(plan: Plan, name: str, new_pool: NewPool) -> Measurement:
    """The times on a pool of ``rows`` trajectories of one turn."""
    with Pool.open(new_pool()) as pool:
        points = small_points(plan.rows)
        _store(pool, points, plan.early_rows - plan.window)
        early = _seconds_a_row(pool, points, plan)
        plan.log(f"{name}: {plan.early_rows:,} trajectories stored")
        _store(pool, points, plan.rows - plan.window - plan.early_rows)
        late = _seconds_a_row(pool, points, plan)
        plan.log(f"{name}: {plan.rows:,} trajectories stored")
        criteria = BatchCriteria(
            plan.batch,
            families=tuple(f"family-{number}" for number in range(10)),
            verdicts=("success",),
            min_score=0.5,
            balance=("family", "agent_version"),
        )
        chosen = BatchCriteria(plan.batch, max_per_task=2, priorities=Priorities(1.0, 1.0, 1.0))
        batch = _times(plan, lambda seed: get_batch(pool, criteria, tenant="default", seed=seed))
        prioritised = _times(plan, lambda seed: get_batch(pool, chosen, tenant="default", seed=seed))
        counted = _times(plan, lambda _: statistics(pool, tenant="default"))
    return Measurement(
        (
            result(f"{name} get_batch", batch, "s", plan.bar(1.0, is_upper=True)),
            result(f"{name} get_batch with priorities", prioritised, "s"),
            result(f"{name} statistics", counted, "s", plan.bar(2.0, is_upper=True)),
            result(f"{name} growth of a row's time", late / early, "x", plan.bar(1.2, is_upper=True)),
            result(f"{name} time of a row", 1_000.0 * late, "ms"),
        ),
        {"rows": plan.rows, "points": plan.batch},
    )


def _times(plan: Plan, work: Callable[[int], object]) -> Spread:
    times: list[float] = []
    for seed in range(plan.repetitions):
        started = time.perf_counter()
        work(seed)
        times.append(time.perf_counter() - started)
    return spread(times)


def _seconds_a_row(pool: Pool, points: Iterator[DataPoint], plan: Plan) -> float:
    """Of the next window of rows: the median over its parts."""
    times: list[float] = []
    for _ in range(_PARTS):
        started = time.perf_counter()
        _store(pool, points, plan.window // _PARTS)
        times.append((time.perf_counter() - started) / (plan.window // _PARTS))
    return spread(times).value


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
