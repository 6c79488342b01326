"""Fills calendars so that people have a known first common free time."""

from collections.abc import Sequence

from upturn.environments.office.apps import CLOSES, OPENS, free_spans
from upturn.environments.office.generation.profile import MEETINGS
from upturn.environments.office.generation.scene import Scene, day_events
from upturn.environments.office.state import Attendee, Event, add_minutes


def fill_day(scene: Scene, people: Sequence[str], until: str) -> str:
    """Fills the day from 08:00 with events of these people; returns the end of the last event, which is ``until``
    or up to two hours later."""
    at = f"{until[:10]} {OPENS}"
    others = [person for person in scene.people(len(people) + 1) if person not in people]
    while at < until:
        end = add_minutes(at, minutes=scene.rng.choice((30, 45, 60, 75, 90, 105)))
        attendee = Attendee(scene.rng.choice(people), "accepted")
        title, organizer = scene.rng.choice(MEETINGS), scene.rng.choice(others)
        scene.add(Event(scene.id("e"), title, at, end, organizer, (attendee,)))
        at = end
    return at


def earliest_common_start(scene: Scene, people: Sequence[str], day: str, *, minutes: int) -> str:
    """The first start time of the day at which these people and the owner are free for ``minutes``.

    It is after 09:00: the time before it is filled.
    """
    busy_until = fill_day(scene, (scene.workspace.owner, *people), f"{day} {scene.rng.randint(9, 14):02d}:00")
    start = add_minutes(busy_until, minutes=scene.rng.choice((0, 15, 30, 60)))
    scene.clear(start, add_minutes(start, minutes=minutes), people)
    busy = day_events(scene.workspace, people, day)
    spans = free_spans(busy, f"{day} {OPENS}", f"{day} {CLOSES}", minutes=minutes)
    return spans[0][0]


def random_start(scene: Scene, day: str) -> str:
    """A random quarter of an hour of the day between 09:00 and 16:45."""
    return f"{day} {scene.rng.randint(9, 16):02d}:{scene.rng.choice(('00', '15', '30', '45'))}"


def free_start(scene: Scene, day: str, people: Sequence[str] = (), *, minutes: int = 60) -> str:
    """A random full hour of the day at which the owner and these people are all free for ``minutes``.

    If there is none, conflicting events are removed from the workspace.
    """
    hours = [f"{day} {hour:02d}:00" for hour in range(9, 17)]
    busy = day_events(scene.workspace, people, day)
    ends = {start: add_minutes(start, minutes=minutes) for start in hours}
    free = [start for start, end in ends.items() if not any(event.overlaps(start, end) for event in busy)]
    chosen = scene.rng.choice(free or hours)
    scene.clear(chosen, ends[chosen], people)
    return chosen
