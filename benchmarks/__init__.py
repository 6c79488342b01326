"""Measurements against other libraries and against ourselves: what every `upturn bench` command runs."""

from benchmarks.measurement import QUICK, Bench, Sizes
from benchmarks.rollout import RolloutBench, bench_rollout
from benchmarks.update import bench_update

__all__ = ["QUICK", "Bench", "RolloutBench", "Sizes", "bench_rollout", "bench_update"]
