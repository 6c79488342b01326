"""The sharding measurement runs, and sharded training has the same losses."""

import pytest

from benchmarks.algorithms.sharding import ShardedWork, measure_sharding
from benchmarks.workloads.model import ModelSpec


@pytest.mark.slow
def test_sharded_training_has_the_same_losses() -> None:
    figures = measure_sharding(ShardedWork(ModelSpec(width=64, layers=2, vocabulary=128), rollouts=6, steps=3))
    assert [process.is_sharded for process in (figures.single, *figures.sharded)] == [False, True, True]
    assert figures.loss_gap < 1e-5
    assert len(figures.single.losses) == 3
    assert figures.single.losses[-1] < figures.single.losses[0]
    for process in (figures.single, *figures.sharded):
        assert process.peak_bytes >= process.started_bytes > 10**7
    assert 0.5 < figures.memory_share < 1.5  # at this size nearly all of it is Python and torch
