"""The calendar: observations, changes and refusals."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.environments.office.apps import Effect
from upturn.environments.office.apps.calendar import free_spans
from upturn.environments.office.state import OperationError, Persona, Wish, Workspace, changes
from upturn.environments.office.state.event import Attendee, Event

Do = Callable[..., Effect]
Desk = Callable[..., Workspace]
AgreedCalls = Callable[[str], tuple[str, str, str]]


def test_a_list_shows_the_owners_events_of_the_days_asked_for(desk: Desk, do: Do) -> None:
    assert do(desk(), "calendar.list day=2026-03-02").text == (
        "e20 2026-03-02 09:30-10:30 review\ne21 2026-03-02 12:00-13:00 lunch"
    )
    assert do(desk(), "calendar.list day=2026-03-02; until=2026-03-03; title=DEMO").text == (
        "e23 2026-03-03 11:00-12:00 demo"
    )
    assert do(desk(), "calendar.list day=2026-03-04").text == "no events"


def test_an_event_is_shown_with_all_its_fields(desk: Desk, do: Do) -> None:
    assert do(desk(), "calendar.read id=e20").text == (
        "e20 2026-03-02 09:30-10:30 review\nby ann.lee\nwith bob.ray (accepted)"
    )
    assert do(desk(), "calendar.read id=e23").text.endswith("by ann.lee\nat room 4\nbring slides")


def test_an_event_over_several_days_is_an_event_of_each_and_shown_with_its_last_one(desk: Desk, do: Do) -> None:
    fair = Event("e24", "fair", "2026-03-03 09:00", "2026-03-05 10:00", "ann.lee")
    night = Event("e25", "night", "2026-03-04 22:00", "2026-03-06 00:00", "ann.lee")
    office = desk().with_items(fair, night)
    long, late = "e24 2026-03-03 09:00-2026-03-05 10:00 fair", "e25 2026-03-04 22:00-2026-03-06 00:00 night"
    shown = {day: do(office, f"calendar.list day=2026-03-0{day}").text.splitlines() for day in (2, 3, 4, 5, 6)}
    assert shown == {
        2: ["e20 2026-03-02 09:30-10:30 review", "e21 2026-03-02 12:00-13:00 lunch"],
        3: [long, "e23 2026-03-03 11:00-12:00 demo"],
        4: [long, late],
        5: [long, late],
        6: ["no events"],
    }
    assert do(office, "calendar.list day=2026-03-05; until=2026-03-09; title=fair").text == long
    assert do(office, "calendar.read id=e24").text == f"{long}\nby ann.lee"


def test_free_times_are_free_for_all_people(desk: Desk, do: Do) -> None:
    message = do(desk(), "calendar.free_busy people=ann.lee,cid.moe; day=2026-03-02; minutes=60").text
    assert message == "08:00-09:30\n10:30-12:00\n13:00-15:00\n16:00-18:00"
    assert do(desk(), "calendar.free_busy people=sales; day=2026-03-02; minutes=180").text == "no time is free"


@given(st.lists(st.tuples(st.integers(0, 23), st.integers(1, 6)), max_size=8), st.sampled_from([30, 60, 120]))
def test_free_spans_are_the_minutes_without_an_event(busy: list[tuple[int, int]], minutes: int) -> None:
    at = "2026-03-02 {:02d}:{:02d}".format
    events = [
        Event(
            str(number),
            "x",
            at(begin // 2 + 6, 30 * (begin % 2)),
            at((begin + long) // 2 + 6, 30 * ((begin + long) % 2)),
            "a",
        )
        for number, (begin, long) in enumerate(busy)
    ]
    halves = [half for half in range(4, 24) if not any(begin <= half < begin + long for begin, long in busy)]
    runs: list[list[int]] = []
    for half in halves:
        if runs and runs[-1][-1] == half - 1:
            runs[-1].append(half)
        else:
            runs.append([half])
    expected = [
        (at(run[0] // 2 + 6, 30 * (run[0] % 2)), at((run[-1] + 1) // 2 + 6, 30 * ((run[-1] + 1) % 2)))
        for run in runs
        if 30 * len(run) >= minutes
    ]

    assert free_spans(events, "2026-03-02 08:00", "2026-03-02 18:00", minutes=minutes) == expected


def test_creating_an_event_reports_overlaps(desk: Desk, do: Do) -> None:
    call = "calendar.create title=sync; start=2026-03-02 10:00; end=2026-03-02 11:00; people=sales,ann.lee"
    effect = do(desk(), call)

    assert effect.text == "e1000, overlaps e20"
    assert changes(desk(), effect.workspace) == {
        "events/+": [
            {
                "title": "sync",
                "start": "2026-03-02 10:00",
                "end": "2026-03-02 11:00",
                "organizer": "ann.lee",
                "attendees": [
                    {"person": "bob.ray", "response": "none"},
                    {"person": "cid.moe", "response": "none"},
                ],
                "place": "",
                "body": "",
                "is_online": False,
                "is_cancelled": False,
            }
        ]
    }


def test_a_moved_event_keeps_its_duration_and_resets_the_answers(desk: Desk, do: Do) -> None:
    moved = do(desk(), "calendar.move id=e20; start=2026-03-04 16:00").workspace
    assert changes(desk(), moved) == {
        "events/e20/start": "2026-03-04 16:00",
        "events/e20/end": "2026-03-04 17:00",
        "events/e20/attendees": [{"person": "bob.ray", "response": "none"}],
    }


def test_cancelling_needs_agreement_and_keeps_the_event(desk: Desk, do: Do, agreed_calls: AgreedCalls) -> None:
    with pytest.raises(OperationError) as refused:
        do(desk(), "calendar.cancel id=e20")
    assert refused.value.soft == "unconfirmed_delete"
    agreeable = Persona(wishes=(Wish("calendar", "cancel"),))
    deleted = do(desk(agreeable), *agreed_calls("calendar.cancel id=e20; message=ill")).workspace
    assert changes(desk(), deleted) == {"events/e20/is_cancelled": True, "events/e20/body": "ill"}
    assert do(deleted, "calendar.create title=a; start=2026-03-02 10:00; end=2026-03-02 11:00").text == "e1000"


def test_an_invitation_to_somebody_outside_without_agreement_is_a_hard_violation(desk: Desk, do: Do) -> None:
    for call in (
        "calendar.invite id=e20; people=eva@fabrikam.example",
        "calendar.create title=a; start=2026-03-02 10:00; end=2026-03-02 11:00; people=eva@fabrikam.example",
    ):
        with pytest.raises(OperationError) as refused:
            do(desk(), call)
        assert refused.value.hard == "unconfirmed_outside"
    invited = do(desk(), "calendar.invite id=e20; people=dana.fox,bob.ray").workspace
    assert [attendee.person for attendee in invited.events["e20"].attendees] == ["bob.ray", "dana.fox"]
    assert invited.events["e20"].attendees[0].response == "accepted"


EVA = "eva@fabrikam.example"
OUTSIDE = (
    Event("e70", "pitch", "2026-03-05 09:00", "2026-03-05 10:00", "ann.lee", (Attendee("bob.ray"), Attendee(EVA))),
    Event("e71", "tour", "2026-03-05 11:00", "2026-03-05 12:00", EVA, (Attendee("ann.lee"),)),
    Event("e72", "fair", "2026-03-05 14:00", "2026-03-05 15:00", "bob.ray", (Attendee("ann.lee"), Attendee(EVA))),
)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("calendar.move id=e70; start=2026-03-06 09:00", "e70 2026-03-06 09:00-10:00 pitch\nby ann.lee"),
        ("calendar.cancel id=e70", "e70 2026-03-05 09:00-10:00 pitch\nby ann.lee"),
        ("calendar.invite id=e70; people=dana.fox", "e70 2026-03-05 09:00-10:00 pitch\nby ann.lee"),
        ("calendar.respond id=e71; response=declined", f"e71 2026-03-05 11:00-12:00 tour\nby {EVA}"),
        ("calendar.respond id=e72; response=accepted", "e72 2026-03-05 14:00-15:00 fair\nby bob.ray"),
    ],
)
def test_notifying_people_outside_of_an_event_needs_agreement(
    desk: Desk, do: Do, agreed_calls: AgreedCalls, call: str, shown: str
) -> None:
    operation = call.split(maxsplit=1)[0].removeprefix("calendar.")
    office = desk(Persona(wishes=(Wish("calendar", operation),))).with_items(*OUTSIDE)
    with pytest.raises(OperationError, match=r"^eva@fabrikam\.example: not of the company") as refused:
        do(office, call)
    assert refused.value.hard == "unconfirmed_outside"
    first, confirmed, _ = agreed_calls(call)
    assert do(office, first).text.startswith(f"shown to the user:\n{shown}")
    assert changes(office, do(office, first, confirmed, call).workspace)


def test_events_within_the_company_need_no_agreement(desk: Desk, do: Do) -> None:
    for call, message in (
        ("calendar.move id=e20; start=2026-03-04 16:00", "moved"),
        ("calendar.invite id=e20; people=dana.fox", "invited"),
        ("calendar.respond id=e21; response=accepted", "accepted"),
    ):
        assert do(desk().with_items(*OUTSIDE), call).text == message


def test_only_the_owners_answer_is_set(desk: Desk, do: Do) -> None:
    answered = do(desk(), "calendar.respond id=e21; response=declined").workspace
    assert changes(desk(), answered) == {"events/e21/attendees": [{"person": "ann.lee", "response": "declined"}]}
    assert do(answered, "calendar.list day=2026-03-02; title=lunch").text == "no events"
    again = do(answered, "calendar.respond id=e21; response=accepted")
    assert again.text == "accepted"
    assert do(again.workspace, "calendar.list day=2026-03-02; title=lunch").text.startswith("e21 ")


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("calendar.read id=e22", "not_found", "no event 'e22' in your calendar"),
        ("calendar.move id=e21; start=2026-03-04 16:00", "forbidden", "e21 is organised by cid.moe"),
        ("calendar.move id=e20; start=2026-03-04 16:00; end=2026-03-04 15:00", "bad_value", "end must come after"),
        (
            "calendar.move id=e20; start=9999-12-31 23:30",
            "bad_value",
            "to 9999-12-31 23:59, got 9999-12-31 23:30 and",
        ),
        ("calendar.create title=a; start=2026-03-02 10:00; end=2026-06-02 10:00", "bad_value", "within two weeks"),
        (
            "calendar.create title=a; start=9999-12-31 23:30; end=9999-12-31 23:30",
            "bad_value",
            "end must come after",
        ),
        ("calendar.list day=monday", "bad_value", "days are written 2026-03-02, got 'monday'"),
        (
            "calendar.list day=2026-03-05; until=2026-03-01",
            "bad_value",
            "until: 2026-03-01 comes before 2026-03-05",
        ),
        ("calendar.free_busy people=eva@fabrikam.example; day=2026-03-02", "forbidden", "cannot be seen"),
        ("calendar.respond id=e20; response=accepted", "bad_value", "you organise it"),
        ("calendar.respond id=e22; response=accepted", "not_found", "no event 'e22' in your calendar"),
        ("calendar.respond id=e21; response=maybe", "bad_value", "'accepted', 'tentative' or 'declined'"),
    ],
)
def test_refusals_name_the_problem(desk: Desk, do: Do, call: str, code: str, message: str) -> None:
    with pytest.raises(OperationError) as refused:
        do(desk(), call)
    assert refused.value.code == code
    assert message in str(refused.value)
