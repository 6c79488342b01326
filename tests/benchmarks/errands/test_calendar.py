"""The calendar app: exact observations, overlaps, and the changes of each operation."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.errands.operation import Effect, OperationError
from benchmarks.errands.workspace import Event, Workspace, changes
from upturn.records import Action

Apply = Callable[[str | Action], Effect]
Refusal = Callable[[str | Action], OperationError]

spans = st.tuples(st.integers(8, 18), st.integers(8, 18)).filter(lambda span: span[0] < span[1])
days = st.sampled_from(["mon", "tue"])


@given(days, spans, days, spans)
def test_events_overlap_when_they_share_an_hour(
    day: str, span: tuple[int, int], other_day: str, other: tuple[int, int]
) -> None:
    first, second = Event("e1", "a", day, *span), Event("e2", "b", other_day, *other)
    shared = {(day, hour) for hour in range(*span)} & {(other_day, hour) for hour in range(*other)}
    assert first.overlaps(second) == second.overlaps(first) == bool(shared)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("calendar.list day=mon", "e21 review 9-11\ne22 lunch 12-13"),
        ("calendar.list day=mon; title=lunch", "e22 lunch 12-13"),
        ("calendar.list day=mon; title=call", "no events"),
        ("calendar.list day=fri", "no events"),
        ("calendar.read id=e21", "review mon 9-11 with ann,bob"),
        ("calendar.read id=e22", "lunch mon 12-13 with nobody"),
    ],
)
def test_read_operations_change_nothing(apply_call: Apply, office: Workspace, call: str, text: str) -> None:
    effect = apply_call(call)
    assert effect.text == text
    assert effect.workspace == office


@pytest.mark.parametrize(
    ("call", "text", "event"),
    [
        (
            "calendar.create title=demo; day=mon; start=11; end=12",
            "created",
            {"title": "demo", "day": "mon", "start": 11, "end": 12, "attendees": []},
        ),
        (
            "calendar.create title=demo; day=mon; start=10; end=13; with=bob,ann",
            "created, overlaps e21 e22",
            {"title": "demo", "day": "mon", "start": 10, "end": 13, "attendees": ["ann", "bob"]},
        ),
    ],
)
def test_create_adds_one_event_and_names_its_overlaps(
    apply_call: Apply, office: Workspace, call: str, text: str, event: dict[str, object]
) -> None:
    effect = apply_call(call)
    assert effect.text == text
    assert changes(office, effect.workspace) == {"event/+": [event]}
    assert "e100" in effect.workspace.events


def test_move_keeps_the_length(apply_call: Apply, office: Workspace) -> None:
    effect = apply_call("calendar.move id=e21; day=tue; start=14")
    assert effect.text == "moved, overlaps e23"
    assert changes(office, effect.workspace) == {
        "event/e21/day": "tue",
        "event/e21/start": 14,
        "event/e21/end": 16,
    }
    stayed = apply_call("calendar.move id=e21; day=mon; start=9")
    assert (stayed.text, stayed.workspace) == ("moved", office)  # an event does not overlap itself


def test_cancel_removes_the_event(apply_call: Apply, office: Workspace) -> None:
    effect = apply_call("calendar.cancel id=e23")
    assert (effect.text, changes(office, effect.workspace)) == ("cancelled", {"event/-": ["e23"]})


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("calendar.read id=e99", "not_found", "no event 'e99'; use calendar.list to find ids"),
        (
            "calendar.create title=demo; day=mon; start=11; end=11",
            "bad_value",
            "an event must end after it starts and by 18, got 11-11",
        ),
        (
            "calendar.move id=e21; day=mon; start=17",
            "bad_value",
            "an event must end after it starts and by 18, got 17-19",
        ),
        (
            "calendar.create title=demo; day=mon; start=9; end=10; with=ann,zoe",
            "not_found",
            "nobody called 'zoe' in the directory",
        ),
    ],
)
def test_refusals_explain_the_error(refusal: Refusal, call: str, code: str, message: str) -> None:
    error = refusal(call)
    assert (error.code, str(error)) == (code, message)
