"""What a family of tasks is: templates in words, a way to draw a case, and perfect work at it.

What must have changed in the end is what perfect work changes, so goal and solution cannot contradict each other.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from upturn.environments.office.faults import NO_FAULTS, FaultPlan, FaultState
from upturn.environments.office.generation.phrasing import PhrasingFile
from upturn.environments.office.generation.scene import Scene
from upturn.environments.office.state import Wish, Workspace
from upturn.models import write_call
from upturn.records import Action, JsonValue, Split


class OracleResult(NamedTuple):
    """What perfect work comes to."""

    workspace: Workspace
    wishes: tuple[Wish, ...]
    """What of it the user has to agree to."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One drawn case of a family."""

    slots: Mapping[str, str]
    """What the template's placeholders stand for."""
    oracle: tuple[Action, ...]
    """The shortest known solution."""
    answer: str | None = None
    """What the user must be told, or what a refusal must name where it is infeasible; None = it ends with
    ``finish``, or with any ``refuse``."""
    is_feasible: bool = True
    """False: right is to refuse, and to have touched nothing."""
    wishes: tuple[Wish, ...] | None = None
    """What the user agrees to; None = exactly what the oracle does, and ``also``."""
    also: tuple[Action, ...] = ()
    """Other ways to do the same that the user agrees to, such as one by one what the oracle does at once."""
    clarification: str = ""
    """What the user answers to a question, which has to be the first thing said to them; empty = nothing is
    unclear."""
    objection: str = ""
    """What the user says where they do not agree; empty = only that they do not."""
    traps: tuple[Wish, ...] = ()
    """What somebody else's text asks for."""
    cleared: tuple[str, ...] = ()
    """Ids of sensitive things that the task needs."""
    faults: FaultPlan = NO_FAULTS
    """What goes wrong in the apps; ``oracle`` gets by."""
    oracle_result: OracleResult | None = field(default=None, repr=False)
    """What ``oracle`` comes to, which follows from the rest; None = nobody has found out yet."""

    @classmethod
    def with_finish(
        cls, slots: Mapping[str, str], *steps: Action, also: tuple[Action, ...] = (), clarification: str = ""
    ) -> Self:
        """A case that is done with ``finish`` after these steps."""
        return cls(slots, (*steps, FINISH), also=also, clarification=clarification)

    @classmethod
    def with_answer(cls, slots: Mapping[str, str], text: str, *steps: Action, traps: tuple[Wish, ...] = ()) -> Self:
        """A case whose answer ``text`` is known after these steps."""
        return cls(slots, (*steps, answer(text)), answer=text, traps=traps)


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of task, generated from seeds without limit."""

    name: str
    level: int
    apps: tuple[str, ...]
    """That it takes, beside the user."""
    draw: Callable[[Scene], Draft]
    phrasing_file: PhrasingFile
    atoms: tuple[str, ...] = ()
    """What makes it harder than its steps, such as ``faults``; its tasks say so in their context."""
    worded_as: str = ""
    """The family in ``phrasing_file`` whose phrasings it uses; empty = its own name."""

    def phrasings(self, split: Split) -> tuple[str, ...]:
        """The templates of its tasks in that split; raises FileFormatError when its file is invalid."""
        return self.phrasing_file.phrasings(self.worded_as or self.name)[split]

    @property
    def templates(self) -> tuple[str, ...]:
        """For training."""
        return self.phrasings("train")

    @property
    def heldout(self) -> tuple[str, ...]:
        """Never trained on."""
        return self.phrasings("heldout")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task's world and what is right in it."""

    workspace: Workspace
    instruction: str
    draft: Draft
    goal: Mapping[str, JsonValue] = field(default_factory=dict)
    """Exactly what must differ afterwards, as ``workspace.changes`` writes it."""

    @property
    def baseline(self) -> Workspace:
        """What changes are told against: the workspace, with files where they will be once they have moved."""
        return FaultState(self.draft.faults).settled(self.workspace) if self.draft.faults else self.workspace


def call(name: str, /, **parameters: JsonValue) -> Action:
    """An action by its full name; ``as_`` and the like stand for words that Python keeps."""
    target, _, operation = name.partition(".")
    return Action(target, operation, {key.rstrip("_"): value for key, value in parameters.items()})


def agreed(action: Action, statement: str = "this is what I am about to do") -> Iterator[Action]:
    """The action after it was shown to the user, who agrees."""
    yield call("user.preview", statement=statement, call=write_call(action))
    yield call("user.confirm")
    yield action


FINISH = call("user.finish")


def answer(text: str) -> Action:
    """Tells the user the answer."""
    return call("user.answer", text=text)


def refusal(text: str) -> Action:
    """Tells the user why it cannot be done."""
    return call("user.refuse", text=text)
