"""A workspace in which a task is being set: one of the base profiles, with what the task needs on top."""

from random import Random

from upturn.environments.suite.profile import profile
from upturn.environments.workspace import Workspace
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
