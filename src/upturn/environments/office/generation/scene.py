"""The workspace of a task under construction: a base profile plus the task's items."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from upturn.environments.office.generation.profile import IDS, profile
from upturn.environments.office.generation.wording import Words
from upturn.environments.office.state import (
    Attendee,
    Channel,
    Chat,
    Content,
    Event,
    File,
    Item,
    Mail,
    Post,
    Right,
    Workspace,
    add_minutes,
)
from upturn.records import Split

OFFICES: Mapping[Split, range] = {"train": range(64), "heldout": range(64, 128)}
"""Numbers of base profiles by split. None is in both, so no office of a held-out task occurs in training."""
DAYS = tuple(f"2026-03-{day:02d}" for day in (3, 4, 5, 6, 9, 10, 11, 12, 13))
"""Working days of this week and the next, after today."""


class Scene:
    """A workspace under construction; single use. Everything random comes from ``rng``."""

    def __init__(self, rng: Random, seed: int = 0, *, split: Split = "train") -> None:
        """``seed``: the task's seed, for random events in its office. ``split``: selects among ``OFFICES``."""
        self.rng = rng
        self.words = Words(rng)
        self.workspace: Workspace = profile(rng.choice(OFFICES[split])).evolve(seed=seed)
        self._last_post = "2026-02-27 15:00"
        self._used_ids: set[str] = set()
        """Ids drawn so far."""

    def id(self, prefix: str) -> str:
        """An unused id, drawn like those of the profile."""
        office = self.workspace
        tables = (office.mails, office.events, office.files, office.pages, office.chats, office.channels)
        while True:
            id_ = f"{prefix}{self.rng.choice(IDS)}"
            if id_ not in self._used_ids and not any(id_ in table for table in tables):
                self._used_ids.add(id_)
                return id_

    def add(self, *items: Item) -> None:
        """Adds the items to the workspace."""
        self.workspace = self.workspace.with_items(*items)

    def people(self, count: int) -> list[str]:
        """``count`` colleagues, without the owner."""
        others = [id_ for id_ in self.workspace.people if id_ != self.workspace.owner]
        return self.rng.sample(others, count)

    def person(self) -> str:
        """One colleague."""
        return self.people(1)[0]

    def add_mail(
        self, sender: str, subject: str, body: str, *, is_read: bool = False, folder: str = "inbox"
    ) -> Mail:
        """Adds a mail to the owner from the last days."""
        day, hour, minute = self.rng.randint(23, 27), self.rng.randint(8, 17), self.rng.randint(10, 59)
        mail = Mail(
            id=self.id("m"),
            folder=folder,
            sender=sender,
            to=(self.workspace.owner,),
            subject=subject,
            body=body,
            at=f"2026-02-{day} {hour:02d}:{minute}",
            is_read=is_read,
        )
        self.add(mail)
        return mail

    def add_event(
        self,
        title: str,
        start: str,
        *,
        minutes: int = 60,
        people: Sequence[str] = (),
        organizer: str | None = None,
        place: str = "",
    ) -> Event:
        """Adds an event organised by the owner, or by ``organizer`` with the owner invited."""
        invited = set(people) if organizer is None else {*people, self.workspace.owner}
        event = Event(
            id=self.id("e"),
            title=title,
            start=start,
            end=add_minutes(start, minutes=minutes),
            organizer=organizer or self.workspace.owner,
            attendees=tuple(Attendee(person) for person in sorted(invited)),
            place=place,
        )
        self.add(event)
        return event

    def clear(self, start: str, end: str, people: Sequence[str] = ()) -> None:
        """Removes the events of the owner and these people in this span of one day."""
        for event in day_events(self.workspace, people, start[:10]):
            if event.overlaps(start, end):
                self.workspace = self.workspace.without_item(event)

    def add_file(
        self, path: str, content: Content, *, owner: str | None = None, rights: Mapping[str, Right] | None = None
    ) -> File:
        """Adds a file; by default the owner's, shared with nobody."""
        writer = owner or self.workspace.owner
        file = File(self.id("f"), path, content, writer, by=writer, at="2026-02-20 10:00", rights=rights or {})
        self.add(file)
        return file

    def add_post(self, place: Chat | Channel, sender: str, text: str) -> None:
        """Appends a message to a chat or channel, on Friday afternoon and later than earlier additions."""
        now = self.workspace.chats.get(place.id) or self.workspace.channels.get(place.id) or place
        self._last_post = add_minutes(self._last_post, minutes=self.rng.randint(1, 12))
        post = Post(sender, text, self._last_post)
        self.add(replace(now, posts=(*now.posts, post)))

    def add_chat(self, other: str) -> Chat:
        """The owner's chat with this person; created if there is none."""
        members = tuple(sorted((other, self.workspace.owner)))
        existing = next((chat for chat in self.workspace.chats.values() if chat.members == members), None)
        if existing is None:
            existing = Chat(self.id("c"), members)
            self.add(existing)
        return existing

    def day(self) -> str:
        """One of ``DAYS``."""
        return self.rng.choice(DAYS)

    def days(self, count: int) -> list[str]:
        """``count`` of ``DAYS``, in order."""
        return sorted(self.rng.sample(DAYS, count))


def day_events(workspace: Workspace, people: Sequence[str], day: str) -> list[Event]:
    """The day's events in the calendars of these people and the owner."""
    owners = (workspace.owner, *people)
    return [
        event
        for event in workspace.events.values()
        if event.start[:10] <= day <= event.end[:10] and any(event.concerns(person) for person in owners)
    ]
