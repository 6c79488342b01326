"""What a task family is: templates in words, a way to draw a scenario, an oracle and the expected outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.errands.workspace import Workspace
from benchmarks.errands.world import World
from upturn.records import Action, JsonValue

OPENERS = ("", "", "please ", "hi, ", "when you can: ", "quick one: ")
CLOSERS = ("", "", ", thanks", ", please", ", thank you", " for me")
"""Drawn independently of the template, so that templates differ from each other in more than their words."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One drawn case of a family."""

    slots: Mapping[str, str]
    """What the template's placeholders stand for."""
    oracle: tuple[Action, ...]
    """The shortest known solution."""
    changes: Mapping[str, JsonValue]
    """Exactly what must differ afterwards, as ``workspace.changes`` writes it; nothing else may."""
    answer: str | None = None
    """What the user must be told; None = the task ends with ``finish``."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task's world and what is right in it."""

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
    """For training."""
    heldout: tuple[str, ...]
    """Never trained on; a quarter of all."""
    is_learned: bool = True
    """False: the nano policy is not meant to learn it; another agent serves it."""


def call(name: str, **parameters: str) -> Action:
    """An action by its full name; ``from_`` and ``as_`` and ``with_`` stand for words that Python keeps."""
    target, _, operation = name.partition(".")
    return Action(target, operation, {key.rstrip("_"): value for key, value in parameters.items()})


FINISH = call("user.finish")
