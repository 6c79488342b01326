"""The contract of a task family: phrasings, a function that draws a case, and the oracle of each case.

The goal of a task is the changes of its oracle, so goal and oracle cannot contradict each other.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from upturn.environments.office.faults import NO_FAULTS, FaultPlan
from upturn.environments.office.generation.obstacle import Obstacle
from upturn.environments.office.generation.phrasing import phrasings_of
from upturn.environments.office.generation.scene import Scene
from upturn.environments.office.state import TABLES, Wish, Workspace
from upturn.models import write_call
from upturn.records import Action, JsonValue, Split


class OracleResult(NamedTuple):
    """The result of running the oracle."""

    workspace: Workspace
    wishes: tuple[Wish, ...]
    """The oracle's actions that need the user's agreement."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One drawn case of a family."""

    slots: Mapping[str, str]
    """Values of the phrasing's placeholders."""
    oracle: tuple[Action, ...]
    """The shortest known solution."""
    answer: str | None = None
    """The expected answer, or what a refusal must name when the task is infeasible; None = the task ends with
    ``finish``, or with any ``refuse``."""
    is_feasible: bool = True
    """False: the agent must refuse and change nothing."""
    wishes: tuple[Wish, ...] | None = None
    """The actions that the user agrees to; None = exactly those of the oracle and of ``also``."""
    also: tuple[Action, ...] = ()
    """Other actions with the same effect that the user agrees to."""
    clarification: str = ""
    """The user's answer to a question, which must be the first message to them; empty = the task is clear."""
    objection: str = ""
    """The user's reply when they decline a proposal; empty = a plain no."""
    traps: tuple[Wish, ...] = ()
    """Actions of an injected instruction."""
    cleared: tuple[str, ...] = ()
    """Ids of sensitive items that the task requires."""
    faults: FaultPlan = NO_FAULTS
    """Faults of the apps; ``oracle`` recovers from them."""
    oracle_result: OracleResult | None = field(default=None, repr=False)
    """The result of ``oracle``, which follows from the other fields; None = not computed yet."""
    obstacle: Obstacle | None = field(default=None, repr=False)
    """What a refusal without a name may state; None = the task is feasible, or the instruction asks for the name.
    Not in ``repr``, so that tasks keep their hashes."""

    @classmethod
    def with_finish(
        cls, slots: Mapping[str, str], *steps: Action, also: tuple[Action, ...] = (), clarification: str = ""
    ) -> Self:
        """A case whose oracle takes these steps and ends with ``finish``."""
        return cls(slots, (*steps, FINISH), also=also, clarification=clarification)

    @classmethod
    def with_answer(cls, slots: Mapping[str, str], text: str, *steps: Action, traps: tuple[Wish, ...] = ()) -> Self:
        """A case whose oracle takes these steps and answers ``text``."""
        return cls(slots, (*steps, answer(text)), answer=text, traps=traps)

    @classmethod
    def with_refusal(
        cls, slots: Mapping[str, str], name: str, *steps: Action, text: str = "", obstacle: Obstacle | None = None
    ) -> Self:
        """An infeasible case: the oracle takes these steps and refuses with ``text``, which must contain ``name``
        or, after a look, state the reason of ``obstacle``.

        An empty text is the name alone.
        """
        return cls(slots, (*steps, refusal(text or name)), answer=name, is_feasible=False, obstacle=obstacle)


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of task, generated from seeds without limit."""

    name: str
    level: int
    apps: tuple[str, ...]
    """Apps that the task requires, without ``user``."""
    draw: Callable[[Scene], Draft]
    atoms: tuple[str, ...] = ()
    """Difficulties beyond the number of steps, such as ``faults``; listed in the context of its tasks."""
    worded_as: str = ""
    """The family whose phrasings it uses; empty = its own name."""
    module: str = ""
    """The module with the TOML file of its phrasings; empty = that of ``draw``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", self.module or self.draw.__module__)

    def phrasings(self, split: Split) -> tuple[str, ...]:
        """The templates of its tasks in that split; raises FileFormatError where its file is invalid."""
        return phrasings_of(self.module, self.worded_as or self.name)[split]

    @property
    def templates(self) -> tuple[str, ...]:
        """Phrasings for training."""
        return self.phrasings("train")

    @property
    def heldout(self) -> tuple[str, ...]:
        """Held-out phrasings, never trained on."""
        return self.phrasings("heldout")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task's world, instruction, oracle and goal."""

    workspace: Workspace
    instruction: str
    draft: Draft
    goal: Mapping[str, JsonValue]
    """The exact changes that are expected, in the form of ``workspace.changes``."""
    baseline: Workspace
    """The workspace that changes are measured against: files that a fault moves are at their new paths."""

    def parts(self) -> Iterator[bytes]:
        """The ``repr`` of the persona, then of every item of the office. Takes milliseconds."""
        yield repr(self.workspace.persona).encode()
        for name in TABLES:
            for item in getattr(self.workspace, name).values():
                yield repr(item).encode()

    def world_hash(self) -> str:
        """16 hex digits over the office, its user and its planned faults, without the goal and the seed."""
        about = (self.workspace.owner, self.workspace.started_at, self.draft.faults)
        digest = hashlib.blake2b(repr(about).encode(), digest_size=8)
        for part in self.parts():
            digest.update(part)
        return digest.hexdigest()


def call(name: str, /, **parameters: JsonValue) -> Action:
    """An action by its full name; a trailing underscore (``as_``) avoids Python keywords."""
    target, _, operation = name.partition(".")
    return Action(target, operation, {key.rstrip("_"): value for key, value in parameters.items()})


def with_agreement(action: Action, statement: str = "this is what I am about to do") -> Iterator[Action]:
    """Previews the action, waits for the user's agreement and does it."""
    yield call("user.preview", statement=statement, call=write_call(action))
    yield call("user.confirm")
    yield action


FINISH = call("user.finish")


def answer(text: str) -> Action:
    """Ends the task with an answer."""
    return call("user.answer", text=text)


def refusal(text: str) -> Action:
    """Ends the task with a refusal that gives the reason."""
    return call("user.refuse", text=text)
