"""A workspace in which a task is being set: one of the base profiles, with what the task needs on top."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from upturn.environments.suite.profile import profile
from upturn.environments.workspace import Workspace
from upturn.environments.workspace.chat import Channel, Chat, Post
from upturn.environments.workspace.clock import later
from upturn.environments.workspace.event import Attendee, Event
from upturn.environments.workspace.file import Content, File, Right
from upturn.environments.workspace.mail import Mail
from upturn.environments.workspace.workspace import Item

PROFILES = 64
"""Base profiles that tasks are set in; each is made once."""


class Scene:
    """A workspace under construction; single use. Everything random comes from ``rng``."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.workspace: Workspace = profile(rng.randrange(PROFILES))
        self._numbers = rng.sample(range(100, 1_000), 60)

    def id(self, prefix: str) -> str:
        """An id that nothing in the workspace has."""
        while True:
            found = f"{prefix}{self._numbers.pop()}"
            tables = (self.workspace.mails, self.workspace.events, self.workspace.files, self.workspace.chats)
            if not any(found in table for table in tables):
                return found

    def add(self, *items: Item) -> None:
        """Puts them into the workspace."""
        self.workspace = self.workspace.with_items(*items)

    def people(self, count: int) -> list[str]:
        """So many colleagues, none of them the owner."""
        others = [id_ for id_ in self.workspace.people if id_ != self.workspace.owner]
        return self.rng.sample(others, count)

    def add_mail(
        self, sender: str, subject: str, body: str, *, is_read: bool = False, folder: str = "inbox"
    ) -> Mail:
        """A mail to the owner from the last days, with nobody else's mail of that sender under that subject."""
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
        """An event that the owner organises, or is invited to where ``organizer`` is somebody else."""
        invited = set(people) if organizer is None else {*people, self.workspace.owner}
        event = Event(
            id=self.id("e"),
            title=title,
            start=start,
            end=later(start, minutes=minutes),
            organizer=organizer or self.workspace.owner,
            attendees=tuple(Attendee(each) for each in sorted(invited)),
            place=place,
        )
        self.add(event)
        return event

    def free_start(self, day: str, people: Sequence[str] = (), *, minutes: int = 60) -> str:
        """A full hour on that day at which the owner and these people are all free so long; drawn from those.

        Events that stand in the way of the only ones are taken out of the workspace.
        """
        everybody = {self.workspace.owner, *people}
        ends = {start: later(start, minutes=minutes) for start in (f"{day} {hour:02d}:00" for hour in range(9, 17))}
        busy = [
            event
            for event in self.workspace.events.values()
            if event.start[:10] <= day <= event.end[:10] and any(event.concerns(each) for each in everybody)
        ]
        free = [start for start in ends if not any(event.overlaps(start, ends[start]) for event in busy)]
        chosen = self.rng.choice(free or list(ends))
        for event in busy:
            if event.overlaps(chosen, ends[chosen]):
                self.workspace = self.workspace.without_item(event)
        return chosen

    def add_file(
        self, path: str, content: Content, *, owner: str | None = None, rights: Mapping[str, Right] | None = None
    ) -> File:
        """A file; of the owner, whom nobody shares it with, where nothing else is given."""
        writer = owner or self.workspace.owner
        file = File(self.id("f"), path, content, writer, by=writer, at="2026-02-20 10:00", rights=rights or {})
        self.add(file)
        return file

    def add_post(self, place: Chat | Channel, sender: str, text: str) -> None:
        """A message at the end of a chat or channel, written on Friday."""
        now = self.workspace.chats.get(place.id) or self.workspace.channels.get(place.id) or place
        post = Post(sender, text, f"2026-02-27 17:{self.rng.randint(10, 59)}")
        self.add(replace(now, posts=(*now.posts, post)))

    def add_chat(self, other: str) -> Chat:
        """The owner's chat with somebody; begun where there is none."""
        members = tuple(sorted((other, self.workspace.owner)))
        found = next((each for each in self.workspace.chats.values() if each.members == members), None)
        if found is None:
            found = Chat(self.id("c"), members)
            self.add(found)
        return found

    def day(self) -> str:
        """A working day of this week or the next, after today."""
        return f"2026-03-{self.rng.choice((3, 4, 5, 6, 9, 10, 11, 12, 13)):02d}"
