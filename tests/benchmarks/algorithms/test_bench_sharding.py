"""The measurement of sharding runs, and both ways learn the same."""

import pytest

from benchmarks.algorithms.sharding import ShardedWork, measure_sharding
from benchmarks.workloads.model import Subject


@pytest.mark.slow
def test_both_ways_are_measured_and_learn_the_same() -> None:
    found = measure_sharding(ShardedWork(Subject(width=64, layers=2, vocabulary=128), rollouts=6, steps=3))
    assert [each.sharded for each in (found.one, *found.several)] == [False, True, True]
    assert found.loss_gap < 1e-5
    assert len(found.one.losses) == 3
    assert found.one.losses[-1] < found.one.losses[0]
    for each in (found.one, *found.several):
        assert each.peak_bytes >= each.started_bytes > 10**7
    assert 0.5 < found.memory_share < 1.5  # at this size nearly all of it is Python and torch
