"""Cycles of a loop that goes on by itself."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from upturn.config import Config, ScheduleConfig
from upturn.errors import ConfigError
from upturn.loop.cycle import serve
from upturn.loop.schedule import cycles
from upturn.pool import Pool
from upturn.records import Feedback


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += timedelta(seconds=seconds)


def scheduled(desk: ModuleType, **settings: float) -> Config:
    config: Config = desk.config(schedule=settings, tasks={"count": 20})
    assert config.schedule == ScheduleConfig(**settings)  # type: ignore[arg-type]
    return config


def test_cycles_begin_at_their_hours_and_a_resumed_run_waits_for_none_twice(
    desk: ModuleType, tmp_path: Path
) -> None:
    config, clock = scheduled(desk, every_hours=2.0), Clock()
    for resumed in (False, True):
        clock.slept.clear()
        with desk.opened(tmp_path / "run", config) as context:
            for number in islice(cycles(context, now=clock.now, sleep=clock.sleep), 3):
                serve(context, f"serve-{number}", 20)
            assert context.position.tasks_served == 60
        assert sum(clock.slept) == (0 if resumed else 4 * 3600)


def test_the_next_cycle_waits_for_outcomes(desk: ModuleType, tmp_path: Path) -> None:
    config, clock = scheduled(desk, after_outcomes=21), Clock()
    with desk.opened(tmp_path / "run", config) as context:

        def sleep(seconds: float) -> None:
            clock.sleep(seconds)
            if len(clock.slept) == 3:  # a person rates a call of another process
                decision = next(iter(context.pool.decisions(tenant="default")))
                with Pool.open(context.pool.location, beside=True) as pool:
                    rated = f"{decision.id}-rated"
                    pool.append(
                        replace(decision, id=rated, task_id=rated), Feedback("f", "decision", rated, "success", 1.0)
                    )

        numbers = cycles(context, now=clock.now, sleep=sleep)
        assert next(numbers) == 1
        serve(context, "serve-1", 20)
        learned = context.policy.state()
        assert next(numbers) == 2
        assert len(clock.slept) == 3
        assert context.policy.state() != learned


def test_the_loop_ends_without_tasks(desk: ModuleType, tmp_path: Path) -> None:
    clock = Clock()
    with desk.opened(tmp_path / "run", scheduled(desk)) as context:
        numbers = []
        for number in cycles(context, now=clock.now, sleep=clock.sleep):
            numbers.append(number)
            if number < 3:
                serve(context, f"serve-{number}", 20)
    assert numbers == [1, 2, 3]


def test_a_number_of_cycles_contradicts_a_schedule(desk: ModuleType) -> None:
    with pytest.raises(ConfigError, match=r"loop.cycles = 2 has no effect with \[schedule\]"):
        desk.config(schedule={}, loop={"cycles": 2})
