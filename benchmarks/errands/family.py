"""Task families: instruction templates, a function that draws a scenario, its oracle and its expected outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.errands.mail import OWNER
from benchmarks.errands.workspace import Workspace
from benchmarks.errands.world import World
from upturn.records import Action, JsonValue

OPENERS = ("", "", "please ", "hi, ", "when you can: ", "quick one: ")
CLOSERS = ("", "", ", thanks", ", please", ", thank you", " for me")
"""Openers and closers are drawn independently of the template."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One drawn case of a family."""

    slots: Mapping[str, str]
    """Values of the template's placeholders."""
    oracle: tuple[Action, ...]
    """The shortest known solution."""
    changes: Mapping[str, JsonValue]
    """The only changes that the task allows and requires, as in ``workspace.changes``."""
    answer: str | None = None
    """The required answer to the user; None = the task ends with ``finish``."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task's world and its solution."""

    workspace: Workspace
    instruction: str
    draft: Draft


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of task, generated from seeds without limit."""

    name: str
    level: int
    draw: Callable[[World], Draft]
    templates: tuple[str, ...]
    """Templates for training."""
    heldout: tuple[str, ...]
    """Templates that are never trained on; a quarter of all."""
    is_learned: bool = True
    """False = not part of the training of nano-errands; the rule-based agent solves it."""


def call(name: str, **parameters: str) -> Action:
    """An action by its full name; ``from_``, ``as_`` and ``with_`` stand for Python's keywords."""
    target, _, operation = name.partition(".")
    return Action(target, operation, {key.rstrip("_"): value for key, value in parameters.items()})


FINISH = call("user.finish")


def sent_mail(recipients: tuple[str, ...], subject: str, body: str) -> JsonValue:
    """A new mail of the user, as in ``workspace.changes``."""
    people: list[JsonValue] = [*sorted(recipients)]
    return {
        "folder": "sent",
        "sender": OWNER,
        "recipients": people,
        "subject": subject,
        "body": body,
        "is_read": True,
    }
