"""Cycles of a loop that goes on by itself: when the next one begins."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from upturn.config import ScheduleConfig
from upturn.loop.run import Context
from upturn.records import JsonValue

_LOOK_SECONDS = 5.0
"""Time between two looks at the conditions."""


def cycles(
    context: Context,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[int]:
    """Yields the number of each cycle when it is due, until no task is left. A resumed run yields all from 1.

    Cycles of a resumed run that have begun already are not waited for.
    """
    schedule = context.config.schedule or ScheduleConfig()
    number, begun, sequence = 1, now(), 0
    while True:
        served = context.position.tasks_served

        def wait(number: int = number, begun: datetime = begun, sequence: int = sequence) -> JsonValue:
            if number > 1:
                _wait(context, schedule, _Begin(begun, sequence), now=now, sleep=sleep)
            context.learner.catch_up()
            return {"at": now().isoformat(), "routing": context.routing_state()}

        due = context.journal.json_step(f"cycle-{number}/due", wait)
        assert isinstance(due, dict)
        context.restore_routing(due["routing"])
        begun, sequence = datetime.fromisoformat(str(due["at"])), context.learner.sequence
        yield number
        if context.position.tasks_served == served:
            context.progress.note("the loop ends: no task is left to serve")
            return
        number += 1


class _Begin(NamedTuple):
    """The beginning of a cycle."""

    at: datetime
    sequence: int
    """Number of the last record that routing had learned from."""


def _wait(
    context: Context,
    schedule: ScheduleConfig,
    begun: _Begin,
    *,
    now: Callable[[], datetime],
    sleep: Callable[[float], None],
) -> None:
    """Returns when the next cycle is due."""
    hours, needed = schedule.every_hours or 0.0, schedule.after_outcomes or 0
    is_noted = False
    while True:
        left = hours * 3600.0 - (now() - begun.at).total_seconds()
        missing = needed - context.learner.outcomes_since(begun.sequence) if needed else 0
        if left <= 0 and missing <= 0:
            return
        if not is_noted:
            why = [f"in {left / 3600:.1f} hours"] if left > 0 else []
            why += [f"after {missing} more outcomes"] if missing > 0 else []
            context.progress.note(f"the next cycle begins {' and '.join(why)}; Ctrl-C stops the loop")
            is_noted = True
        sleep(min(_LOOK_SECONDS, left) if left > 0 else _LOOK_SECONDS)
