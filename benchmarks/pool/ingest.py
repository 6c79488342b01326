"""Trajectories a second: stored with their tasks and evaluations, durable when they are counted."""

import gc
import time
from itertools import islice

from benchmarks.comparison import Spread, result, spread
from benchmarks.measurement import Measurement
from benchmarks.pool.backends import Database
from benchmarks.pool.plan import Plan
from benchmarks.pool.workload import GROUP, DataPoint, groups
from upturn.pool import Pool


def measure_ingest(plan: Plan, name: str, database: Database) -> Measurement:
    """The rate, each trajectory in a write of its own; writes that wait at the same time share a commit."""
    points = list(islice(groups(-(-plan.trajectories // GROUP)), plan.trajectories))
    gc.collect()
    gc.freeze()  # the garbage collector would look through the points again and again, which no client does
    rates, processor, whole = list[float](), list[float](), list[float]()
    try:
        for repetition in range(plan.repetitions):
            plan.log(f"{name}: storing {len(points):,} trajectories, {repetition + 1} of {plan.repetitions}")
            with Pool.open(database.new_pool()) as pool:
                store(pool, points[:GROUP])  # statements are compiled once
                started, own, all_of_it = time.perf_counter(), time.process_time(), database.processor_seconds()
                store(pool, points[GROUP:])
                count = len(points) - GROUP
                rates.append(count / (time.perf_counter() - started))
                processor.append(1_000.0 * (time.process_time() - own) / count)
                whole.append(1_000.0 * (database.processor_seconds() - all_of_it) / count)
    finally:
        gc.unfreeze()
    rate: Spread = spread(rates)
    return Measurement(
        (
            result(f"{name} trajectories", rate, "a second", plan.bar(1_500.0)),
            result(f"{name} processor time", spread(processor), "ms a trajectory"),
            result(f"{name} processor time with the server", spread(whole), "ms a trajectory"),
        )
    )


def store(pool: Pool, points: list[DataPoint]) -> None:
    """Returns when all are durable."""
    for future in [pool.submit(*point) for point in points]:
        future.result()
