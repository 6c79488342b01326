"""Mean tokens and seconds: a fold over the pool, in any number of parts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete

from upturn.arbiter import Consumption, DiscountedThompson, Expected, Learner
from upturn.arbiter.consumption import FIRST, WINDOW, Mean
from upturn.pool import ALL_TENANTS, Pool, PoolRecord, schema
from upturn.pool.serving import consumption_after
from upturn.records import (
    MODEL_CALL,
    Alternative,
    Call,
    CallStatus,
    Decision,
    Observation,
    Task,
    Trajectory,
    Usage,
)

A, B = "ana@1", "ben@1"


def decision(name: str, version: str, *, family: str = "mail", task: str = "") -> Decision:
    agent = version.partition("@")[0]
    options = (Alternative(version, 1.0, None),)
    return Decision(
        name, task or f"task-{name}", family, "default", "p", "0", options, agent, version, 1.0, "because"
    )


def called(
    name: str, version: str = A, *, family: str = "mail", used: Expected = FIRST, status: CallStatus = "answered"
) -> tuple[PoolRecord, ...]:
    call = Call(name, "default", name, "r", "chat", version, status)
    return decision(name, version, family=family), replace(
        call,
        input_tokens=int(used.input_tokens),
        cached_input_tokens=int(used.cached_tokens),
        cache_write_tokens=int(used.cache_write_tokens),
        cache_write_1h_tokens=int(used.cache_write_1h_tokens),
        output_tokens=int(used.output_tokens),
        seconds=used.seconds,
    )


def executed(name: str, *, environment: str = "office", is_routed: bool = True) -> tuple[PoolRecord, ...]:
    task = Task(f"task-{name}", "do", "desk", environment)
    usage = Usage(1_000, 50, 8.0)
    trajectory = Trajectory(
        f"run-{name}", task.id, A, (), Observation(""), "finished", "rendered", usage=usage, cached_tokens=300
    )
    return (task, *([decision(name, A, task=task.id)] if is_routed else []), trajectory)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


def read(pool: Pool, *ends: int) -> Consumption:
    """What was used up to the last of these numbers, read in these parts."""
    consumption = Consumption(pool, tenant=ALL_TENANTS)
    for end in ends or (last(pool),):
        consumption.follow(end)
    return consumption


def last(pool: Pool) -> int:
    with pool.engine.connect() as connection:
        rows = [*connection.execute(schema.calls.select()), *connection.execute(schema.trajectories.select())]
    return int(max(row.sequence for row in rows))


def test_answered_calls_and_routed_tasks_count(pool: Pool) -> None:
    pool.append(*called("x", used=Expected(10, 4, 5, 1.5)))
    pool.append(*called("broken", status="failed"), *called("left", status="cancelled"))
    pool.append(*executed("t"), *executed("unrouted", is_routed=False), *executed("e", environment=MODEL_CALL))
    used = [item[1:7] for item in consumption_after(pool.engine, 0, last(pool), tenant="default")]
    assert used == [("mail", A, 10, 4, 5, 1.5), ("desk", A, 1_000, 300, 50, 8.0)]
    assert list(consumption_after(pool.engine, 0, last(pool), tenant="other")) == []


def test_means_start_at_priors(pool: Pool) -> None:
    assert read(pool, 0).expected("mail", A) == FIRST
    pool.append(*called("x", A, used=Expected(100, 40, 50, 4.0)), *called("y", B, used=Expected(300, 0, 90, 1.0)))
    consumption = read(pool)
    overall = Expected((400 + 2 * 500) / 4, 40 / 4, (140 + 2 * 200) / 4, (5 + 2 * 2) / 4)
    family = Expected(
        (400 + 2 * overall.input_tokens) / 4,
        (40 + 2 * overall.cached_tokens) / 4,
        (140 + 2 * overall.output_tokens) / 4,
        0,
    )
    slow = (4 + 2 * overall.seconds) / 3
    assert consumption.expected("mail", A) == pytest.approx(
        (
            (100 + 2 * family.input_tokens) / 3,
            (40 + 2 * family.cached_tokens) / 3,
            (50 + 2 * family.output_tokens) / 3,
            (4 + 2 * slow) / 3,
            0,
            0,
        )
    )
    unknown = consumption.expected("mail", "new@1")
    assert unknown[:3] == pytest.approx(family[:3])  # the same prompts
    assert consumption.expected("other", A).seconds == pytest.approx(slow)  # the same server
    assert (consumption.count("mail", A), consumption.count("mail", "new@1")) == (1, 0)


def test_cache_writes_are_expected_as_they_were(pool: Pool) -> None:
    pool.append(*called("x", used=Expected(100, 0, 0, 1.0, 60, 20)))
    overall = (60 / 3, 20 / 3)  # with the prior's two calls without any
    family = ((60 + 2 * overall[0]) / 3, (20 + 2 * overall[1]) / 3)
    expected = ((60 + 2 * family[0]) / 3, (20 + 2 * family[1]) / 3)
    assert read(pool).expected("mail", A)[4:] == pytest.approx(expected)


def test_calls_without_known_tokens_change_seconds_only(pool: Pool) -> None:
    pool.append(*called("x", used=Expected(0, 0, 0, 9.0)))
    expected = read(pool).expected("mail", A)
    assert expected[:3] == FIRST[:3]
    assert expected.seconds > FIRST.seconds


def test_a_mean_follows_a_change() -> None:
    mean = Mean()
    for number in [1.0] * 1_000 + [3.0] * WINDOW:
        mean = mean.plus(number)
    assert mean.count == WINDOW
    assert mean.value == pytest.approx(3 - 2 * (1 - 1 / WINDOW) ** WINDOW)


def test_parts_restarts_and_snapshots_give_the_same_bits(pool: Pool) -> None:
    for index in range(30):
        used = Expected(100.1 + 7 * index, index, 3 * index, 0.1 * index)
        pool.append(*called(f"c{index}", (A, B)[index % 2], family=f"f{index % 3}", used=used))
    end = last(pool)
    whole = read(pool).state()
    assert read(pool, *range(0, end, 5), end).state() == whole
    forward = read(pool)
    forward.follow(end // 2)  # as a resumed run does
    assert forward.sequence == end // 2
    assert forward.state() == read(pool, end // 2).state()
    middle = forward.state()
    forward.save(forward.snapshot())
    assert read(pool).state() == whole  # from the snapshot on
    pool.write(lambda connection: connection.execute(delete(schema.router_states)) and None)
    assert read(pool).state() == whole
    read(pool).save(read(pool).snapshot())
    assert read(pool, end // 2).state() == middle  # the snapshot has later records


def test_forecasts_follow_what_is_learned(pool: Pool) -> None:
    pool.append(*called("x", used=Expected(100, 0, 0, 1.0)))
    learner = Learner(pool, DiscountedThompson(), tenant=ALL_TENANTS)
    consumption = learner.count_consumption()
    learner.start()
    assert consumption.sequence == learner.sequence == last(pool)
    consumption.save(consumption.snapshot())
    again = Learner(pool, DiscountedThompson(), tenant=ALL_TENANTS)
    counted = again.count_consumption()
    again.start()
    assert counted.state() == consumption.state()
