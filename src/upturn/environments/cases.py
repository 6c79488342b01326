"""The tasks that a function ``make`` draws: what ``one_step`` and ``program_kit`` have in common."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from upturn.errors import UnknownNameError, WorldError, error_text
from upturn.records import Split, Task

Expected: TypeAlias = Mapping[str, Any]
"""The expected result of a task: anything that grading can use. Never shown to agents, never stored."""

_STREAMS: dict[Split, int] = {"train": 0, "heldout": 1}
"""Even seeds are for training, odd ones held out."""


class HasInstruction(Protocol):
    """A case: a task with what only grading knows."""

    @property
    def instruction(self) -> str:
        """What the agent is asked to do."""


CaseT = TypeVar("CaseT", bound=HasInstruction)


class Cases(Generic[CaseT]):
    """Draws cases by family and seed."""

    def __init__(
        self,
        name: str,
        makes: Mapping[str, Callable[..., object]],
        read: Callable[[object], CaseT | None],
        *,
        returns: str,
    ) -> None:
        """``makes``: by family, each ``make(rng)`` or ``make(rng, split=…)``. ``read``: the case in what a ``make``
        returned, None if there is none. ``returns``: what a ``make`` must return, in words.

        Raises WorldError without a name or a family.
        """
        if not name or not makes:
            raise WorldError(f"an environment needs a name and a family, got {name!r} with {list(makes)!r}")
        self.name = name
        self.families = tuple(makes)
        self._makes, self._read, self._returns = makes, read, returns
        self._takes_split = {
            family: "split" in inspect.signature(make).parameters for family, make in makes.items()
        }

    def draw(self, family: str, seed: int, split: Split) -> CaseT:
        """The same arguments give the same case, provided ``make`` uses only its generator."""
        if family not in self._makes:
            raise UnknownNameError(f"{self.name} has no family {family!r}; it has: {', '.join(self._makes)}")
        rng = Random(f"{self.name}/{family}/{seed}")
        options = {"split": split} if self._takes_split[family] else {}
        try:
            result = self._makes[family](rng, **options)
        except (Exception, SystemExit) as exc:  # third-party code
            raise WorldError(
                f"make of {self.name!r} raised {error_text(exc)} for the {split} task of family {family!r} with "
                f"seed {seed}; it must give a task for every seed"
            ) from exc
        case = self._read(result)
        if case is None:
            raise WorldError(f"make of {self.name!r} must return {self._returns}; got {result!r:.1000}")
        return case

    def of(self, task: Task) -> CaseT:
        """The task's case; raises WorldError for a task that this ``make`` does not produce."""
        case = self.draw(task.family, task.seed, task.split)
        if task.environment != self.name or task.instruction != case.instruction:
            raise WorldError(
                f"task {task.id!r} ({task.instruction!r}) is not from this {self.name!r}, which gives "
                f"{case.instruction!r} for it; make must use only its generator, and stored tasks need the make "
                "that produced them"
            )
        return case

    def tasks(
        self, *, seed: int, split: Split, levels: Mapping[str, int], families: Sequence[str]
    ) -> Iterator[Task]:
        """Endless tasks, each family once a round. Streams of different seeds share no task."""
        round_number = 0
        while True:
            number = seed * 1_000_003 + round_number
            for family in families:
                task_seed = 2 * number + _STREAMS[split]
                yield Task(
                    id=f"{self.name}/{family}/{split}/{number}",
                    instruction=self.draw(family, task_seed, split).instruction,
                    family=family,
                    environment=self.name,
                    level=levels[family],
                    seed=task_seed,
                    split=split,
                )
            round_number += 1
