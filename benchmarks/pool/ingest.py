"""Trajectories a second: stored with their tasks and evaluations, durable when they are counted."""

import time
from itertools import islice

from benchmarks.comparison import Spread, result, spread
from benchmarks.measurement import Measurement
from benchmarks.pool.backends import NewPool
from benchmarks.pool.plan import Plan
from benchmarks.pool.workload import GROUP, DataPoint, groups
from upturn.pool import Pool


def measure_ingest(plan: Plan, name: str, new_pool: NewPool) -> Measurement:
    """The rate, each trajectory in a write of its own; writes that wait at the same time share a commit."""
    points = list(islice(groups(-(-plan.trajectories // GROUP)), plan.trajectories))
    rates, processor = list[float](), list[float]()
    for repetition in range(plan.repetitions):
        plan.log(f"{name}: storing {len(points):,} trajectories, {repetition + 1} of {plan.repetitions}")
        with Pool.open(new_pool()) as pool:
            started, used = time.perf_counter(), time.process_time()
            store(pool, points)
            rates.append(len(points) / (time.perf_counter() - started))
            processor.append(1_000.0 * (time.process_time() - used) / len(points))
    rate: Spread = spread(rates)
    return Measurement(
        (
            result(f"{name} trajectories", rate, "a second", plan.bar(1_500.0)),
            result(f"{name} processor time", spread(processor), "ms a trajectory"),
        )
    )


def store(pool: Pool, points: list[DataPoint]) -> None:
    """Returns when all are durable."""
    for future in [pool.submit(*point) for point in points]:
        future.result()
