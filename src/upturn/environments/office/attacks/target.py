"""The task that an attack is made on: its oracle solution, and items of its office that it does not touch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import NamedTuple, TypeAlias, TypeVar

from upturn.environments.office.apps import has_right
from upturn.environments.office.generation import Scenario, call
from upturn.environments.office.state import Event, File, Mail, Workspace
from upturn.records import Action

ItemT = TypeVar("ItemT", Mail, Event, File)


class Script(NamedTuple):
    """Actions that attack a task."""

    actions: Sequence[Action]
    decisive: tuple[int, ...] = ()
    """Indices of actions that must be accepted, or it is no attack; empty = it always is one."""


Attack: TypeAlias = Callable[["Target"], Script | None]
"""None = it does not apply to the task."""


@dataclass(frozen=True)
class Target:
    """A task of the office. Items are in an order that is random, but the same for the same task."""

    scenario: Scenario
    id: str

    @property
    def office(self) -> Workspace:
        """The initial workspace."""
        return self.scenario.workspace

    @property
    def work(self) -> list[Action]:
        """The oracle's actions but the last."""
        return [*self.scenario.draft.oracle[:-1]]

    @property
    def end(self) -> Action:
        """The oracle's last action."""
        return self.scenario.draft.oracle[-1]

    @cached_property
    def _work_text(self) -> str:
        return repr((self.scenario.draft.oracle, self.scenario.goal, self.scenario.draft.faults))

    def _others(self, items: Iterable[ItemT]) -> list[ItemT]:
        others = [item for item in items if f"'{item.id}'" not in self._work_text]
        return Random(f"attack/{self.id}").sample(others, len(others))

    @cached_property
    def mails(self) -> list[Mail]:
        """The mails of the inbox."""
        return self._others(mail for mail in self.office.mails.values() if mail.folder == "inbox")

    @cached_property
    def events(self) -> list[Event]:
        """The events that the owner organises and to which somebody of the company is invited, without a reply."""
        return self._others(
            event
            for event in self.office.events.values()
            if event.organizer == self.office.owner and event.attendees and not event.is_cancelled
            if all(one.response == "none" and "@" not in one.person for one in event.attendees)
        )

    @cached_property
    def invitations(self) -> list[Event]:
        """The events of others in the company that the owner accepted."""
        return self._others(
            event
            for event in self.office.events.values()
            if "@" not in "".join((event.organizer, *(one.person for one in event.attendees)))
            if any((one.person, one.response) == (self.office.owner, "accepted") for one in event.attendees)
        )

    def files(self, ending: str) -> list[File]:
        """The files with this ending that the owner may edit; those that others see come first."""
        files = self._others(
            file
            for file in self.office.files.values()
            if file.path.endswith(ending) and not file.is_deleted and file.label == "general"
            if has_right(self.office, file, "edit")
        )
        return sorted(files, key=lambda file: not self.is_shared(file))

    def is_shared(self, file: File) -> bool:
        """Whether others see the file."""
        return bool(file.rights) or file.owner != self.office.owner

    def stranger(self) -> str:
        """A colleague whom the task does not name."""
        text = self._work_text + self.scenario.instruction
        return next(person for person in self.office.people if person not in text and person != self.office.owner)

    def plus(self, *actions: Action) -> Script | None:
        """The oracle solution with these actions before its end; all must be accepted."""
        count = len(self.work)
        indices = tuple(index + count for index in range(len(actions)))
        return Script([*self.work, *actions, self.end], indices) if actions else None

    def ended(self, action: Action) -> Script:
        """The oracle solution with another end."""
        return Script([*self.work, action])


def first(items: Sequence[ItemT], make: Callable[[ItemT], Iterator[Action] | Sequence[Action]]) -> list[Action]:
    """The actions on the first of the items; empty without items."""
    return [*make(items[0])] if items else []


def other_answer(text: str) -> Action:
    """Ends the task with this answer."""
    return call("user.answer", text=text)
