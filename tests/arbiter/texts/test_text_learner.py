"""Learning from stored sketches: the same bits after restarts, in any parts, and without a snapshot."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import delete

from tests.arbiter.test_learner import decision, rating
from tests.arbiter.texts.test_cluster import stream
from upturn.arbiter.texts import TextClusters, TextLearner, encode_buckets
from upturn.pool import Pool, schema


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


def started(pool: Pool) -> TextLearner:
    learner = TextLearner(pool, clusters=TextClusters(4))
    learner.start()
    return learner


@pytest.mark.parametrize("seed", range(3))
def test_any_interleaving_of_reading_restarting_and_deleting_gives_the_same_bits(pool: Pool, seed: int) -> None:
    rng, learner = Random(seed), started(pool)
    for number, (_, buckets) in enumerate(stream(120)):
        sketch = encode_buckets(buckets) if rng.random() < 0.9 else ""
        pool.append(
            replace(decision(f"d{number}"), sketch=sketch, family_source="default"),
            rating(f"f{number}", 1.0, f"d{number}"),
        )
        match rng.randrange(8):
            case 0:
                learner.catch_up()
            case 1:
                learner.save()
            case 2:
                learner = started(pool)
            case 3:
                pool.write(lambda connection: connection.execute(delete(schema.router_states)))
    learner.catch_up()
    pool.write(lambda connection: connection.execute(delete(schema.router_states)))
    assert learner.snapshot() == started(pool).snapshot()
    assert learner.clusters is not None
    assert learner.clusters.names


def test_an_empty_pool_teaches_nothing(pool: Pool) -> None:
    assert started(pool).sequence == 0
