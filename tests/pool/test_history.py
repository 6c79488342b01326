"""Trajectories over the time at which they were recorded."""

from collections.abc import Callable

from upturn.pool import Pool
from upturn.pool.database import Location
from upturn.pool.statistics import history
from upturn.records import Evaluation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]
MONDAY = 1_772_409_600
"""2026-03-02 00:00 UTC."""


def test_time_is_cut_into_hours_days_or_weeks(location: Location, make_point: MakePoint) -> None:
    now = [float(MONDAY)]
    with Pool.open(location, clock=lambda: now[0]) as pool:
        for name, seconds in (("a", 30), ("b", 3_500), ("c", 2 * 3_600)):
            now[0] = MONDAY + seconds
            pool.append(*make_point(name))
        hours = history(pool, tenant="default")
        now[0] = MONDAY + 10 * 86_400
        pool.append(*make_point("d"))
        days = history(pool, tenant="default")
        now[0] = MONDAY + 100 * 86_400
        pool.append(*make_point("e"))
        weeks = history(pool, tenant="default")
        assert history(pool, tenant="other") == ()
    assert [((item.start - MONDAY) // 3_600, item.seconds, item.trajectories) for item in hours] == [
        (0, 3_600, 2),
        (2, 3_600, 1),
    ]
    assert [((item.start - MONDAY) // 86_400, item.trajectories) for item in days] == [(0, 3), (10, 1)]
    assert {item.seconds for item in weeks} == {7 * 86_400}
    assert sum(item.trajectories for item in weeks) == 5
    _, trajectory, evaluation = make_point("a")
    assert hours[0].written_tokens == 2 * trajectory.usage.written_tokens
    assert hours[0].successes == 2 * evaluation.is_success
