"""The office as a kit."""

from collections.abc import Iterator, Mapping, Sequence

from upturn.environments.office.environment import OfficeEnvironment
from upturn.environments.office.tasks import FAMILIES, compose, task_stream
from upturn.environments.office.tools import office_tools
from upturn.environments.office.verifier import OfficeVerifier
from upturn.models import write_call
from upturn.records import Split, Task


class OfficeKit:
    """Offices, their verifier and their endless tasks."""

    def __init__(self) -> None:
        self.name = "office"
        self.families: Mapping[str, int] = {family.name: family.level for family in FAMILIES.values()}
        self.verifier = OfficeVerifier()
        self.tools = office_tools()

    def environment(self, task: Task) -> OfficeEnvironment:  # noqa: ARG002  # every task has the same kind of office
        """A new office; ``reset`` furnishes it."""
        return OfficeEnvironment()

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Endless tasks, each family once a round."""
        return task_stream(families, seed=seed, split=split)

    def hint(self, task: Task) -> str:
        """The oracle's calls, one a line."""
        return "\n".join(map(write_call, compose(task).draft.oracle))
