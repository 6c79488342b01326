"""Drift between an earlier and a later part: what is compared, and how often nothing is taken for something."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from upturn.pool import Pool, Selection
from upturn.pool.statistics import drift, usage_by_agent
from upturn.pool.statistics.drift import change
from upturn.records import Evaluation, Task, Trajectory, Usage

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def points(make_point: MakePoint) -> Iterator[tuple[Task, Trajectory, Evaluation]]:
    """Forty tasks: the first twenty of one family succeed, of the others half, and these take twice as long."""
    for number in range(40):
        is_late = number >= 20
        verdict = "failure" if is_late and number % 2 else "success"
        point = make_point(str(number), family="old" if not is_late else "new", verdict=verdict)
        usage = Usage(3, 10 + number % 3, 1.0 + is_late + 0.01 * (number % 5))
        yield point[0], replace(point[1], usage=usage), point[2]


def test_halves_are_compared_in_the_order_of_arrival(pool: Pool, make_point: MakePoint) -> None:
    pool.append(*(record for point in points(make_point) for record in point))
    found = drift(pool, tenant="default")
    assert found is not None
    assert found.trajectories == (20, 20)
    by_name = {entry.name: entry for entry in found.changes}
    assert list(by_name) == ["success", "missing", "turns", "written_tokens", "seconds", "family old", "family new"]
    assert (by_name["success"].before, by_name["success"].after) == (1.0, 0.5)
    assert {name for name, entry in by_name.items() if entry.has_changed} == {
        "success",
        "seconds",
        "family new",
        "family old",
    }
    assert by_name["success"].tasks == (20, 20)
    one = drift(pool, tenant="default", selection=Selection(families=("new",)))
    assert one is not None
    assert not any(entry.has_changed for entry in one.changes)
    assert drift(pool, tenant="default", split=1.0) is None, "all were recorded later"
    assert drift(pool, tenant="nobody") is None


def test_few_tasks_have_no_interval() -> None:
    """Thirty trajectories of three tasks are three observations."""
    side = (np.ones(30), np.repeat(np.arange(3), 10))
    found = change("success", side, side, is_share=True, level=0.05)
    assert (found.low, found.high, found.has_changed, found.tasks) == (None, None, False, (3, 3))


def test_an_interval_worked_by_hand() -> None:
    """Ten tasks of one trajectory each: means 5.5 and 6.5, variances 9.1667/10; t(9) at 97.5 % is 2.262157."""
    values, tasks = np.arange(1.0, 11.0), np.arange(10)
    found = change("turns", (values, tasks), (values + 1, tasks), is_share=False, level=0.05)
    half = 2.262157 * (2 * 9.166667 / 10) ** 0.5
    assert (found.low, found.high) == pytest.approx((1 - half, 1 + half), abs=1e-5)


@pytest.mark.parametrize("rate", [0.02, 0.5, 0.9])
def test_nothing_is_seldom_taken_for_drift(rate: float) -> None:
    """Tasks of four trajectories that succeed or fail together half of the time; 1,000 comparisons at 5 %.

    Where the true rate of false alarms is 5 %, more than 75 of 1,000 have a probability below 0.0003.
    """
    rng = np.random.default_rng(5)
    tasks = np.repeat(np.arange(60), 4)

    def part() -> np.ndarray:
        shared = np.repeat(rng.random(60) < rate, 4)
        return np.where(rng.random(240) < 0.5, shared, rng.random(240) < rate).astype(float)

    alarms = sum(
        change("success", (part(), tasks), (part(), tasks), is_share=True, level=0.05).has_changed
        for _ in range(1000)
    )
    assert alarms <= 75


def test_usage_is_by_agent_version(pool: Pool, make_point: MakePoint) -> None:
    for number, seconds in enumerate((1.0, 2.0, 9.0, 0.0)):
        task, trajectory, evaluation = make_point(str(number))
        pool.append(task, replace(trajectory, usage=Usage(1, 10 * number, seconds)), evaluation)
    (row,) = usage_by_agent(pool, tenant="default")
    assert (row.trajectories, row.written_tokens, row.median_seconds, row.p95_seconds) == (4, 20, 2.0, 9.0)
    assert (row.timed, row.cost, row.priced) == (3, None, 0)
