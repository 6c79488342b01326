"""Calendar entries."""

from typing import Literal

from upturn.records import record

Response = Literal["none", "accepted", "tentative", "declined"]


@record
class Attendee:
    """An invited person and their response."""

    person: str
    response: Response = "none"


@record
class Event:
    """One entry; entries may overlap."""

    id: str
    title: str
    start: str
    end: str
    organizer: str
    attendees: tuple[Attendee, ...] = ()
    """Without the organizer."""
    place: str = ""
    body: str = ""
    is_online: bool = False
    is_cancelled: bool = False

    def concerns(self, person: str) -> bool:
        """Whether it is in the person's calendar: they organise it, or are invited and have not declined."""
        return self.organizer == person or any(
            attendee.person == person and attendee.response != "declined" for attendee in self.attendees
        )

    def overlaps(self, start: str, end: str) -> bool:
        """Whether it overlaps the span; touching ends do not overlap, cancelled events never do."""
        return not self.is_cancelled and self.start < end and start < self.end
