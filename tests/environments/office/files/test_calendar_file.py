"""Calendar entries as .ics files."""

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.environments.office.files.directory import Directory
from upturn.environments.office.state.event import Attendee, Event
from upturn.errors import FileFormatError

icalendar = pytest.importorskip("icalendar", reason="the extra files is not installed")

from upturn.environments.office.files.calendar_file import event_bytes, read_events  # noqa: E402

BERLIN = Directory({"ann.lee": "Ann Lee", "bob.ray": 'Böb; "B" Ray'}, zone=ZoneInfo("Europe/Berlin"))
EVENT = Event(
    id="e20",
    title="review; of, \\n é",
    start="2026-03-29 02:30",
    end="2026-03-29 04:00",
    organizer="ann.lee",
    attendees=(
        Attendee("bob.ray", "accepted"),
        Attendee("eva@fabrikam.example"),
        Attendee("cid.moe", "declined"),
        Attendee("dana.fox", "tentative"),
    ),
    place="room 4",
    body="bring\nslides, ok",
    is_online=True,
    is_cancelled=True,
)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("event", [EVENT, Event("e1", "", "2026-07-01 00:00", "2026-07-02 00:00", "bob.ray")])
def test_an_event_round_trips_even_at_an_hour_skipped_by_daylight_saving(event: Event, zone: str) -> None:
    directory = BERLIN if zone == "Europe/Berlin" else Directory(zone=ZoneInfo(zone))
    written = event_bytes(event, directory)
    [result] = read_events(written, directory, owner="cid.moe")
    assert result.event == event
    assert event_bytes(event, directory) == written


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_a_date_out_of_range_in_other_zones_is_refused(day: str) -> None:
    with pytest.raises(FileFormatError, match=f"lies in the years 2 to 9998, got {day} 09:00"):
        event_bytes(replace(EVENT, start=f"{day} 09:00", end=f"{day} 10:00"), BERLIN)


def test_calendar_programs_see_the_zone_the_answers_and_the_names() -> None:
    calendar = icalendar.Calendar.from_ical(event_bytes(EVENT, BERLIN))
    [entry] = calendar.walk("VEVENT")
    assert [str(item["TZID"]) for item in calendar.walk("VTIMEZONE")] == ["Europe/Berlin"]
    assert entry["DTEND"].dt.isoformat() == "2026-03-29T04:00:00+02:00"
    assert [item.params["PARTSTAT"] for item in entry["ATTENDEE"]] == [
        "ACCEPTED",
        "NEEDS-ACTION",
        "DECLINED",
        "TENTATIVE",
    ]
    assert (str(entry["ORGANIZER"]), entry["ORGANIZER"].params["CN"]) == (
        "mailto:ann.lee@contoso.example",
        "Ann Lee",
    )


texts = st.text(st.characters(exclude_categories=["Cc", "Cs"], include_characters="\n"), max_size=90)


@settings(deadline=None, max_examples=40)
@given(texts, texts, texts)
def test_any_text_survives_a_round_trip(title: str, place: str, body: str) -> None:
    event = replace(EVENT, title=title, place=place, body=body)
    assert read_events(event_bytes(event, BERLIN), BERLIN, owner="ann.lee")[0].event == event


def entry(*lines: str) -> bytes:
    """Returns a calendar of one entry with these lines."""
    return "\r\n".join(("BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", "")).encode()


@pytest.mark.parametrize(
    ("lines", "span"),
    [
        (["DTSTART:20260302T093000Z", "DTEND:20260302T100059Z"], ("2026-03-02 10:30", "2026-03-02 11:00")),
        (["DTSTART:20260302T093000", "DURATION:PT45M"], ("2026-03-02 09:30", "2026-03-02 10:15")),
        (["DTSTART;VALUE=DATE:20260302"], ("2026-03-02 00:00", "2026-03-03 00:00")),
        (["DTSTART;TZID=America/New_York:20260302T093000"], ("2026-03-02 15:30", "2026-03-02 15:30")),
        (["DTSTART;TZID=Pacific Standard Time:20260302T093000"], ("2026-03-02 18:30", "2026-03-02 18:30")),
    ],
)
def test_foreign_times_become_those_of_the_office(lines: list[str], span: tuple[str, str]) -> None:
    [result] = read_events(entry(*lines, "UID:7@x"), BERLIN, owner="ann.lee")
    assert (result.event.start, result.event.end) == span
    assert (result.event.id, result.event.organizer) == ("", "ann.lee")


START = "DTSTART:20260302T093000Z"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"BEGIN:VCARD\nEND:VCARD", "no calendar"),
        (entry(START)[:-20], "cut off"),
        (entry("SUMMARY:x"), "'x' has no start"),
        (entry(START, "DTEND:20260301T093000Z"), "ends before it starts"),
        (entry("SUMMARY:gym", START, "RRULE:FREQ=DAILY"), "'gym' repeats"),
        (entry("DTSTART;TZID=Mars/Olympus:20260302T093000"), "nobody knows the time zone 'Mars/Olympus'"),
        (entry("DTSTART:yesterday"), "no calendar that can be read"),
        (entry(START, "ORGANIZER:mailto:nobody"), "people have addresses"),
        (entry(START, f"X-LONG:{'x' * 4 * 2**20}"), "at most 4194304 are read"),
    ],
    ids=range(9),
)
def test_errors_name_the_problem(data: bytes, reason: str) -> None:
    with pytest.raises(FileFormatError, match=reason):
        read_events(data, BERLIN, owner="ann.lee")
